// Warp intrinsics: shuffles, votes, match, reductions, active masks and the bit functions.
// nvcc: -gencode arch=compute_80,code=compute_80
#include "check.h"

#define BAD(bit, ...) if (!(__VA_ARGS__)) b |= 1u << (bit)
__global__ void run(unsigned *bad) {
  const unsigned all = ~0u;
  unsigned b = 0, l = threadIdx.x % 32, lanemask_lt;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lanemask_lt));
  BAD(0, __shfl_sync(all, l * 2, 5) == 10 && __shfl_sync(all, l, l + 1) == (l + 1) % 32);
  BAD(1, __shfl_up_sync(all, l, 3) == (l >= 3 ? l - 3 : l) && __shfl_down_sync(all, l, 4, 8) == (l % 8 < 4 ? l + 4 : l));
  BAD(2, __shfl_xor_sync(all, 1.5 * l, 16) == 1.5 * (l ^ 16) && __shfl_sync(all, (long long)l << 40, 31, 16) == (long long)(l / 16 * 16 + 15) << 40);
  BAD(3, __ballot_sync(all, l < 10) == 0x3ff && __any_sync(all, l == 31) && !__all_sync(all, l < 31) && __all_sync(all, l < 32));
  BAD(4, __match_any_sync(all, l % 4) == 0x11111111u << (l % 4));
  int pred;
  BAD(5, __match_all_sync(all, 7, &pred) == all && pred);
  BAD(6, __match_all_sync(all, l / 31, &pred) == 0 && !pred);
  BAD(7, __reduce_add_sync(all, l) == 496 && __reduce_min_sync(all, (int)l - 5) == -5 && __reduce_max_sync(all, l) == 31);
  BAD(8, __reduce_and_sync(all, ~(1u << l)) == 0 && __reduce_or_sync(all, 1u << l) == all && __reduce_xor_sync(all, l) == 0);
  if (l % 2) {
    unsigned odd = 0xaaaaaaaau;
    BAD(9, __ballot_sync(odd, 1) == odd && __reduce_add_sync(odd, 1u) == 16 && __shfl_sync(odd, l, 7) == 7);
    BAD(10, (__activemask() & ~odd) == 0 && (__activemask() >> l & 1));
    __syncwarp(odd);
  }
  __syncwarp();
  BAD(11, lanemask_lt == (1u << l) - 1);
  BAD(12, __popc(l) == __popcll((unsigned long long)l << 32) && __popc(0xf0f0u) == 8);
  BAD(13, __clz(1 << l) == 31 - (int)l && __clz(0) == 32 && __clzll(1ll << (l + 32)) == 31 - (int)l);
  BAD(14, __ffs(1 << l) == (int)l + 1 && __ffs(0) == 0 && __ffsll(1ll << (l + 20)) == (int)l + 21);
  BAD(15, __brev(1u << l) == 1u << (31 - l) && __brevll(1ull << l) == 1ull << (63 - l));
  BAD(16, __byte_perm(0x33221100, 0x77665544, 0x7250) == 0x77225500u);
  BAD(17, __funnelshift_l(0x80000001u, 0x1u, 4) == 0x18 && __funnelshift_r(0x10u, 0xfu, 4) == 0xf0000001u);
  BAD(18, __mulhi(1 << 30, 1 << 10) == 1 << 8 && __umulhi(~0u, ~0u) == ~0u - 1 && __umul64hi(~0ull, 2) == 1 && __mul24(1000, -1000) == -1000000);
  BAD(19, __sad(3, -4, 10u) == 17 && __usad(3, 9, 1) == 7 && __hadd(5, 8) == 6 && __rhadd(5, 8) == 7);
  BAD(20, __vadd4(0x01ff0203u, 0x01010101u) == 0x02000304u && __vmaxs2(0xffff0003u, 0x00010002u) == 0x00010003u && __vabsdiffu4(0x05010203u, 0x01050203u) == 0x04040000u);
  BAD(21, __dp4a(0x01020304, 0x05060708, 100) == 5 + 12 + 21 + 32 + 100 && __dp4a(0xffu, 0xffu, 0u) == 65025u);
  BAD(22, __dp2a_lo(0x00020003, 0x0505, 1) == 26);
  BAD(23, __syncthreads_count(l == 3) == 2);
  if (b) atomicOr(bad, b);
}

int main() {
  unsigned *d, h;
  CHECK(cudaMalloc(&d, 4));
  CHECK(cudaMemset(d, 0, 4));
  run<<<2, 64>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost));
  if (h) fprintf(stderr, "wrong: 0x%x\n", h);
  EXPECT(h == 0);
  printf("warp_intrinsics: well\n");
}
