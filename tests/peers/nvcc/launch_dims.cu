// Launches of one, two and three dimensions number their threads and blocks as CUDA says.
#include "check.h"

__global__ void stamp(unsigned long long *out) {
  unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  unsigned long long i = (unsigned long long)block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  unsigned long long v = blockIdx.x;
  v = v * 100 + blockIdx.y;
  v = v * 100 + blockIdx.z;
  v = v * 1100 + threadIdx.x;
  v = v * 1100 + threadIdx.y;
  v = v * 100 + threadIdx.z;
  out[i] = v;
}

static void one(dim3 g, dim3 b) {
  size_t n = (size_t)g.x * g.y * g.z * b.x * b.y * b.z, i = 0;
  unsigned long long *d, *h = (unsigned long long *)malloc(n * 8);
  CHECK(cudaMalloc(&d, n * 8));
  CHECK(cudaMemset(d, 0xff, n * 8));
  stamp<<<g, b>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, n * 8, cudaMemcpyDeviceToHost));
  for (unsigned Z = 0; Z < g.z; Z++)
    for (unsigned Y = 0; Y < g.y; Y++)
      for (unsigned X = 0; X < g.x; X++)
        for (unsigned z = 0; z < b.z; z++)
          for (unsigned y = 0; y < b.y; y++)
            for (unsigned x = 0; x < b.x; x++) {
              unsigned long long v = X;
              v = v * 100 + Y;
              v = v * 100 + Z;
              v = v * 1100 + x;
              v = v * 1100 + y;
              v = v * 100 + z;
              EXPECT(h[i++] == v);
            }
  CHECK(cudaFree(d));
  free(h);
}

int main() {
  one(dim3(1), dim3(1));
  one(dim3(1), dim3(1024));
  one(dim3(70000), dim3(3));
  one(dim3(5, 7), dim3(16, 16));
  one(dim3(3, 4, 5), dim3(2, 3, 64));
  one(dim3(2, 99, 2), dim3(1, 1024, 1));
  one(dim3(2, 1, 99), dim3(33, 5, 3));
  printf("launch_dims: well\n");
}
