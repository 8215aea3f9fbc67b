// Cooperative groups: the block and tiles of 4, 8, 16 and 32 with shuffles, votes, reductions and scans.
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

template <int N> __global__ void tiles(int *bad) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<N> t = cg::tiled_partition<N>(block);
  int me = block.thread_rank(), r = t.thread_rank(), first = me - r, b = 0;
  if (t.size() != N || r != me % N) b |= 1;
  if (t.meta_group_rank() != me / N || t.meta_group_size() != block.size() / N) b |= 2;
  if (t.shfl(me * 3, 1) != (first + 1) * 3) b |= 4;
  if (t.shfl_xor(me, N / 2) != first + (r ^ (N / 2))) b |= 8;
  if (t.shfl_down(me, 1) != (r + 1 < N ? me + 1 : me)) b |= 16;
  if (t.shfl_up(me, 2) != (r >= 2 ? me - 2 : me)) b |= 32;
  unsigned mask = t.ballot(r % 2 == 0), want = 0x55555555u & (N == 32 ? ~0u : (1u << (N % 32)) - 1);
  if (mask != want) b |= 64;
  if (!t.any(r == 3) || t.all(r == 3) || !t.all(r < N) || t.any(r >= N)) b |= 128;
  if (cg::reduce(t, me, cg::plus<int>()) != first * N + N * (N - 1) / 2) b |= 256;
  if (cg::reduce(t, me ^ 1, cg::greater<int>()) != first + N - 1) b |= 512;
  if (cg::reduce(t, (double)r, cg::less<double>()) != 0.0) b |= 1024;
  if (cg::inclusive_scan(t, r + 1) != (r + 1) * (r + 2) / 2) b |= 2048;
  if (cg::exclusive_scan(t, 1, cg::plus<int>()) != r) b |= 4096;
  long long wide = 1ll << (r + 20);
  if (t.shfl(wide, N - 1) != 1ll << (N + 19)) b |= 8192;
  t.sync();
  if (b) atomicOr(bad, b);
}
__global__ void whole(int *out) {
  __shared__ int s[96];
  cg::thread_block block = cg::this_thread_block();
  s[block.thread_rank()] = block.thread_rank() + 1000 * block.group_index().x;
  block.sync();
  dim3 i = block.thread_index(), d = block.group_dim();
  out[blockIdx.x * 96 + (i.y * d.x + i.x)] = s[95 - block.thread_rank()];
  auto token = block.barrier_arrive();
  block.barrier_wait(std::move(token));
}

template <int N> static void test(int *bad) {
  int h;
  CHECK(cudaMemset(bad, 0, sizeof h));
  tiles<N><<<2, 128>>>(bad);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&h, bad, sizeof h, cudaMemcpyDeviceToHost));
  if (h) printf("tiles of %d: wrong 0x%x\n", N, h);
  EXPECT(h == 0);
}

int main() {
  int *d, h[192];
  CHECK(cudaMalloc(&d, sizeof h));
  test<4>(d);
  test<8>(d);
  test<16>(d);
  test<32>(d);
  whole<<<2, dim3(8, 12)>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 192; i++) EXPECT(h[i] == 95 - i % 96 + 1000 * (i / 96));
  printf("cg_tiles: well\n");
}
