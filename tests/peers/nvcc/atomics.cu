// Atomics on every type: add, sub, min, max, inc, dec, and, or, xor, exch, cas; block and system scope.
// nvcc: -gencode arch=compute_80,code=compute_80
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct All {
  int add, sub, mn, mx, land, lor, lxor, cas, sys;
  unsigned uadd, inc, dec, umx;
  unsigned long long ladd, lmx, lx;
  long long smin, smax;
  float fadd;
  double dadd, dcas;
  unsigned short scas;
  unsigned long long xsum, xlast;
  __half hadd;
  __nv_bfloat16 badd;
  __half2 h2;
};

__global__ void run(All *a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  atomicAdd(&a->add, i);
  atomicSub(&a->sub, 2);
  atomicMin(&a->mn, -i);
  atomicMax(&a->mx, i);
  atomicAnd(&a->land, ~(1 << (i % 16)));
  atomicOr(&a->lor, 1 << (i % 16));
  atomicXor(&a->lxor, i);
  for (int old = a->cas, seen;; old = seen)
    if ((seen = atomicCAS(&a->cas, old, old + 3)) == old) break;
  atomicAdd_system(&a->sys, 1);
  atomicAdd(&a->uadd, 0xffffffffu);
  atomicInc(&a->inc, 99);
  atomicDec(&a->dec, 99);
  atomicMax(&a->umx, 0x80000000u + i);
  atomicAdd(&a->ladd, 1ull << 32);
  atomicMax(&a->lmx, (unsigned long long)i << 40);
  atomicXor(&a->lx, 1ull << (i % 64));
  atomicMin(&a->smin, -(long long)i << 33);
  atomicMax(&a->smax, (long long)i << 33);
  atomicAdd(&a->fadd, 0.5f);
  atomicAdd(&a->dadd, 0.25);
  unsigned long long *q = (unsigned long long *)&a->dcas, old = *q, seen;
  for (;; old = seen)
    if ((seen = atomicCAS(q, old, __double_as_longlong(__longlong_as_double(old) + 2.0))) == old) break;
  for (unsigned short o = *(volatile unsigned short *)&a->scas, n;; o = n)
    if ((n = atomicCAS(&a->scas, o, (unsigned short)(o + 1))) == o) break;
  atomicAdd(&a->xsum, atomicExch(&a->xlast, (unsigned long long)i + 1));
  atomicAdd(&a->hadd, __float2half(0.5f));
  atomicAdd(&a->badd, __float2bfloat16(i < 128 ? 1.0f : 0.0f));
  atomicAdd(&a->h2, __floats2half2_rn(1.0f, -1.0f));
  atomicAdd_block(&s, 1);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&a->sys, s == blockDim.x ? 0 : 1000000);
}

int main() {
  const int n = 1024;
  All h = {}, *d;
  h.land = 0xfffff;
  CHECK(cudaMalloc(&d, sizeof h));
  CHECK(cudaMemcpy(d, &h, sizeof h, cudaMemcpyHostToDevice));
  run<<<8, n / 8>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
  EXPECT(h.add == n * (n - 1) / 2 && h.sub == -2 * n && h.mn == -(n - 1) && h.mx == n - 1);
  EXPECT(h.land == 0xf0000 && h.lor == 0xffff && h.lxor == 0 && h.cas == 3 * n && h.sys == n);
  EXPECT(h.uadd == (unsigned)-n && h.inc == n % 100 && h.umx == 0x80000000u + n - 1);
  EXPECT(h.dec == (unsigned)((100 - n % 100) % 100));
  EXPECT(h.ladd == (unsigned long long)n << 32 && h.lmx == (unsigned long long)(n - 1) << 40 && h.lx == 0);
  EXPECT(h.smin == -((long long)(n - 1) << 33) && h.smax == (long long)(n - 1) << 33);
  EXPECT(h.fadd == 0.5f * n && h.dadd == 0.25 * n && h.dcas == 2.0 * n && h.scas == n);
  EXPECT(h.xsum + h.xlast == (unsigned long long)n * (n + 1) / 2);
  EXPECT(__half2float(h.hadd) == 512.0f && __bfloat162float(h.badd) == 128.0f);
  EXPECT(__low2float(h.h2) == 1024.0f && __high2float(h.h2) == -1024.0f);
  printf("atomics: well\n");
}
