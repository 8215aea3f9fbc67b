// Shared memory: static, dynamic, both at once, and 64 KB of it after cudaFuncSetAttribute.
#include "check.h"

__global__ void reverse(int *p) {
  __shared__ int s[512];
  s[threadIdx.x] = p[blockIdx.x * 512 + threadIdx.x];
  __syncthreads();
  p[blockIdx.x * 512 + threadIdx.x] = s[511 - threadIdx.x];
}
__global__ void reduce(const int *p, int *out, int n) {
  extern __shared__ int d[];
  __shared__ int offset;
  if (threadIdx.x == 0) offset = 5;
  int sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += p[i];
  d[threadIdx.x] = sum;
  __syncthreads();
  for (int w = blockDim.x / 2; w > 0; w /= 2) {
    if (threadIdx.x < w) d[threadIdx.x] += d[threadIdx.x + w];
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = d[0] + offset;
}
__global__ void large(int *out, int n) {
  extern __shared__ int d[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) d[i] = i;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = d[n - 1 - i] + blockIdx.x * 0;
}
__global__ void any_all(int *out) {
  int t = threadIdx.x;
  int c = __syncthreads_count(t % 3 == 0), a = __syncthreads_and(t < 300), o = __syncthreads_or(t == 299);
  if (t == 7) out[0] = c, out[1] = !!a, out[2] = !!o;
}

int main() {
  const int n = 16384;
  static int h[n], r[n];
  int *d, *out, got;
  for (int i = 0; i < n; i++) h[i] = i % 101;
  CHECK(cudaMalloc(&d, sizeof h));
  CHECK(cudaMalloc(&out, sizeof h));
  CHECK(cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice));
  reverse<<<n / 512, 512>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(r, d, sizeof h, cudaMemcpyDeviceToHost));
  int sum = 5;
  for (int i = 0; i < n; i++) {
    EXPECT(r[i] == h[i / 512 * 512 + 511 - i % 512]);
    sum += h[i];
  }
  for (int threads = 32; threads <= 1024; threads *= 2) {
    reduce<<<1, threads, threads * sizeof(int)>>>(d, out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == sum);
  }
  any_all<<<1, 300>>>(out);
  CHECK(cudaMemcpy(r, out, 12, cudaMemcpyDeviceToHost));
  EXPECT(r[0] == 100 && r[1] == 1 && r[2] == 1);
  int optin;
  CHECK(cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  EXPECT(optin >= 65536);
  large<<<2, 256, 65536>>>(out, n);
  WANT(cudaErrorInvalidValue, cudaGetLastError());
  CHECK(cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  WANT(cudaErrorInvalidValue, cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, optin + 1));
  cudaGetLastError();
  large<<<2, 256, 65536>>>(out, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) EXPECT(r[i] == n - 1 - i);
  cudaFuncAttributes a;
  CHECK(cudaFuncGetAttributes(&a, reverse));
  EXPECT(a.sharedSizeBytes == 2048 && a.maxThreadsPerBlock >= 512);
  CHECK(cudaFuncGetAttributes(&a, large));
  EXPECT(a.maxDynamicSharedSizeBytes == 65536);
  printf("shared_mem: well\n");
}
