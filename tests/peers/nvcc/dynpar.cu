// Dynamic parallelism: a launch inside a kernel either works or is refused with an error in words, never ignored.
// nvcc: -rdc=true -lcudadevrt
#include "check.h"

__global__ void child(int *p, int v) { p[threadIdx.x] = v + threadIdx.x; }
__global__ void parent(int *p, int *status) {
  if (threadIdx.x == 0) {
    child<<<1, 32>>>(p, 100);
    *status = (int)cudaGetLastError();
  }
}

int main() {
  int *d, h[33];
  CHECK(cudaMalloc(&d, sizeof h));
  CHECK(cudaMemset(d, 0xff, sizeof h));
  parent<<<1, 32>>>(d, d + 32);
  cudaError_t e = cudaGetLastError();
  if (e == cudaSuccess) e = cudaDeviceSynchronize();
  if (e == cudaSuccess) e = cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) {
    EXPECT(strlen(cudaGetErrorString(e)) > 5 && strcmp(cudaGetErrorString(e), "unrecognized error code"));
    printf("refused by the host's call: %s\n", cudaGetErrorString(e));
  } else if (h[32] != cudaSuccess) {
    EXPECT(h[32] != -1);  // the parent ran and told its error
    printf("refused in the kernel: %s\n", cudaGetErrorString((cudaError_t)h[32]));
  } else {
    for (int i = 0; i < 32; i++) EXPECT(h[i] == 100 + i);
    printf("the child ran\n");
  }
  printf("dynpar: well\n");
}
