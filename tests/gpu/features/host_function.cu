// nvcc:
// cudaLaunchHostFunc: the function runs after the work before it and before the work behind it, and its caller goes
// on meanwhile.
#include "feature.cuh"

constexpr int SLOW_MS = 100;

__global__ void slow_store(int *to, int value) {
  device_spin(SLOW_MS);
  *to = value;
}

__global__ void add(int *to, int value) { *to += value; }

struct Hand {
  int *host;  // pinned: what the device wrote, then what the host made of it
  int seen, calls;
  double began;
};

static void CUDART_CB turn(void *with) {
  Hand *hand = (Hand *)with;
  hand->began = now();
  hand->seen = *hand->host;
  usleep(SLOW_MS * 1000);
  *hand->host = hand->seen * 10 + 2;
  hand->calls++;
}

int main() {
  feature_begin("host_function");
  need(5);
  int *device = device_array<int>(1), *host;
  CHECK(cudaMallocHost(&host, sizeof *host));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  // The first round warms up.
  for (int round = 0; round < 2; round++) {
    Hand hand = {host, 0, 0, 0};
    *host = -1;
    double begun = now();
    slow_store<<<1, 1, 0, stream>>>(device, 1);
    CHECK(cudaMemcpyAsync(host, device, sizeof *host, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaLaunchHostFunc(stream, turn, &hand));
    CHECK(cudaMemcpyAsync(device, host, sizeof *host, cudaMemcpyHostToDevice, stream));
    add<<<1, 1, 0, stream>>>(device, 300);
    CHECK(cudaLaunchHostFunc(stream, turn, &hand));
    double called = now() - begun;
    CHECK(cudaStreamSynchronize(stream));
    double all = now() - begun;
    int last = 0;
    CHECK(cudaMemcpy(&last, device, sizeof last, cudaMemcpyDeviceToHost));
    // 1, then 12 by the host, 312 by the kernel; the second call sees the host's 12 again.
    if (hand.calls != 2) fail("%d calls, not 2", hand.calls);
    if (last != 312) fail("the device has %d at the end, not 312", last);
    if (*host != 122) fail("the host has %d at the end, not 122", *host);
    if (all < SLOW_MS * 3e-3 * 0.9) fail("all of it took %.0f ms, less than its parts", all * 1e3);
    if (round && called > all / 4) fail("the caller was held for %.0f of %.0f ms", called * 1e3, all * 1e3);
    if (round) return well("the calls took %.1f of %.0f ms", called * 1e3, all * 1e3);
  }
}
