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

// 4 KiB of local memory for each thread: a few dozen blocks of 1,024 are as much as a launch may take on a CPU worker.
__global__ void large(int *out) {
  volatile int own[1024];
  for (int i = 0; i < 1024; i += 64) own[(i + threadIdx.x) % 1024] = threadIdx.x + i;
  cg::grid_group grid = cg::this_grid();
  grid.sync();
  atomicAdd(out, own[threadIdx.x % 1024] == (int)threadIdx.x);
  grid.sync();
}

// A grid is refused, or it runs to its end: it never waits for blocks that cannot begin.
static int runs_large(int blocks) {
  int *out, h = 0;
  CHECK(cudaMalloc(&out, sizeof h));
  CHECK(cudaMemset(out, 0, sizeof h));
  void *args[] = {&out};
  cudaError_t said = cudaLaunchCooperativeKernel((void *)large, dim3(blocks), dim3(1024), args, 0, 0);
  if (said != cudaSuccess) {
    EXPECT(said == cudaErrorCooperativeLaunchTooLarge);
    EXPECT(cudaGetLastError() == said);
    return 0;
  }
  CHECK(cudaMemcpy(&h, out, sizeof h, cudaMemcpyDeviceToHost));
  EXPECT(h == blocks * 1024);
  CHECK(cudaFree(out));
  return 1;
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
  EXPECT(runs_large(32));
  int large_per;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&large_per, large, 1024, 0));
  for (int count = 40; count <= large_per * sms; count += 4) runs_large(count);
  runs_large(large_per * sms);
  printf("cg_grid: well\n");
}
