// Streams: asynchronous copies, one stream waiting for another, priorities, flags and query.
#include "check.h"
#include <atomic>
#include <chrono>
#include <thread>

__global__ void scale(int *p, int n, int f, int add) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * f + add;
}
static std::atomic<int> gate{0};
static void hold(void *) {
  while (!gate) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

int main() {
  const int n = 1 << 16;
  int *h, *d, low, high, prio;
  unsigned flags;
  CHECK(cudaMallocHost(&h, n * sizeof(int)));
  CHECK(cudaMalloc(&d, n * sizeof(int)));
  CHECK(cudaDeviceGetStreamPriorityRange(&low, &high));
  EXPECT(low >= high);
  cudaStream_t s, t;
  cudaEvent_t e;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithPriority(&t, cudaStreamNonBlocking, high));
  CHECK(cudaStreamGetPriority(t, &prio));
  EXPECT(prio == high);
  CHECK(cudaStreamGetFlags(s, &flags));
  EXPECT(flags == cudaStreamNonBlocking);
  CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  for (int i = 0; i < n; i++) h[i] = i;
  scale<<<1, 1, 0, s>>>(d, 0, 1, 0);  // loads the kernel, which may wait for the device
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaLaunchHostFunc(s, hold, nullptr));
  CHECK(cudaMemcpyAsync(d, h, n * sizeof(int), cudaMemcpyHostToDevice, s));
  scale<<<n / 256, 256, 0, s>>>(d, n, 3, 1);
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(e, s));
  CHECK(cudaStreamWaitEvent(t, e, 0));
  scale<<<n / 256, 256, 0, t>>>(d, n, 2, 5);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyAsync(h, d, n * sizeof(int), cudaMemcpyDeviceToHost, t));
  WANT(cudaErrorNotReady, cudaStreamQuery(s));
  WANT(cudaErrorNotReady, cudaStreamQuery(t));
  WANT(cudaErrorNotReady, cudaEventQuery(e));
  cudaGetLastError();
  gate = 1;
  CHECK(cudaStreamSynchronize(t));
  CHECK(cudaStreamQuery(t));
  CHECK(cudaStreamQuery(s));
  for (int i = 0; i < n; i++) EXPECT(h[i] == (i * 3 + 1) * 2 + 5);
  // Sixteen streams, each with its own slice.
  cudaStream_t many[16];
  for (int k = 0; k < 16; k++) {
    CHECK(cudaStreamCreate(&many[k]));
    int *part = d + k * (n / 16), *hpart = h + k * (n / 16);
    CHECK(cudaMemsetAsync(part, 0, n / 16 * sizeof(int), many[k]));
    scale<<<n / 16 / 256, 256, 0, many[k]>>>(part, n / 16, 1, k + 1);
    CHECK(cudaMemcpyAsync(hpart, part, n / 16 * sizeof(int), cudaMemcpyDeviceToHost, many[k]));
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++) EXPECT(h[i] == i / (n / 16) + 1);
  for (int k = 0; k < 16; k++) CHECK(cudaStreamDestroy(many[k]));
  unsigned long long id1, id2;
  CHECK(cudaStreamGetId(s, &id1));
  CHECK(cudaStreamGetId(t, &id2));
  EXPECT(id1 != id2);
  CHECK(cudaEventDestroy(e));
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaStreamDestroy(t));
  CHECK(cudaFreeHost(h));
  CHECK(cudaFree(d));
  printf("streams: well\n");
}
