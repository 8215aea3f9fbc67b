// An illegal address in a kernel sticks: every later call of the process reports it.
#include "check.h"

__global__ void write(int *p) { *p = 1; }

int main() {
  int *d, h = 0;
  CHECK(cudaMalloc(&d, sizeof(int)));
  write<<<1, 1>>>(d);
  CHECK(cudaDeviceSynchronize());
  write<<<1, 1>>>((int *)16);
  CHECK(cudaGetLastError());  // the launch itself is well
  WANT(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  WANT(cudaErrorIllegalAddress, cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
  void *q;
  WANT(cudaErrorIllegalAddress, cudaMalloc(&q, 4));
  WANT(cudaErrorIllegalAddress, cudaGetLastError());
  WANT(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  write<<<1, 1>>>(d);
  WANT(cudaErrorIllegalAddress, cudaPeekAtLastError());
  WANT(cudaErrorIllegalAddress, cudaGetLastError());
  cudaStream_t s;
  WANT(cudaErrorIllegalAddress, cudaStreamCreate(&s));
  EXPECT(!strcmp(cudaGetErrorString(cudaErrorIllegalAddress), "an illegal memory access was encountered"));
  printf("errors_sticky: well\n");
}
