// Eight host threads use the device at once, each with its own stream and memory, and count together.
#include "check.h"
#include <atomic>
#include <thread>
#include <vector>

__device__ unsigned long long everyone;
__global__ void work(int *p, int n, int seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    p[i] = p[i] * 3 + seed;
    atomicAdd(&everyone, 1ull);
  }
}
static std::atomic<int> done{0};

static void one(int seed) {
  const int n = 5000, rounds = 20;
  std::vector<int> h(n), want(n);
  int *d;
  cudaStream_t s;
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&d, n * sizeof(int)));
  for (int i = 0; i < n; i++) h[i] = want[i] = i % 7 + seed;
  CHECK(cudaMemcpyAsync(d, h.data(), n * sizeof(int), cudaMemcpyHostToDevice, s));
  for (int r = 0; r < rounds; r++) {
    work<<<(n + 127) / 128, 128, 0, s>>>(d, n, seed);
    CHECK(cudaGetLastError());
    for (int i = 0; i < n; i++) want[i] = (int)((unsigned)want[i] * 3u + seed);
  }
  // The last error belongs to the thread that made it.
  if (seed == 3) WANT(cudaErrorInvalidDevice, cudaSetDevice(1234));
  else CHECK(cudaPeekAtLastError());
  CHECK(cudaMemcpyAsync(h.data(), d, n * sizeof(int), cudaMemcpyDeviceToHost, s));
  CHECK(cudaStreamSynchronize(s));
  for (int i = 0; i < n; i++) EXPECT(h[i] == want[i]);
  CHECK(cudaFree(d));
  CHECK(cudaStreamDestroy(s));
  done++;
}

int main() {
  std::vector<std::thread> t;
  for (int k = 0; k < 8; k++) t.emplace_back(one, k + 1);
  for (auto &x : t) x.join();
  EXPECT(done == 8);
  CHECK(cudaGetLastError());
  unsigned long long all;
  CHECK(cudaMemcpyFromSymbol(&all, everyone, sizeof all));
  EXPECT(all == 8ull * 20 * 5000);
  printf("host_threads: well\n");
}
