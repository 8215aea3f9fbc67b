// malloc, free, new and delete in kernels: memory made in one kernel is used and freed in another.
#include "check.h"

struct Item {
  int value;
  Item *next;
  __device__ Item(int v, Item *n) : value(v), next(n) {}
  __device__ ~Item() { value = -1; }
};
__device__ Item *heads[64];
__device__ int *arrays[64];

__global__ void make(int *bad) {
  int t = threadIdx.x;
  heads[t] = nullptr;
  for (int i = 0; i < 5; i++) {
    heads[t] = new Item(t * 100 + i, heads[t]);
    if (!heads[t]) atomicAdd(bad, 1);
  }
  arrays[t] = (int *)malloc(1000 * sizeof(int));
  if (!arrays[t] || (size_t)arrays[t] % 16) atomicAdd(bad, 1);
  memset(arrays[t], 0, 1000 * sizeof(int));
  for (int i = 0; i < 1000; i += 3) arrays[t][i] = t + i;
}
__global__ void use(int *out) {
  int t = threadIdx.x, sum = 0;
  for (Item *i = heads[t]; i; i = i->next) sum += i->value;
  int *copy = new int[1000];
  memcpy(copy, arrays[63 - t], 1000 * sizeof(int));
  for (int i = 0; i < 1000; i++) sum += copy[i];
  delete[] copy;
  out[t] = sum;
}
__global__ void drop() {
  int t = threadIdx.x;
  for (Item *i = heads[t], *n; i; i = n) {
    n = i->next;
    delete i;
  }
  free(arrays[t]);
  free(nullptr);
}
__global__ void too_much(int *out) {
  void *p = malloc((size_t)1 << 40);
  *out = p == nullptr;
}

int main() {
  size_t heap;
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20));
  CHECK(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
  EXPECT(heap >= 32 << 20);
  int *d, h[64], bad;
  CHECK(cudaMalloc(&d, sizeof h));
  for (int round = 0; round < 50; round++) {
    CHECK(cudaMemset(d, 0, sizeof h));
    make<<<1, 64>>>(d);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&bad, d, sizeof bad, cudaMemcpyDeviceToHost));
    EXPECT(bad == 0);
    use<<<1, 64>>>(d);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    for (int t = 0; t < 64; t++) {
      int want = 5 * t * 100 + 10;
      for (int i = 0; i < 1000; i += 3) want += 63 - t + i;
      EXPECT(h[t] == want);
    }
    drop<<<1, 64>>>();
    CHECK(cudaDeviceSynchronize());
  }
  too_much<<<1, 1>>>(d);
  CHECK(cudaMemcpy(h, d, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(h[0] == 1);
  printf("kernel_malloc: well\n");
}
