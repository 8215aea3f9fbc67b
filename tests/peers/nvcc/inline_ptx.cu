// Inline PTX: special registers, wide arithmetic, predicates, vector loads, prmt, bfe, lop3, branches and barriers.
#include "check.h"

__global__ void run(unsigned long long *o, const uint4 *v) {
  o += threadIdx.x * 16;
  unsigned a = threadIdx.x + 1, b = 0xdeadbeefu, r, q, lane, warp, ntid, smid;
  unsigned long long w, hi, lo;
  asm("mov.u32 %0, %%laneid;\n\tmov.u32 %1, %%warpid;\n\tmov.u32 %2, %%ntid.x;\n\tmov.u32 %3, %%smid;"
      : "=r"(lane), "=r"(warp), "=r"(ntid), "=r"(smid));
  o[0] = lane, o[1] = ntid, o[2] = warp < 64 && smid < 100000;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(w) : "r"(a), "r"(b));
  o[3] = w;
  asm("mad.lo.u32 %0, %1, 3, %2;" : "=r"(r) : "r"(b), "r"(a));
  o[4] = r;
  asm("{\n\t.reg .pred p;\n\tsetp.gt.u32 p, %1, 16;\n\tselp.u32 %0, 7, 9, p;\n\t}" : "=r"(r) : "r"(a));
  o[5] = r;
  asm("{add.cc.u64 %0, %2, %2; addc.u64 %1, 0, 0;}" : "=l"(lo), "=l"(hi) : "l"(~0ull));
  o[6] = lo, o[7] = hi;
  asm("bfe.u32 %0, %2, 4, 12;\n\tbfi.b32 %1, 5, %2, 8, 4;" : "=r"(r), "=r"(q) : "r"(b));
  o[8] = r, o[9] = q;
  asm("prmt.b32 %0, %1, %2, 0x0246;" : "=r"(r) : "r"(b), "r"(0x01020304));
  o[10] = r;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(b), "r"(a), "r"(0xffu));
  o[11] = r;
  uint4 x;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(v) : "memory");
  o[12] = x.x + x.y + x.z + x.w;
  asm volatile("{\n\t.reg .pred p;\n\t.reg .u32 i;\n\tmov.u32 i, 0;\n\tmov.u32 %0, 0;\n"
               "$loop_%=:\n\tadd.u32 %0, %0, i;\n\tadd.u32 i, i, 1;\n\tsetp.lt.u32 p, i, %1;\n\t@p bra $loop_%=;\n\t}"
               : "=&r"(r) : "r"(a));
  o[13] = r;
  float f;
  asm("{\n\t.reg .f32 t;\n\tcvt.rn.f32.u32 t, %1;\n\tfma.rn.f32 %0, t, 0f40000000, 0f3f000000;\n\t}" : "=f"(f) : "r"(a));
  o[14] = (unsigned long long)(f * 2);
  __shared__ unsigned s[64];
  unsigned addr = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(addr), "r"(a * 3) : "memory");
  asm volatile("bar.sync 0;" ::: "memory");
  addr = (unsigned)__cvta_generic_to_shared(&s[63 - threadIdx.x]);
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(addr) : "memory");
  o[15] = r;
}

int main() {
  unsigned long long *d, h[64][16];
  uint4 *v, hv = {1, 20, 300, 4000};
  CHECK(cudaMalloc(&d, sizeof h));
  CHECK(cudaMalloc(&v, sizeof hv));
  CHECK(cudaMemcpy(v, &hv, sizeof hv, cudaMemcpyHostToDevice));
  run<<<1, 64>>>(d, v);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (unsigned t = 0; t < 64; t++) {
    unsigned a = t + 1, b = 0xdeadbeefu;
    unsigned long long *o = h[t];
    EXPECT(o[0] == t % 32 && o[1] == 64 && o[2] == 1 && o[3] == (unsigned long long)a * b);
    EXPECT(o[4] == (unsigned)(b * 3 + a) && o[5] == (a > 16 ? 7 : 9) && o[6] == ~0ull - 1 && o[7] == 1);
    EXPECT(o[8] == (b >> 4 & 0xfff) && o[9] == ((b & ~0xf00u) | 0x500));
    EXPECT(o[10] == 0xefad0402u && o[11] == (b ^ a ^ 0xff) && o[12] == 4321);
    EXPECT(o[13] == a * (a - 1) / 2 && o[14] == a * 4 + 1 && o[15] == (63 - t + 1) * 3);
  }
  printf("inline_ptx: well\n");
}
