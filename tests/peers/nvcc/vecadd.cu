// Adds two vectors of a million floats with a grid-stride loop and with one thread an element.
#include "check.h"

__global__ void add(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void axpy(float s, const float *a, float *c, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) c[i] = s * a[i] + c[i];
}

int main() {
  const int n = 1000003;
  float *h = (float *)malloc(3 * n * sizeof(float)), *ha = h, *hb = h + n, *hc = h + 2 * n;
  for (int i = 0; i < n; i++) ha[i] = (float)(i % 1000), hb[i] = (float)(i % 77);
  float *a, *b, *c;
  CHECK(cudaMalloc(&a, n * sizeof(float)));
  CHECK(cudaMalloc(&b, n * sizeof(float)));
  CHECK(cudaMalloc(&c, n * sizeof(float)));
  CHECK(cudaMemcpy(a, ha, n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(b, hb, n * sizeof(float), cudaMemcpyHostToDevice));
  add<<<(n + 255) / 256, 256>>>(a, b, c, n);
  CHECK(cudaGetLastError());
  axpy<<<32, 128>>>(2.0f, a, c, n);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(hc, c, n * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) EXPECT(hc[i] == 3 * ha[i] + hb[i]);
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaFree(c));
  CHECK(cudaFree(nullptr));
  free(h);
  printf("vecadd: well\n");
}
