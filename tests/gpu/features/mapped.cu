// nvcc:
// Mapped host memory: a running kernel sees what the host stores meanwhile, and the host sees the kernel's answer.
#include "feature.cuh"

constexpr int TURNS = 5;

// Answers each flag of the host's; gives up a turn after three seconds.
__global__ void answer(volatile int *to, volatile int *from, volatile int *given_up) {
  for (int turn = 1; turn <= TURNS; turn++) {
    unsigned long long begun = device_ns();
    while (to[0] != turn)
      if (device_ns() - begun > 3000000000ull) {
        *given_up = turn;
        __threadfence_system();
        return;
      }
    __threadfence_system();
    from[1] = to[1] * 3;
    __threadfence_system();
    from[0] = turn;
    __threadfence_system();
  }
}

int main() {
  feature_begin("mapped");
  need(5);
  if (!attribute(cudaDevAttrCanMapHostMemory)) fail("cudaDevAttrCanMapHostMemory is 0");
  // Host: flag and value; at 64: the kernel's flag and value; at 128: the turn that it gave up.
  int *host, *device;
  CHECK(cudaHostAlloc(&host, 4096, cudaHostAllocMapped));
  memset(host, 0, 4096);
  CHECK(cudaHostGetDevicePointer(&device, host, 0));
  volatile int *words = host;
  answer<<<1, 1>>>(device, device + 64, device + 128);
  CHECK(cudaGetLastError());
  // Some drivers hand launches over only when asked.
  cudaStreamQuery(0);
  cudaGetLastError();
  double slowest = 0;
  for (int turn = 1; turn <= TURNS; turn++) {
    words[1] = turn * 1000 + 7;
    __sync_synchronize();
    double begun = now();
    words[0] = turn;
    while (words[64] != turn && !words[128] && now() - begun < 4)
      ;
    if (words[64] != turn) fail("the kernel did not see flag %d while it ran", turn);
    __sync_synchronize();
    if (words[65] != (turn * 1000 + 7) * 3) fail("the kernel answered %d, not %d", words[65], (turn * 1000 + 7) * 3);
    double took = now() - begun;
    // The first turn holds the kernel's start.
    if (turn > 1 && took > slowest) slowest = took;
  }
  CHECK(cudaDeviceSynchronize());
  return well("a turn took at most %.1f us", slowest * 1e6);
}
