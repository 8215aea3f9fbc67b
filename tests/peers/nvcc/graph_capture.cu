// A graph by stream capture over two streams, launched several times, and updated from a second capture.
#include "check.h"

__global__ void addto(int *p, int n, int v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += v;
}
__global__ void join2(int *p, const int *q, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += q[i];
}
static const int n = 4096;
static int *a, *b, *h;
static cudaStream_t s, t;
static cudaEvent_t fork_, join_;

static cudaGraph_t capture(int v, int w) {
  cudaGraph_t g;
  cudaStreamCaptureStatus st;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  CHECK(cudaStreamIsCapturing(s, &st));
  EXPECT(st == cudaStreamCaptureStatusActive);
  CHECK(cudaEventRecord(fork_, s));
  CHECK(cudaStreamWaitEvent(t, fork_, 0));
  addto<<<n / 256, 256, 0, s>>>(a, n, v);
  CHECK(cudaMemsetAsync(b, 0, n * sizeof(int), t));
  addto<<<n / 256, 256, 0, t>>>(b, n, w);
  CHECK(cudaEventRecord(join_, t));
  CHECK(cudaStreamWaitEvent(s, join_, 0));
  join2<<<n / 256, 256, 0, s>>>(a, b, n);
  CHECK(cudaMemcpyAsync(h, a, n * sizeof(int), cudaMemcpyDeviceToHost, s));
  CHECK(cudaStreamEndCapture(s, &g));
  CHECK(cudaStreamIsCapturing(s, &st));
  EXPECT(st == cudaStreamCaptureStatusNone);
  return g;
}

int main() {
  CHECK(cudaMalloc(&a, n * sizeof(int)));
  CHECK(cudaMalloc(&b, n * sizeof(int)));
  CHECK(cudaMallocHost(&h, n * sizeof(int)));
  CHECK(cudaMemset(a, 0, n * sizeof(int)));
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming));
  memset(h, 0, n * sizeof(int));
  CHECK(cudaDeviceSynchronize());
  cudaGraph_t g = capture(1, 10);
  size_t nodes;
  CHECK(cudaGraphGetNodes(g, nullptr, &nodes));
  EXPECT(nodes == 5);
  cudaGraphExec_t x;
  CHECK(cudaGraphInstantiate(&x, g, 0));
  EXPECT(h[5] == 0);  // capturing runs nothing
  for (int r = 1; r <= 5; r++) {
    CHECK(cudaGraphLaunch(x, s));
    CHECK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++) EXPECT(h[i] == 11 * r);
  }
  cudaGraph_t g2 = capture(2, 20);
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(x, g2, &info));
  EXPECT(info.result == cudaGraphExecUpdateSuccess);
  for (int r = 0; r < 3; r++) CHECK(cudaGraphLaunch(x, s));
  CHECK(cudaStreamSynchronize(s));
  for (int i = 0; i < n; i++) EXPECT(h[i] == 55 + 66);
  // Another topology does not fit.
  cudaGraph_t g3;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  addto<<<1, 32, 0, s>>>(a, 32, 1);
  CHECK(cudaStreamEndCapture(s, &g3));
  WANT(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(x, g3, &info));
  EXPECT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  cudaGetLastError();
  // A call that may not be captured ends the capture.
  cudaGraph_t bad = nullptr;
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  WANT(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(s));
  WANT(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s, &bad));
  EXPECT(bad == nullptr);
  cudaGetLastError();
  CHECK(cudaGraphExecDestroy(x));
  CHECK(cudaGraphDestroy(g));
  CHECK(cudaGraphDestroy(g2));
  CHECK(cudaGraphDestroy(g3));
  CHECK(cudaDeviceSynchronize());
  printf("graph_capture: well\n");
}
