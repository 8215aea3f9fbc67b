// A static library of device code, linked into a program: device functions and a kernel come from the library.
// nvcc: -rdc=true
// lib: device_lib.part.cu
#include "check.h"

__device__ double horner(const double *c, int n, double x);
__global__ void cube(float *p, int n);
int library_version();

__global__ void eval(double *out) {
  const double c[4] = {1, -2, 3, 0.5};
  out[threadIdx.x] = horner(c, 4, threadIdx.x);
}

int main() {
  double *d, h[32];
  float *f, hf[32];
  EXPECT(library_version() == 3);
  CHECK(cudaMalloc(&d, sizeof h));
  CHECK(cudaMalloc(&f, sizeof hf));
  eval<<<1, 32>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (int x = 0; x < 32; x++) EXPECT(h[x] == ((0.5 * x + 3) * x - 2) * x + 1);
  for (int i = 0; i < 32; i++) hf[i] = (float)i;
  CHECK(cudaMemcpy(f, hf, sizeof hf, cudaMemcpyHostToDevice));
  cube<<<1, 32>>>(f, 32);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(hf, f, sizeof hf, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; i++) EXPECT(hf[i] == (float)(i * i * i));
  printf("device_lib: well\n");
}
