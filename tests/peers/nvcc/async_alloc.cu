// Stream-ordered allocation: cudaMallocAsync, the default pool, a pool of one's own, thresholds and trimming.
#include "check.h"

__global__ void fill(int *p, int n, int v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = v + i;
}

int main() {
  int supported = 0;
  CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  EXPECT(supported);
  const int n = 50000;
  int *h = (int *)malloc(n * sizeof(int)), *p, *q;
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  for (int r = 0; r < 20; r++) {
    CHECK(cudaMallocAsync(&p, n * sizeof(int), s));
    fill<<<(n + 255) / 256, 256, 0, s>>>(p, n, r);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(h, p, n * sizeof(int), cudaMemcpyDeviceToHost, s));
    CHECK(cudaFreeAsync(p, s));
    CHECK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++) EXPECT(h[i] == r + i);
  }
  cudaMemPool_t def, cur, mine;
  CHECK(cudaDeviceGetDefaultMemPool(&def, 0));
  CHECK(cudaDeviceGetMemPool(&cur, 0));
  EXPECT(def == cur);
  unsigned long long threshold = ~0ull, got = 1;
  CHECK(cudaMemPoolGetAttribute(def, cudaMemPoolAttrReleaseThreshold, &got));
  EXPECT(got == 0);
  CHECK(cudaMemPoolSetAttribute(def, cudaMemPoolAttrReleaseThreshold, &threshold));
  CHECK(cudaMemPoolGetAttribute(def, cudaMemPoolAttrReleaseThreshold, &got));
  EXPECT(got == threshold);
  cudaMemPoolProps props = {};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = 0;
  CHECK(cudaMemPoolCreate(&mine, &props));
  CHECK(cudaMemPoolSetAttribute(mine, cudaMemPoolAttrReleaseThreshold, &threshold));
  CHECK(cudaMallocFromPoolAsync(&q, n * sizeof(int), mine, s));
  fill<<<(n + 255) / 256, 256, 0, s>>>(q, n, 9);
  CHECK(cudaMemcpyAsync(h, q, n * sizeof(int), cudaMemcpyDeviceToHost, s));
  CHECK(cudaStreamSynchronize(s));
  for (int i = 0; i < n; i++) EXPECT(h[i] == 9 + i);
  unsigned long long used = 0, reserved = 0;
  CHECK(cudaMemPoolGetAttribute(mine, cudaMemPoolAttrUsedMemCurrent, &used));
  CHECK(cudaMemPoolGetAttribute(mine, cudaMemPoolAttrReservedMemCurrent, &reserved));
  EXPECT(used >= n * sizeof(int) && reserved >= used);
  CHECK(cudaFreeAsync(q, s));
  CHECK(cudaStreamSynchronize(s));
  CHECK(cudaMemPoolGetAttribute(mine, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT(used == 0);
  CHECK(cudaMemPoolTrimTo(mine, 0));
  CHECK(cudaMemPoolGetAttribute(mine, cudaMemPoolAttrReservedMemCurrent, &reserved));
  EXPECT(reserved == 0);
  CHECK(cudaDeviceSetMemPool(0, mine));
  CHECK(cudaDeviceGetMemPool(&cur, 0));
  EXPECT(cur == mine);
  CHECK(cudaMallocAsync(&p, 64, s));
  CHECK(cudaMemPoolGetAttribute(mine, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT(used >= 64);
  CHECK(cudaStreamSynchronize(s));
  CHECK(cudaFree(p));  // the plain free is allowed too
  CHECK(cudaDeviceSetMemPool(0, def));
  CHECK(cudaMemPoolDestroy(mine));
  CHECK(cudaStreamDestroy(s));
  printf("async_alloc: well\n");
}
