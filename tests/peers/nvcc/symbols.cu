// __device__ variables: initial values, copies to and from symbols, addresses, sizes, templates and namespaces.
#include "check.h"

__device__ int counter = 40;
__device__ double grid3[3][5] = {{1, 2, 3, 4, 5}, {6}};
__device__ unsigned char bytes[7] = {1, 2, 3, 4, 5, 6, 7};
__device__ int *self = &counter;
namespace deep {
static __device__ long long hidden = -1;
}
template <int N> __device__ int square = N * N;

__global__ void step(double *out) {
  atomicAdd(self, 2);
  deep::hidden *= 3;
  out[0] = grid3[0][4] + grid3[1][0];
  out[1] = bytes[6];
  out[2] = square<12> + square<5>;
}

int main() {
  double *d, h[3];
  CHECK(cudaMalloc(&d, sizeof h));
  step<<<1, 1>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  EXPECT(h[0] == 11 && h[1] == 7 && h[2] == 169);
  int c = 0;
  CHECK(cudaMemcpyFromSymbol(&c, counter, sizeof c));
  EXPECT(c == 42);
  long long hid;
  CHECK(cudaMemcpyFromSymbol(&hid, deep::hidden, sizeof hid));
  EXPECT(hid == -3);
  double v = 100;
  CHECK(cudaMemcpyToSymbol(grid3, &v, sizeof v, 5 * sizeof(double)));
  c = 7;
  CHECK(cudaMemcpyToSymbol(counter, &c, sizeof c));
  step<<<1, 1>>>(d);
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  EXPECT(h[0] == 105);
  void *p;
  size_t n;
  CHECK(cudaGetSymbolAddress(&p, counter));
  CHECK(cudaGetSymbolSize(&n, grid3));
  EXPECT(n == 15 * sizeof(double));
  CHECK(cudaMemcpy(&c, p, sizeof c, cudaMemcpyDeviceToHost));
  EXPECT(c == 9);
  CHECK(cudaMemset(p, 0, sizeof c));
  int *ptr;
  CHECK(cudaMemcpyFromSymbol(&ptr, self, sizeof ptr));
  EXPECT(ptr == p);
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaMemcpyFromSymbolAsync(&c, counter, sizeof c, 0, cudaMemcpyDeviceToHost, s));
  CHECK(cudaStreamSynchronize(s));
  EXPECT(c == 0);
  unsigned char hb[7];
  CHECK(cudaMemcpyFromSymbol(hb, bytes, 3, 4));
  EXPECT(hb[0] == 5 && hb[2] == 7);
  WANT(cudaErrorInvalidValue, cudaMemcpyFromSymbol(hb, bytes, 7, 4));  // past the end
  cudaGetLastError();
  static int host_only;
  WANT(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&p, &host_only));
  cudaGetLastError();
  printf("symbols: well\n");
}
