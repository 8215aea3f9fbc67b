// nvcc:
// Two streams: two kernels wait for one another, so both must run at the same time.
#include "feature.cuh"

constexpr int WAIT_S = 3;

// Sets a flag and waits for the other one; leaves 1 if it came, 2 if it did not come in time.
__global__ void meet(volatile int *mine, volatile int *theirs, int *outcome) {
  *mine = 1;
  __threadfence();
  unsigned long long begun = device_ns();
  while (!*theirs)
    if (device_ns() - begun > WAIT_S * 1000000000ull) {
      *outcome = 2;
      return;
    }
  *outcome = 1;
}

int main() {
  feature_begin("overlap");
  need(5);
  int *words = device_array<int>(4), seen[2];
  cudaStream_t streams[2];
  for (cudaStream_t &stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  // A kernel that meets itself: the code is loaded afterwards.
  for (cudaStream_t stream : streams) {
    meet<<<1, 1, 0, stream>>>(words, words, words + 2);
    RAN();
  }
  CHECK(cudaMemset(words, 0, 4 * sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  double begun = now();
  for (int i = 0; i < 2; i++) {
    meet<<<1, 1, 0, streams[i]>>>(words + i, words + 1 - i, words + 2 + i);
    CHECK(cudaGetLastError());
  }
  to_host(seen, words + 2, 2);
  double took = now() - begun;
  for (int i = 0; i < 2; i++)
    if (seen[i] != 1) fail("kernel %d did not meet the other one within %d s", i, WAIT_S);
  return well("met within %.3f ms", took * 1e3);
}
