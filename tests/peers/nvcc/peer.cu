// Two devices: allocations on each, peer access, and copies from one to the other.
// run: --devices 2
#include "check.h"

__global__ void fill(int *p, int n, int v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = v + i;
}

int main() {
  int count = 0, can = -1, can2 = -1, cur = -1;
  CHECK(cudaGetDeviceCount(&count));
  EXPECT(count >= 2);
  const int n = 10000;
  static int h[n];
  int *a, *b;
  CHECK(cudaSetDevice(0));
  CHECK(cudaMalloc(&a, sizeof h));
  fill<<<(n + 255) / 256, 256>>>(a, n, 5);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(1));
  CHECK(cudaGetDevice(&cur));
  EXPECT(cur == 1);
  CHECK(cudaMalloc(&b, sizeof h));
  CHECK(cudaMemset(b, 0, sizeof h));
  cudaPointerAttributes at;
  CHECK(cudaPointerGetAttributes(&at, a));
  EXPECT(at.device == 0);
  CHECK(cudaPointerGetAttributes(&at, b));
  EXPECT(at.device == 1);
  CHECK(cudaMemcpyPeer(b, 1, a, 0, sizeof h));
  CHECK(cudaMemcpy(h, b, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) EXPECT(h[i] == 5 + i);
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  fill<<<(n + 255) / 256, 256, 0, s>>>(b, n, 77);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyPeerAsync(a, 0, b, 1, sizeof h, s));
  CHECK(cudaStreamSynchronize(s));
  CHECK(cudaMemcpy(h, a, sizeof h, cudaMemcpyDefault));
  for (int i = 0; i < n; i++) EXPECT(h[i] == 77 + i);
  CHECK(cudaDeviceCanAccessPeer(&can, 1, 0));
  CHECK(cudaDeviceCanAccessPeer(&can2, 1, 1));
  EXPECT(can2 == 0);
  if (can) {
    CHECK(cudaDeviceEnablePeerAccess(0, 0));
    WANT(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(0, 0));
    cudaGetLastError();
    fill<<<(n + 255) / 256, 256>>>(a, n, 900);  // device 1 writes memory of device 0
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(h, a, sizeof h, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) EXPECT(h[i] == 900 + i);
    CHECK(cudaDeviceDisablePeerAccess(0));
  } else {
    WANT(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(0, 0));
    cudaGetLastError();
  }
  WANT(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
  cudaGetLastError();
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  WANT(cudaErrorInvalidDevice, cudaSetDevice(count));
  cudaGetLastError();
  printf("peer: well\n");
}
