// A cooperative launch: all blocks of the grid wait for each other with grid.sync().
#include "check.h"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void rounds(int *a, int *b, int n, int times) {
  cg::grid_group grid = cg::this_grid();
  int *from = a, *to = b;
  for (int r = 0; r < times; r++) {
    for (int i = grid.thread_rank(); i < n; i += grid.size()) to[i] = from[(i + 1) % n] + 1;
    grid.sync();
    int *t = from;
    from = to;
    to = t;
  }
  if (grid.thread_rank() == 0 && !grid.is_valid()) a[0] = -1;
}

int main() {
  int dev = 0, ok = 0, n = 1000, times = 10, per, sms;
  CHECK(cudaDeviceGetAttribute(&ok, cudaDevAttrCooperativeLaunch, dev));
  EXPECT(ok == 1);
  int *a, *b, h[1000];
  CHECK(cudaMalloc(&a, sizeof h));
  CHECK(cudaMalloc(&b, sizeof h));
  for (int i = 0; i < n; i++) h[i] = i;
  CHECK(cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per, rounds, 64, 0));
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev));
  EXPECT(per >= 1 && sms >= 1);
  int blocks = per * sms;
  void *args[] = {&a, &b, &n, &times};
  CHECK(cudaLaunchCooperativeKernel((void *)rounds, dim3(blocks), dim3(64), args, 0, 0));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(h, a, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) EXPECT(h[i] == (i + times) % n + times);
  WANT(cudaErrorCooperativeLaunchTooLarge,
       cudaLaunchCooperativeKernel((void *)rounds, dim3(per * sms + 1), dim3(64), args, 0, 0));
  WANT(cudaErrorCooperativeLaunchTooLarge, cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  cudaLaunchConfig_t cfg = {};
  cudaLaunchAttribute at = {};
  at.id = cudaLaunchAttributeCooperative;
  at.val.cooperative = 1;
  cfg.gridDim = dim3(blocks);
  cfg.blockDim = dim3(32);
  cfg.attrs = &at;
  cfg.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&cfg, rounds, a, b, n, 2));
  CHECK(cudaMemcpy(h, a, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) EXPECT(h[i] == (i + times + 2) % n + times + 2);
  printf("cg_grid: well\n");
}
