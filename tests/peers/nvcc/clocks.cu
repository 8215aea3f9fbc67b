// clock, clock64, globaltimer and nanosleep in a kernel move forward and agree roughly with the host.
#include "check.h"
#include <chrono>

__global__ void tick(long long *o) {
  long long c0 = clock64(), g0, g1;
  clock_t s0 = clock();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g0));
  volatile float x = 1;
  for (int i = 0; i < 2000; i++) x = x * 0.5f + 1.0f;
  do {
    __nanosleep(100000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g1));
  } while (g1 - g0 < 2000000);  // two milliseconds
  clock_t s1 = clock();
  o[0] = clock64() - c0;
  o[1] = g1 - g0;
  o[2] = (unsigned)s1 - (unsigned)s0;
  o[3] = g1;
}

int main() {
  long long *d, h[4], later[4];
  CHECK(cudaMalloc(&d, sizeof h));
  auto t0 = std::chrono::steady_clock::now();
  tick<<<1, 1>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - t0).count();
  EXPECT(ms > 1.9);
  EXPECT(h[1] >= 2000000 && h[1] < ms * 1.1e6 + 2e6);
  EXPECT(h[0] > 2000 && h[2] > 0);
  tick<<<1, 1>>>(d);
  CHECK(cudaMemcpy(later, d, sizeof h, cudaMemcpyDeviceToHost));
  EXPECT(later[3] > h[3]);
  printf("clocks: well\n");
}
