// Constant memory: arrays, structures, initial values, offsets, and 60 KB of it read by every thread.
#include "check.h"

struct Params {
  double scale;
  int shift;
  char tag[12];
};
__constant__ float coeffs[4] = {1.0f, 0.5f, 0.25f, 0.125f};
__constant__ Params params;
__constant__ int big[15000];
__constant__ int *where;

__global__ void poly(float *out) {
  float x = (float)threadIdx.x, r = 0;
  for (int i = 3; i >= 0; i--) r = r * x + coeffs[i];
  out[threadIdx.x] = r;
}
__global__ void use(double *out) { out[threadIdx.x] = params.scale * threadIdx.x + params.shift + params.tag[threadIdx.x % 12]; }
__global__ void spread() {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 15000) where[i] = big[14999 - i];
}

int main() {
  float *f, hf[64];
  double *d, hd[64];
  CHECK(cudaMalloc(&f, sizeof hf));
  CHECK(cudaMalloc(&d, sizeof hd));
  poly<<<1, 64>>>(f);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(hf, f, sizeof hf, cudaMemcpyDeviceToHost));
  for (int x = 0; x < 64; x++) EXPECT(hf[x] == ((0.125f * x + 0.25f) * x + 0.5f) * x + 1.0f);
  float two[2] = {8.0f, 16.0f};
  CHECK(cudaMemcpyToSymbol(coeffs, two, sizeof two, 2 * sizeof(float)));
  poly<<<1, 64>>>(f);
  CHECK(cudaMemcpy(hf, f, sizeof hf, cudaMemcpyDeviceToHost));
  for (int x = 0; x < 64; x++) EXPECT(hf[x] == ((16.0f * x + 8.0f) * x + 0.5f) * x + 1.0f);
  Params p = {2.5, -4, "hello world"};
  CHECK(cudaMemcpyToSymbol(params, &p, sizeof p));
  use<<<1, 64>>>(d);
  CHECK(cudaMemcpy(hd, d, sizeof hd, cudaMemcpyDeviceToHost));
  for (int x = 0; x < 64; x++) EXPECT(hd[x] == 2.5 * x - 4 + "hello world"[x % 12]);
  static int in[15000], out[15000];
  for (int i = 0; i < 15000; i++) in[i] = i * i;
  int *w;
  size_t size;
  CHECK(cudaMalloc(&w, sizeof out));
  CHECK(cudaGetSymbolSize(&size, big));
  EXPECT(size == sizeof in);
  CHECK(cudaMemcpyToSymbolAsync(big, in, sizeof in, 0, cudaMemcpyHostToDevice, 0));
  CHECK(cudaMemcpyToSymbol(where, &w, sizeof w));
  spread<<<60, 256>>>();
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out, w, sizeof out, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 15000; i++) EXPECT(out[i] == in[14999 - i]);
  memset(out, 0, sizeof out);
  CHECK(cudaMemcpyFromSymbol(out, big, 4000, 400));
  for (int i = 0; i < 1000; i++) EXPECT(out[i] == in[100 + i]);
  printf("constant_mem: well\n");
}
