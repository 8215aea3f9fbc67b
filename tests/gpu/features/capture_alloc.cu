// nvcc:
// Stream capture with cudaMallocAsync and cudaFreeAsync inside: the graph owns its memory at each launch.
#include "feature.cuh"

constexpr int COUNT = 1 << 16;

__global__ void square(const int *from, int *to) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[i] * from[i];
}

__global__ void add_shifted(const int *from, int *to) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] += from[(i + 1) % COUNT];
}

int main() {
  feature_begin("capture_alloc");
  need(5);
  if (!attribute(cudaDevAttrMemoryPoolsSupported)) fail("cudaDevAttrMemoryPoolsSupported is 0");
  static int host[COUNT], back[COUNT];
  for (int i = 0; i < COUNT; i++) host[i] = i % 1000;
  int *from = to_device(host, COUNT), *to = device_array<int>(COUNT), *between = nullptr;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMallocAsync(&between, sizeof host, stream));
  square<<<COUNT / 256, 256, 0, stream>>>(from, between);
  CHECK(cudaGetLastError());
  add_shifted<<<COUNT / 256, 256, 0, stream>>>(between, to);
  CHECK(cudaGetLastError());
  CHECK(cudaFreeAsync(between, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  for (int round = 1; round <= 3; round++) {
    CHECK(cudaGraphLaunch(ready, stream));
    // Between the rounds the memory may serve others.
    int *other = nullptr;
    CHECK(cudaMallocAsync(&other, sizeof host, stream));
    CHECK(cudaMemsetAsync(other, 0x5a, sizeof host, stream));
    CHECK(cudaFreeAsync(other, stream));
    CHECK(cudaStreamSynchronize(stream));
    to_host(back, to, COUNT);
    for (int i = 0; i < COUNT; i++) {
      int value = host[(i + 1) % COUNT], right = round * value * value;
      if (back[i] != right) fail("round %d: value %d is %d, not %d", round, i, back[i], right);
    }
  }
  CHECK(cudaGraphExecDestroy(ready));
  CHECK(cudaGraphDestroy(graph));
  return well();
}
