// Cooperative groups: coalesced threads, binary and labelled partitions, tiles of 1 and 2, tiles of several warps.
// nvcc: -gencode arch=compute_80,code=compute_80 -std=c++17
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void split(int *out, int *n) {
  if (threadIdx.x % 3 == 0) {  // one atomic for all the lanes that come here together
    cg::coalesced_group g = cg::coalesced_threads();
    int at = 0;
    if (g.thread_rank() == 0) at = atomicAdd(n, (int)g.size());
    at = g.shfl(at, 0) + g.thread_rank();
    out[at] = threadIdx.x;
  }
}
__global__ void parts(int *bad) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int r = warp.thread_rank(), b = 0;
  auto half = cg::binary_partition(warp, r < 10);
  if ((int)half.size() != (r < 10 ? 10 : 22) || (int)half.thread_rank() != (r < 10 ? r : r - 10)) b |= 1;
  if (cg::reduce(half, 1, cg::plus<int>()) != (int)half.size()) b |= 2;
  auto same = cg::labeled_partition(warp, r % 5);
  if ((int)same.size() != (r % 5 < 2 ? 7 : 6)) b |= 4;
  if (cg::reduce(same, r, cg::less<int>()) != r % 5) b |= 8;
  auto two = cg::tiled_partition<2>(warp);
  if (two.shfl_xor(r, 1) != (r ^ 1)) b |= 16;
  auto one = cg::tiled_partition<1>(warp);
  if (one.size() != 1 || one.thread_rank() != 0) b |= 32;
  if (cg::reduce(warp, 1u << r, cg::bit_or<unsigned>()) != ~0u) b |= 64;
  if (cg::reduce(warp, r * 3, cg::greater<int>()) != 93) b |= 128;
  if (warp.match_any(r / 8) != 0xffu << (r / 8 * 8)) b |= 256;
  if (cg::invoke_one_broadcast(warp, [&] { return 77; }) != 77) b |= 512;
  if (b) atomicOr(bad, b);
}
__global__ void wide(int *out) {
  __shared__ cg::block_tile_memory<256> mem;
  auto block = cg::this_thread_block(mem);
  auto tile = cg::tiled_partition<64>(block);
  int sum = cg::reduce(tile, (int)threadIdx.x, cg::plus<int>());
  tile.sync();
  if (tile.thread_rank() == 0) out[tile.meta_group_rank()] = sum;
}

int main() {
  int *d, h[256], n;
  CHECK(cudaMalloc(&d, sizeof h + 4));
  CHECK(cudaMemset(d, 0, sizeof h + 4));
  split<<<1, 192>>>(d, d + 256);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&n, d + 256, 4, cudaMemcpyDeviceToHost));
  EXPECT(n == 64);
  int seen[192] = {};
  for (int i = 0; i < 64; i++) seen[h[i]]++;
  for (int i = 0; i < 192; i++) EXPECT(seen[i] == (i % 3 == 0));
  CHECK(cudaMemset(d, 0, 4));
  parts<<<2, 64>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, 4, cudaMemcpyDeviceToHost));
  if (h[0]) printf("wrong: 0x%x\n", h[0]);
  EXPECT(h[0] == 0);
  wide<<<1, 256>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, 16, cudaMemcpyDeviceToHost));
  for (int t = 0; t < 4; t++) EXPECT(h[t] == 64 * 64 * t + 64 * 63 / 2);
  printf("cg_groups: well\n");
}
