// A graph built node by node: memset, copies, kernels, a host node, an empty node and a child graph.
#include "check.h"

__global__ void fill(int *p, int n, int v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += v + i;
}
static void note(void *p) { ++*(int *)p; }

int main() {
  int n = 1000, v = 7, notes = 0, *d, *e, *h = (int *)malloc(n * sizeof(int));
  CHECK(cudaMalloc(&d, n * sizeof(int)));
  CHECK(cudaMalloc(&e, n * sizeof(int)));
  cudaGraph_t g, child;
  cudaGraphNode_t set, kernel, copy, back, host, empty, kid, inner;
  CHECK(cudaGraphCreate(&g, 0));
  cudaMemsetParams ms = {};
  ms.dst = d;
  ms.value = 10;
  ms.elementSize = 4;
  ms.width = n;
  ms.height = 1;
  CHECK(cudaGraphAddMemsetNode(&set, g, nullptr, 0, &ms));
  void *args[] = {&d, &n, &v};
  cudaKernelNodeParams kp = {};
  kp.func = (void *)fill;
  kp.gridDim = dim3(4);
  kp.blockDim = dim3(256);
  kp.kernelParams = args;
  CHECK(cudaGraphAddKernelNode(&kernel, g, &set, 1, &kp));
  CHECK(cudaGraphAddMemcpyNode1D(&copy, g, &kernel, 1, e, d, n * sizeof(int), cudaMemcpyDeviceToDevice));
  CHECK(cudaGraphCreate(&child, 0));
  int hundred = 100;
  void *args2[] = {&e, &n, &hundred};
  cudaKernelNodeParams kp2 = kp;
  kp2.kernelParams = args2;
  CHECK(cudaGraphAddKernelNode(&inner, child, nullptr, 0, &kp2));
  CHECK(cudaGraphAddChildGraphNode(&kid, g, &copy, 1, child));
  CHECK(cudaGraphAddEmptyNode(&empty, g, nullptr, 0));
  CHECK(cudaGraphAddDependencies(g, &kid, &empty, nullptr, 1));
  CHECK(cudaGraphAddMemcpyNode1D(&back, g, &empty, 1, h, e, n * sizeof(int), cudaMemcpyDeviceToHost));
  cudaHostNodeParams hp = {note, &notes};
  CHECK(cudaGraphAddHostNode(&host, g, &back, 1, &hp));
  size_t nodes = 0, edges = 0, roots = 0;
  CHECK(cudaGraphGetNodes(g, nullptr, &nodes));
  CHECK(cudaGraphGetEdges(g, nullptr, nullptr, nullptr, &edges));
  CHECK(cudaGraphGetRootNodes(g, nullptr, &roots));
  EXPECT(nodes == 7 && edges == 6 && roots == 1);
  cudaGraphNodeType type;
  CHECK(cudaGraphNodeGetType(host, &type));
  EXPECT(type == cudaGraphNodeTypeHost);
  cudaGraphExec_t x;
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaGraphInstantiate(&x, g, 0));
  for (int r = 0; r < 3; r++) CHECK(cudaGraphLaunch(x, s));
  CHECK(cudaStreamSynchronize(s));
  EXPECT(notes == 3);
  for (int i = 0; i < n; i++) EXPECT(h[i] == 10 + 7 + i + 100 + i);
  v = 1000;  // parameters were copied at the add; the executable graph changes only when told
  CHECK(cudaGraphExecKernelNodeSetParams(x, kernel, &kp));
  CHECK(cudaGraphLaunch(x, s));
  CHECK(cudaStreamSynchronize(s));
  for (int i = 0; i < n; i++) EXPECT(h[i] == 10 + 1000 + i + 100 + i);
  cudaGraph_t twin;
  CHECK(cudaGraphClone(&twin, g));
  CHECK(cudaGraphDestroyNode(host));
  CHECK(cudaGraphGetNodes(g, nullptr, &nodes));
  EXPECT(nodes == 6);
  CHECK(cudaGraphGetNodes(twin, nullptr, &nodes));
  EXPECT(nodes == 7);
  CHECK(cudaGraphExecDestroy(x));
  CHECK(cudaGraphDestroy(twin));
  CHECK(cudaGraphDestroy(child));
  CHECK(cudaGraphDestroy(g));
  CHECK(cudaStreamDestroy(s));
  printf("graph_nodes: well\n");
}
