// nvcc:
// A wait for an early event ends before the work behind it does; waits and times of events are those of the device.
#include "feature.cuh"

constexpr int SHORT_MS = 20, LONG_MS = 300;

__global__ void slow_store(int *to, int value, int ms) {
  device_spin(ms);
  *to = value;
}

int main() {
  feature_begin("event_step");
  need(5);
  int *device = device_array<int>(2), *host, last = 0;
  CHECK(cudaMallocHost(&host, sizeof *host));
  cudaStream_t stream;
  cudaEvent_t events[3];
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (cudaEvent_t &event : events) CHECK(cudaEventCreate(&event));
  double early = 0, all = 0;
  // The first round warms up.
  for (int round = 0; round < 2; round++) {
    *host = -1;
    double begun = now();
    CHECK(cudaEventRecord(events[0], stream));
    slow_store<<<1, 1, 0, stream>>>(device, 11 + round, SHORT_MS);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(host, device, sizeof *host, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaEventRecord(events[1], stream));
    slow_store<<<1, 1, 0, stream>>>(device + 1, 22 + round, LONG_MS);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(events[2], stream));
    CHECK(cudaEventSynchronize(events[1]));
    early = now() - begun;
    if (*host != 11 + round) fail("after the early event the host has %d, not %d", *host, 11 + round);
    cudaError_t later = cudaEventQuery(events[2]);
    // "Not ready" would stand as the last error.
    cudaGetLastError();
    if (round && later != cudaErrorNotReady) fail("the wait ended with the late event: %s", cudaGetErrorName(later));
    CHECK(cudaEventSynchronize(events[2]));
    all = now() - begun;
    CHECK(cudaMemcpy(&last, device + 1, sizeof last, cudaMemcpyDeviceToHost));
    if (last != 22 + round) fail("after the late event the device has %d, not %d", last, 22 + round);
  }
  if (early > all / 2) fail("the wait for the early event took %.0f of %.0f ms", early * 1e3, all * 1e3);
  float first = 0, second = 0;
  CHECK(cudaEventElapsedTime(&first, events[0], events[1]));
  CHECK(cudaEventElapsedTime(&second, events[1], events[2]));
  if (first < SHORT_MS * 0.9 || second < LONG_MS * 0.9 || first + second > all * 1e3 + 50)
    fail("the events are %.1f and %.1f ms apart, for %d and %d", first, second, SHORT_MS, LONG_MS);
  return well("the wait took %.1f of %.1f ms", early * 1e3, all * 1e3);
}
