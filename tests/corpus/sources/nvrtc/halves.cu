// Half precision and bfloat16, alone and in pairs.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
#define ROW(f) out[(f) * n + i]

extern "C" __global__ void half_math(const __half* a, const __half* b, __half* out, int n)
{
    INDEX
    __half x = a[i], y = b[i];
    ROW(0) = __hadd(x, y); ROW(1) = __hsub(x, y); ROW(2) = __hmul(x, y); ROW(3) = __hfma(x, y, x);
    ROW(4) = __hdiv(x, y); ROW(5) = __hneg(x); ROW(6) = __habs(x); ROW(7) = __hmax(x, y);
    ROW(8) = __hmin(x, y); ROW(9) = hsqrt(__habs(x)); ROW(10) = hexp(x); ROW(11) = hlog(__habs(x));
    ROW(12) = hsin(x); ROW(13) = hcos(y); ROW(14) = htanh(x); ROW(15) = hrcp(y);
    ROW(16) = hfloor(x); ROW(17) = hceil(x); ROW(18) = hrint(x); ROW(19) = htrunc(x);
    ROW(20) = __hadd_sat(x, y); ROW(21) = __hfma_relu(x, y, x); ROW(22) = hexp2(x); ROW(23) = hrsqrt(__habs(y));
}

extern "C" __global__ void half_pairs(const __half2* a, const __half2* b, __half2* out, unsigned* flags, int n)
{
    INDEX
    __half2 x = a[i], y = b[i];
    ROW(0) = __hadd2(x, y); ROW(1) = __hmul2(x, y); ROW(2) = __hfma2(x, y, x); ROW(3) = __hmax2(x, y);
    ROW(4) = __hgt2(x, y); ROW(5) = __lowhigh2highlow(x); ROW(6) = __lows2half2(x, y);
    ROW(7) = h2sqrt(__habs2(x)); ROW(8) = __hsub2_sat(x, y); ROW(9) = __shfl_xor_sync(~0u, x, 1);
    flags[i] = __hbgt2(x, y) + 2 * __hle(__low2half(x), __high2half(y)) + 4 * __hisnan(__low2half(x)) + 8 * __heq(__low2half(x), __low2half(x));
}

extern "C" __global__ void bfloat_math(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* out, int n)
{
    INDEX
    __nv_bfloat16 x = a[i], y = b[i];
    ROW(0) = __hadd(x, y); ROW(1) = __hmul(x, y); ROW(2) = __hfma(x, y, x); ROW(3) = __hdiv(x, y);
    ROW(4) = __hmax(x, y); ROW(5) = __hneg(x); ROW(6) = __habs(x); ROW(7) = hexp(x); ROW(8) = hsqrt(__habs(x));
    ROW(9) = x > y ? x : y - x;
    __nv_bfloat162 p = __halves2bfloat162(x, y), q = __hfma2(p, p, __float2bfloat162_rn(0.5f));
    ROW(10) = __low2bfloat16(q); ROW(11) = __high2bfloat16(q);
    ROW(12) = __hmin(x, y); ROW(13) = hfloor(x); ROW(14) = __hsub(x, y);
}

extern "C" __global__ void conversions(const float* x, const int* k, const double* d, unsigned short* out, float* back, int n)
{
    INDEX
    float v = x[i];
#define H(f) __half_as_ushort(f)
#define B(f) __bfloat16_as_ushort(f)
    ROW(0) = H(__float2half_rn(v)); ROW(1) = H(__float2half_rz(v)); ROW(2) = H(__float2half_rd(v)); ROW(3) = H(__float2half_ru(v));
    ROW(4) = B(__float2bfloat16_rn(v)); ROW(5) = B(__float2bfloat16_rz(v)); ROW(6) = B(__float2bfloat16_rd(v)); ROW(7) = B(__float2bfloat16_ru(v));
    ROW(8) = H(__int2half_rn(k[i])); ROW(9) = H(__uint2half_rz((unsigned)k[i] & 0xffff)); ROW(10) = H(__double2half(d[i]));
    ROW(11) = B(__double2bfloat16(d[i])); ROW(12) = B(__int2bfloat16_rn(k[i]));
    __half h = __float2half_rn(v);
    __nv_bfloat16 b = __float2bfloat16_rn(v);
    back[i] = __half2float(h); back[n + i] = __bfloat162float(b);
    back[2 * n + i] = __half2int_rn(h); back[3 * n + i] = __half2int_rd(h); back[4 * n + i] = __half2short_rz(h);
    back[5 * n + i] = __half2ushort_ru(__habs(h)); back[6 * n + i] = (float)__half2ll_rn(h); back[7 * n + i] = __bfloat162int_rz(b);
    __half2 p = __floats2half2_rn(v, -v);
    back[8 * n + i] = __low2float(p) - __high2float(p);
}

extern "C" __global__ void half_reduce(const __half* x, float* out, int n)
{
    float v = 0;
    const __half2* p = (const __half2*)(x + blockIdx.x * n);
    for (int i = threadIdx.x; i < n / 2; i += 32) {
        float2 f = __half22float2(p[i]);
        v += f.x * f.x + f.y * f.y;
    }
    for (int k = 16; k; k >>= 1) v += __shfl_xor_sync(~0u, v, k);
    if (threadIdx.x == 0) out[blockIdx.x] = sqrtf(v);
}
