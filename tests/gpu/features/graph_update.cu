// nvcc:
// An executable graph gets new kernel parameters: for one node, and from a graph captured anew.
#include "feature.cuh"

constexpr int COUNT = 1024;

__global__ void scale(int *values, int by, int plus) { values[threadIdx.x] = values[threadIdx.x] * by + plus; }

static int *values, right[COUNT];
static cudaStream_t stream;

static cudaGraph_t captured(int first, int second) {
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  scale<<<1, COUNT, 0, stream>>>(values, first, 1);
  CHECK(cudaGetLastError());
  scale<<<1, COUNT, 0, stream>>>(values, second, 2);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

static void compare(const char *what, cudaGraphExec_t ready, int first, int second, int plus) {
  static int back[COUNT];
  CHECK(cudaGraphLaunch(ready, stream));
  CHECK(cudaStreamSynchronize(stream));
  to_host(back, values, COUNT);
  for (int i = 0; i < COUNT; i++) {
    right[i] = (int)((unsigned)((int)((unsigned)right[i] * first) + 1) * second + plus);
    if (back[i] != right[i]) fail("%s: value %d is %d, not %d", what, i, back[i], right[i]);
  }
}

// The node that is first in a graph of two.
static cudaGraphNode_t root(cudaGraph_t graph) {
  cudaGraphNode_t nodes[1];
  size_t count = 1;
  CHECK(cudaGraphGetRootNodes(graph, nodes, &count));
  if (count != 1) fail("%zu root nodes, not 1", count);
  return nodes[0];
}

int main() {
  feature_begin("graph_update");
  need(5);
  for (int i = 0; i < COUNT; i++) right[i] = i;
  values = to_device(right, COUNT);
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t graph = captured(3, 5);
  cudaGraphExec_t ready;
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  compare("as captured", ready, 3, 5, 2);
  cudaKernelNodeParams params = {};
  int by = 7, plus = 1;
  void *arguments[] = {&values, &by, &plus};
  params.func = (void *)scale;
  params.gridDim = dim3(1);
  params.blockDim = dim3(COUNT);
  params.kernelParams = arguments;
  CHECK(cudaGraphExecKernelNodeSetParams(ready, root(graph), &params));
  compare("with a node's new parameters", ready, 7, 5, 2);
  cudaGraph_t again = captured(2, 9);
  cudaGraphExecUpdateResultInfo result = {};
  cudaError_t said = cudaGraphExecUpdate(ready, again, &result);
  if (said != cudaSuccess) fail("cudaGraphExecUpdate: %s (result %d)", cudaGetErrorName(said), (int)result.result);
  compare("updated from another graph", ready, 2, 9, 2);
  compare("and once more", ready, 2, 9, 2);
  return well();
}
