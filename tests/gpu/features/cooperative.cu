// nvcc:
// A cooperative launch of machine code: all blocks of the grid wait for one another, round after round.
#include "feature.cuh"

#include <cooperative_groups.h>
namespace cg = cooperative_groups;

constexpr int COUNT = 5000, ROUNDS = 50;

// Each round reads what other blocks wrote in the round before.
__global__ void rounds(int *a, int *b, int count, int times) {
  cg::grid_group grid = cg::this_grid();
  int *from = a, *to = b;
  for (int round = 0; round < times; round++) {
    for (int i = grid.thread_rank(); i < count; i += grid.size()) to[i] = from[(i + 997) % count] + 1;
    grid.sync();
    int *other = from;
    from = to;
    to = other;
  }
}

static void compare(const char *what, const int *device, int times) {
  static int back[COUNT];
  to_host(back, device, COUNT);
  for (int i = 0; i < COUNT; i++) {
    int right = (i + 997 * times) % COUNT + times;
    if (back[i] != right) fail("%s: value %d is %d, not %d", what, i, back[i], right);
  }
}

int main() {
  feature_begin("cooperative");
  need(6);
  if (!attribute(cudaDevAttrCooperativeLaunch)) fail("cudaDevAttrCooperativeLaunch is 0");
  int host[COUNT], count = COUNT, times = ROUNDS, per = 0;
  for (int i = 0; i < COUNT; i++) host[i] = i;
  int *a = to_device(host, COUNT), *b = device_array<int>(COUNT);
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per, rounds, 64, 0));
  int fit = per * attribute(cudaDevAttrMultiProcessorCount), blocks = fit < 264 ? fit : 264;
  void *arguments[] = {&a, &b, &count, &times};
  CHECK(cudaLaunchCooperativeKernel((void *)rounds, dim3(blocks), dim3(64), arguments, 0, 0));
  compare("cudaLaunchCooperativeKernel", a, ROUNDS);
  cudaError_t said = cudaLaunchCooperativeKernel((void *)rounds, dim3(fit + 1), dim3(64), arguments, 0, 0);
  if (said != cudaErrorCooperativeLaunchTooLarge) fail("a grid that does not fit gives %s", cudaGetErrorName(said));
  cudaGetLastError();
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(64);
  config.attrs = &cooperative;
  config.numAttrs = 1;
  CHECK(cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice));
  CHECK(cudaLaunchKernelEx(&config, rounds, a, b, count, 4));
  compare("cudaLaunchKernelEx", a, 4);
  return well("%d blocks of 64 threads", blocks);
}
