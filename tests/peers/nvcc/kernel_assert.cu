// assert in a kernel: the message names the thread, and every later call reports cudaErrorAssert.
#include "check.h"
#include <cassert>
#include <string>
#include <unistd.h>

__global__ void verify(int limit) { assert((int)threadIdx.x < limit); }

int main() {
  verify<<<2, 32>>>(32);  // holds
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  FILE *f = tmpfile();
  fflush(stderr);
  int keep = dup(2);
  dup2(fileno(f), 2);
  verify<<<1, 32>>>(31);
  cudaError_t e = cudaDeviceSynchronize();
  fflush(stderr);
  dup2(keep, 2);
  WANT(cudaErrorAssert, e);
  std::string all;
  rewind(f);
  for (int c; (c = fgetc(f)) != EOF;) all += (char)c;
  if (all.find("kernel_assert.cu:7: ") == std::string::npos) fprintf(stderr, "message: %s\n", all.c_str());
  EXPECT(all.find("kernel_assert.cu:7: ") != std::string::npos);
  EXPECT(all.find("block: [0,0,0], thread: [31,0,0] Assertion `(int)threadIdx.x < limit` failed.") != std::string::npos);
  void *p = nullptr;
  WANT(cudaErrorAssert, cudaMalloc(&p, 100));
  WANT(cudaErrorAssert, cudaDeviceSynchronize());
  verify<<<1, 32>>>(32);
  WANT(cudaErrorAssert, cudaPeekAtLastError());
  WANT(cudaErrorAssert, cudaGetLastError());
  EXPECT(!strcmp(cudaGetErrorName(cudaErrorAssert), "cudaErrorAssert"));
  EXPECT(!strcmp(cudaGetErrorString(cudaErrorAssert), "device-side assert triggered"));
  printf("kernel_assert: well\n");
}
