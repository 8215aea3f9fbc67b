// nvcc:
// Thread block clusters: sizes given at launch and compiled in, ranks, and shared memory of other blocks.
#include "feature.cuh"

#include <cooperative_groups.h>

constexpr int THREADS = 64;

// Sums a value over the cluster's blocks through their shared memory, and counts threads in the first block's.
// `ranks` gets what a block sees: its rank, the cluster's size, the count in the first block.
__device__ void sum_over_cluster(int *sums, int *ranks) {
#if HOPPER
  namespace cg = cooperative_groups;
  __shared__ int own[THREADS];
  __shared__ int arrived;
  cg::cluster_group cluster = cg::this_cluster();
  int block = blockIdx.y * gridDim.x + blockIdx.x, thread = threadIdx.x;
  own[thread] = block * 1000 + thread;
  if (thread == 0) arrived = 0;
  cluster.sync();
  int sum = 0;
  for (unsigned other = 0; other < cluster.num_blocks(); other++) sum += cluster.map_shared_rank(own, other)[thread];
  sums[block * THREADS + thread] = sum;
  atomicAdd(cluster.map_shared_rank(&arrived, 0), 1);
  // No block may end while others read its memory.
  cluster.sync();
  if (thread == 0) {
    ranks[block * 3] = cluster.block_rank();
    ranks[block * 3 + 1] = cluster.num_blocks();
    ranks[block * 3 + 2] = *cluster.map_shared_rank(&arrived, 0);
  }
  cluster.sync();
#endif
}

__global__ void by_launch(int *sums, int *ranks) { sum_over_cluster(sums, ranks); }
#if HOPPER
#define CLUSTER_OF_4 __cluster_dims__(4, 1, 1)
#else
#define CLUSTER_OF_4
#endif
__global__ void CLUSTER_OF_4 compiled_in(int *sums, int *ranks) { sum_over_cluster(sums, ranks); }

static int *sums, *ranks;

// Compares what a grid of blocks in clusters of x * y left, and clears it.
static void compare(const char *what, int wide, int high, int x, int y) {
  static int sum[64 * THREADS], rank[64 * 3];
  int blocks = wide * high;
  to_host(sum, sums, blocks * THREADS);
  to_host(rank, ranks, blocks * 3);
  for (int block = 0; block < blocks; block++) {
    int column = block % wide, row = block / wide, total = 0;
    for (int j = 0; j < y; j++)
      for (int i = 0; i < x; i++) total += (row / y * y + j) * wide + column / x * x + i;
    const int *seen = rank + block * 3, wanted = column % x + row % y * x;
    if (seen[0] != wanted || seen[1] != x * y)
      fail("%s: block %d has rank %d of %d, not %d of %d", what, block, seen[0], seen[1], wanted, x * y);
    if (seen[2] != x * y * THREADS)
      fail("%s: block %d counted %d threads, not %d", what, block, seen[2], x * y * THREADS);
    for (int thread = 0; thread < THREADS; thread++) {
      int right = total * 1000 + x * y * thread, is = sum[block * THREADS + thread];
      if (is != right) fail("%s: block %d thread %d: the sum is %d, not %d", what, block, thread, is, right);
    }
  }
  CHECK(cudaMemset(sums, 0, sizeof sum));
  CHECK(cudaMemset(ranks, 0, sizeof rank));
}

// Launches a grid in clusters of x * y; the number of clusters that fit on the device.
static int launch(int wide, int high, int x, int y) {
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = x;
  cluster.val.clusterDim.y = y;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(wide, high);
  config.blockDim = dim3(THREADS);
  config.attrs = &cluster;
  config.numAttrs = 1;
  int active = 0;
  CHECK(cudaOccupancyMaxActiveClusters(&active, by_launch, &config));
  if (active < 1) return 0;
  CHECK(cudaLaunchKernelEx(&config, by_launch, sums, ranks));
  CHECK(cudaDeviceSynchronize());
  char what[40];
  snprintf(what, sizeof what, "clusters of %dx%d", x, y);
  compare(what, wide, high, x, y);
  return active;
}

int main() {
  feature_begin("cluster");
  need(9);
  if (!attribute(cudaDevAttrClusterLaunch)) fail("cudaDevAttrClusterLaunch is 0");
  sums = device_array<int>(64 * THREADS);
  ranks = device_array<int>(64 * 3);
  int active[4], sizes[3] = {2, 4, 8};
  for (int i = 0; i < 3; i++)
    if (!(active[i] = launch(32, 1, sizes[i], 1))) fail("no cluster of %d blocks fits", sizes[i]);
  if (!launch(8, 4, 2, 2)) fail("no cluster of 2x2 blocks fits");
  compiled_in<<<32, THREADS>>>(sums, ranks);
  RAN();
  compare("__cluster_dims__(4)", 32, 1, 4, 1);
  CHECK(cudaFuncSetAttribute(by_launch, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  active[3] = launch(32, 1, 16, 1);
  return well("active clusters of 2, 4, 8, 16: %d, %d, %d, %d%s", active[0], active[1], active[2], active[3],
              active[3] ? "" : " (16 not tried)");
}
