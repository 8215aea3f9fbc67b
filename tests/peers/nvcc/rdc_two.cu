// Separate compilation: kernels, device functions, variables and constants shared by two files.
// nvcc: -rdc=true rdc_two.part.cu
#include "check.h"

extern __device__ int shared_counter;
extern __constant__ float factors[3];
extern __device__ int (*chosen)(int);
__device__ int twist(int x, int depth);
__global__ void other(int *out);
void launch_other(int *out);
__device__ int base_value = 1000;

__device__ int local_part(int x) { return x * 10; }

__global__ void use(int *out) {
  int i = threadIdx.x;
  atomicAdd(&shared_counter, 1);
  out[i] = twist(i, 3) + (int)factors[i % 3] + chosen(i);
}

int main() {
  int *d, h[64], c;
  CHECK(cudaMalloc(&d, sizeof h));
  float f[3] = {100, 200, 300};
  CHECK(cudaMemcpyToSymbol(factors, f, sizeof f));
  use<<<1, 64>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; i++) {
    int t = i;  // twist: three times through both files
    for (int k = 0; k < 3; k++) t = t * 10 + 1;
    EXPECT(h[i] == t + 100 * (i % 3 + 1) + i + 5);
  }
  CHECK(cudaMemcpyFromSymbol(&c, shared_counter, sizeof c));
  EXPECT(c == 64 + 7);
  other<<<1, 64>>>(d);  // a kernel of the other file
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; i++) EXPECT(h[i] == 1000 + i);
  launch_other(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  EXPECT(h[5] == 1005);
  printf("rdc_two: well\n");
}
