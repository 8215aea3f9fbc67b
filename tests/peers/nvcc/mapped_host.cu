// Mapped host memory and cudaHostRegister: kernels read and write memory of the host in place.
#include "check.h"

__global__ void twice(const int *in, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}
__global__ void count(int *c) { atomicAdd(c, 1); }

int main() {
  const int n = 10000;
  int *a, *b, *da, *db;
  unsigned flags;
  CHECK(cudaHostAlloc(&a, n * sizeof(int), cudaHostAllocMapped | cudaHostAllocPortable));
  CHECK(cudaHostAlloc(&b, n * sizeof(int), cudaHostAllocMapped | cudaHostAllocWriteCombined));
  CHECK(cudaHostGetDevicePointer(&da, a, 0));
  CHECK(cudaHostGetDevicePointer(&db, b, 0));
  CHECK(cudaHostGetFlags(&flags, a));
  EXPECT((flags & cudaHostAllocMapped) && (flags & cudaHostAllocPortable));
  for (int i = 0; i < n; i++) b[i] = i;
  twice<<<(n + 255) / 256, 256>>>(db, da, n);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++) EXPECT(a[i] == 2 * i);
  twice<<<(n + 255) / 256, 256>>>(a, a, n);  // unified addressing: the host's pointer will do
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++) EXPECT(a[i] == 4 * i);
  // Memory of malloc, registered and let go again.
  int *raw = (int *)aligned_alloc(4096, 16 * 4096), *draw;
  const int m = 16 * 4096 / sizeof(int);
  for (int i = 0; i < m; i++) raw[i] = i ^ 0x55;
  CHECK(cudaHostRegister(raw, 16 * 4096, cudaHostRegisterMapped));
  WANT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(raw, 16 * 4096, cudaHostRegisterDefault));
  cudaGetLastError();
  CHECK(cudaHostGetDevicePointer(&draw, raw, 0));
  twice<<<(m + 255) / 256, 256>>>(draw, draw, m);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < m; i++) EXPECT(raw[i] == 2 * (i ^ 0x55));
  raw[5] = 0;
  count<<<10, 100>>>(draw + 5);
  CHECK(cudaDeviceSynchronize());
  EXPECT(raw[5] == 1000);
  int *d;
  CHECK(cudaMalloc(&d, 16 * 4096));
  CHECK(cudaMemcpyAsync(d, raw, 16 * 4096, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyAsync(a, d, n * sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++) EXPECT(a[i] == raw[i]);
  CHECK(cudaHostUnregister(raw));
  WANT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(raw));
  cudaGetLastError();
  free(raw);
  CHECK(cudaFreeHost(a));
  CHECK(cudaFreeHost(b));
  CHECK(cudaFree(d));
  printf("mapped_host: well\n");
}
