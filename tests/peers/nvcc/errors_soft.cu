// Errors that do not stick: bad launches and bad arguments are reported once and work goes on.
#include "check.h"

__global__ void one(int *p) { *p = 1; }

int main() {
  int *d, h = 0;
  CHECK(cudaMalloc(&d, sizeof(int)));
  one<<<1, 1025>>>(d);
  WANT(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
  WANT(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
  WANT(cudaErrorInvalidConfiguration, cudaGetLastError());
  CHECK(cudaGetLastError());
  one<<<0, 1>>>(d);
  WANT(cudaErrorInvalidConfiguration, cudaGetLastError());
  one<<<1, 0>>>(d);
  WANT(cudaErrorInvalidConfiguration, cudaGetLastError());
  one<<<dim3(1, 70000), 1>>>(d);
  WANT(cudaErrorInvalidConfiguration, cudaGetLastError());
  one<<<1, dim3(1, 1, 65)>>>(d);
  WANT(cudaErrorInvalidConfiguration, cudaGetLastError());
  WANT(cudaErrorInvalidValue, cudaMemcpy(nullptr, &h, sizeof h, cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());  // does not clear what was recorded
  WANT(cudaErrorInvalidValue, cudaGetLastError());
  WANT(cudaErrorInvalidMemcpyDirection, cudaMemcpy(d, &h, sizeof h, (cudaMemcpyKind)77));
  cudaGetLastError();
  WANT(cudaErrorMemoryAllocation, cudaMalloc(&d, (size_t)1 << 50));
  WANT(cudaErrorMemoryAllocation, cudaGetLastError());
  WANT(cudaErrorInvalidValue, cudaMalloc((void **)nullptr, 4));
  cudaGetLastError();
  int x;
  WANT(cudaErrorInvalidValue, cudaFree(&x));
  cudaGetLastError();
  WANT(cudaErrorInvalidDevice, cudaSetDevice(99));
  WANT(cudaErrorInvalidDevice, cudaSetDevice(-1));
  cudaGetLastError();
  WANT(cudaErrorInvalidValue, cudaStreamCreateWithFlags(nullptr, 0));
  cudaGetLastError();
  EXPECT(!strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue"));
  EXPECT(!strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument"));
  EXPECT(!strcmp(cudaGetErrorString(cudaSuccess), "no error"));
  EXPECT(!strcmp(cudaGetErrorString((cudaError_t)123456), "unrecognized error code"));
  CHECK(cudaMalloc(&d, sizeof(int)));
  one<<<1, 1>>>(d);  // all is well again
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
  EXPECT(h == 1);
  printf("errors_soft: well\n");
}
