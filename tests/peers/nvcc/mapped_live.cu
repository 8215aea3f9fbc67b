// A kernel that runs sees what the host stores in mapped memory meanwhile, and the host sees its answer.
#include "check.h"
#include <chrono>
#include <thread>

__global__ void talk(volatile int *to, volatile int *from) {
  unsigned long long t0, t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
  for (int k = 1; k <= 3; k++) {
    while (to[0] != k) {
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
      if (t - t0 > 5000000000ull) {  // five seconds: give up
        from[1] = k;
        return;
      }
    }
    __threadfence_system();
    from[0] = 100 * k;
    __threadfence_system();
  }
}

int main() {
  int *to, *from;
  CHECK(cudaHostAlloc(&to, 4096, cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&from, 4096, cudaHostAllocMapped));
  memset(to, 0, 4096);
  memset(from, 0, 4096);
  volatile int *vt = to, *vf = from;
  talk<<<1, 1>>>(to, from);
  CHECK(cudaGetLastError());
  for (int k = 1; k <= 3; k++) {
    vt[0] = k;
    for (int i = 0; i < 6000 && vf[0] != 100 * k && vf[1] == 0; i++) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT(vf[1] == 0 && vf[0] == 100 * k);
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFreeHost(to));
  CHECK(cudaFreeHost(from));
  printf("mapped_live: well\n");
}
