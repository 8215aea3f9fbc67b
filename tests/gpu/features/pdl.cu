// nvcc:
// Programmatic dependent launch: a kernel may begin before the one in front of it ends, and waits in itself until
// that one's results are there.
#include "feature.cuh"

constexpr int COUNT = 4096, LINKS = 40;

__device__ inline void wait_for_previous() {
#if HOPPER
  cudaGridDependencySynchronize();
#endif
}

__device__ inline void let_next_begin() {
#if HOPPER
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// A link of the chain: the next value is made of the previous kernel's.
__global__ void link(int *values, int number) {
  let_next_begin();
  wait_for_previous();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < COUNT) values[i] = values[i] * 3 + number;
}

// Lets the next kernel begin at once, and ends later; `times[0]` is its end.
__global__ void early(unsigned long long *times) {
  let_next_begin();
  wait_for_previous();
  device_spin(5);
  times[0] = device_ns();
}

// Notes when it began, and when it might go on.
__global__ void late(unsigned long long *times) {
  unsigned long long begun = device_ns();
  wait_for_previous();
  times[1] = begun;
  times[2] = times[0];
}

template <class... P, class... A>
static void launch(cudaStream_t stream, void (*kernel)(P...), int blocks, int threads, A... arguments) {
  cudaLaunchAttribute dependent = {};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &dependent;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, kernel, (P)arguments...));
}

static void chain(cudaStream_t stream, int *values) {
  for (int number = 0; number < LINKS; number++) launch(stream, link, COUNT / 128, 128, values, number);
}

static void compare(const char *what, const int *values, int rounds) {
  static int back[COUNT];
  to_host(back, values, COUNT);
  for (int i = 0; i < COUNT; i++) {
    unsigned right = i;
    for (int round = 0; round < rounds; round++)
      for (int number = 0; number < LINKS; number++) right = right * 3 + number;
    if ((unsigned)back[i] != right) fail("%s: value %d is %d, not %d", what, i, back[i], (int)right);
  }
}

int main() {
  feature_begin("pdl");
  need(9);
  int host[COUNT];
  for (int i = 0; i < COUNT; i++) host[i] = i;
  int *values = to_device(host, COUNT);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  chain(stream, values);
  compare("chain", values, 1);
  unsigned long long *times = device_array<unsigned long long>(3), seen[3];
  for (int round = 0; round < 2; round++) {
    launch(stream, early, 1, 1, times);
    launch(stream, late, 1, 1, times);
  }
  to_host(seen, times, 3);
  if (seen[2] != seen[0]) fail("a kernel went on before the one in front of it had ended");
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  chain(stream, values);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  for (int round = 0; round < 2; round++) CHECK(cudaGraphLaunch(ready, stream));
  compare("captured chain", values, 3);
  double before = ((double)seen[0] - (double)seen[1]) / 1e6;
  return before > 0 ? well("began %.2f ms before the end of the kernel in front", before)
                    : well("began after the end of the kernel in front");
}
