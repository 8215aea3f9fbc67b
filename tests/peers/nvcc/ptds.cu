// With the per-thread default stream two host threads do not wait for each other.
// nvcc: --default-stream per-thread
#include "check.h"
#include <atomic>
#include <chrono>
#include <thread>

__global__ void add(int *p, int v) { p[threadIdx.x] += v; }
static std::atomic<int> gate{0};
static void hold(void *) {
  while (!gate) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

int main() {
  int *a, *b, *h, g[64];
  CHECK(cudaMallocHost(&h, sizeof g));
  CHECK(cudaMalloc(&a, sizeof g));
  CHECK(cudaMalloc(&b, sizeof g));
  CHECK(cudaMemset(a, 0, sizeof g));
  CHECK(cudaMemset(b, 0, sizeof g));
  add<<<1, 64>>>(a, 0);  // loads the kernel, which may wait for the device
  CHECK(cudaDeviceSynchronize());
  std::atomic<int> held{0};
  std::thread other([&] {
    held = 1;
    CHECK(cudaLaunchHostFunc(0, hold, nullptr));  // this thread's own default stream waits
    add<<<1, 64>>>(a, 5);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(h, a, sizeof g, cudaMemcpyDeviceToHost, 0));
    CHECK(cudaStreamSynchronize(0));
  });
  while (!held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (int r = 0; r < 3; r++) add<<<1, 64>>>(b, 7);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(g, b, sizeof g, cudaMemcpyDeviceToHost));
  CHECK(cudaStreamSynchronize(0));
  CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  for (int i = 0; i < 64; i++) EXPECT(g[i] == 21);
  gate = 1;
  other.join();
  for (int i = 0; i < 64; i++) EXPECT(h[i] == 5);
  add<<<1, 64, 0, cudaStreamLegacy>>>(b, 1);  // the old default stream is there by name
  CHECK(cudaStreamSynchronize(cudaStreamLegacy));
  CHECK(cudaMemcpy(g, b, sizeof g, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; i++) EXPECT(g[i] == 22);
  printf("ptds: well\n");
}
