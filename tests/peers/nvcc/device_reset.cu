// cudaDeviceReset gives everything back: variables start anew, old pointers are gone, and work goes on.
#include "check.h"

__device__ int counter = 5;
__global__ void step(int *out) { *out = atomicAdd(&counter, 1); }

int main() {
  for (int round = 0; round < 3; round++) {
    int *d, h = -1;
    cudaStream_t s;
    CHECK(cudaMalloc(&d, sizeof(int)));
    CHECK(cudaStreamCreate(&s));
    step<<<1, 1, 0, s>>>(d);
    step<<<1, 1, 0, s>>>(d);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(&h, d, sizeof h, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    EXPECT(h == 6);
    CHECK(cudaDeviceReset());
    CHECK(cudaGetLastError());
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, d));
    EXPECT(a.type == cudaMemoryTypeUnregistered);
  }
  int c;
  CHECK(cudaMemcpyFromSymbol(&c, counter, sizeof c));
  EXPECT(c == 5);
  CHECK(cudaDeviceReset());
  CHECK(cudaDeviceReset());
  printf("device_reset: well\n");
}
