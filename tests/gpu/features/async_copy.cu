// nvcc:
// cudaMemcpyAsync to pinned memory returns at once, long before the kernel in front of it ends.
#include "feature.cuh"

constexpr int COUNT = 1 << 18, SLOW_MS = 200;

__global__ void slow_fill(int *to, int value) {
  device_spin(SLOW_MS);
  for (int i = threadIdx.x; i < COUNT; i += blockDim.x) to[i] = value + i;
}

int main() {
  feature_begin("async_copy");
  need(5);
  int *device = device_array<int>(COUNT), *host;
  CHECK(cudaMallocHost(&host, COUNT * sizeof(int)));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  double called = 0, all = 0;
  // The first round warms up.
  for (int round = 0; round < 2; round++) {
    memset(host, 0, COUNT * sizeof(int));
    double begun = now();
    slow_fill<<<1, 256, 0, stream>>>(device, round * 1000);
    CHECK(cudaGetLastError());
    double copied = now();
    CHECK(cudaMemcpyAsync(host, device, COUNT * sizeof(int), cudaMemcpyDeviceToHost, stream));
    called = now() - copied;
    cudaError_t going_on = cudaStreamQuery(stream);
    // "Not ready" would stand as the last error.
    cudaGetLastError();
    if (round && going_on != cudaErrorNotReady)
      fail("the call came back after %.1f ms, when all was done", called * 1e3);
    CHECK(cudaStreamSynchronize(stream));
    all = now() - begun;
    for (int i = 0; i < COUNT; i++)
      if (host[i] != round * 1000 + i) fail("value %d is %d, not %d", i, host[i], round * 1000 + i);
  }
  if (called > SLOW_MS * 1e-3 / 4) fail("the call took %.1f ms of %.0f", called * 1e3, all * 1e3);
  return well("the call took %.1f us of %.0f ms", called * 1e6, all * 1e3);
}
