// Arithmetic in half and bfloat16: operators, fused forms, comparisons, conversions, pairs and functions.
// nvcc: -gencode arch=compute_80,code=compute_80
#include "check.h"
#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T> __global__ void ops(const float *a, const float *b, float *out, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  T x = T(a[i]), y = T(b[i]);
  float *o = out + i * 12;
  o[0] = float(x + y);
  o[1] = float(x - y);
  o[2] = float(x * y);
  o[3] = float(x / y);
  o[4] = float(__hfma(x, y, x));
  o[5] = (x < y) + 2 * (x == y) + 4 * (x >= y);
  o[6] = float(__hmax(x, y)) - float(__hmin(x, y));
  o[7] = float(-x) + float(__habs(y));
  o[8] = float(hsqrt(__habs(x)));
  o[9] = (float)(int)x;
  o[10] = float(hfloor(x)) + float(hceil(y));
  x += T(1.0f);
  o[11] = float(x);
}
__global__ void pairs(float *o) {
  __half2 a = __floats2half2_rn(1.5f, -2.0f), b = __float2half2_rn(3.0f), c = __hfma2(a, b, b);
  o[0] = __low2float(c), o[1] = __high2float(c);
  __nv_bfloat162 p = __floats2bfloat162_rn(0.5f, 8.0f), q = __hmul2(p, p);
  o[2] = __low2float(q), o[3] = __high2float(q);
  o[4] = __half2float(__ushort_as_half(0x3c01));
  o[5] = (float)__half_as_ushort(__float2half_rn(65519.0f)), o[6] = (float)__half_as_ushort(__float2half_rn(65520.0f));
  o[7] = (float)__half_as_ushort(__float2half_rz(2049.9f)), o[8] = __half2float(__float2half_rn(5.9604645e-8f));
  o[9] = __half2float(hexp2(__float2half(3.0f))) + __half2float(hlog2(__float2half(8.0f)));
  o[10] = __hisnan(__ushort_as_half(0x7e00)) + 2 * __hisinf(__ushort_as_half(0x7c00)) + 4 * __hbeq2(b, b);
  o[11] = (float)__half2int_rn(__float2half(2.5f)) + 10 * (float)__half2int_ru(__float2half(2.5f));
}

template <class T> static void test(float eps) {
  const int n = 8;
  float a[n] = {1, 2.5f, -3, 0.125f, 100, -7.75f, 2, 3}, b[n] = {2, 0.5f, -3, 8, -3, 1.5f, 3, 7}, h[n * 12], *d;
  CHECK(cudaMalloc(&d, sizeof h + sizeof a + sizeof b));
  CHECK(cudaMemcpy(d + n * 12, a, sizeof a, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d + n * 13, b, sizeof b, cudaMemcpyHostToDevice));
  ops<T><<<1, 32>>>(d + n * 12, d + n * 13, d, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) {
    float x = a[i], y = b[i], *o = h + 12 * i;
    auto near = [&](int k, float w) {
      if (fabsf(o[k] - w) > eps * fabsf(w)) fprintf(stderr, "%d %d: %g, not %g\n", i, k, o[k], w);
      return fabsf(o[k] - w) <= eps * fabsf(w);
    };
    EXPECT(near(0, x + y) && near(1, x - y) && near(2, x * y) && near(3, x / y) && near(4, x * y + x));
    EXPECT(o[5] == (x < y) + 2 * (x == y) + 4 * (x >= y) && near(6, fabsf(x - y)) && near(7, fabsf(y) - x));
    EXPECT(near(8, sqrtf(fabsf(x))) && o[9] == truncf(x) && near(10, floorf(x) + ceilf(y)) && near(11, x + 1));
  }
  CHECK(cudaFree(d));
}

int main() {
  test<__half>(1.0f / 2048 * 1.01f);
  test<__nv_bfloat16>(1.0f / 256 * 1.01f);
  float *d, o[12], want[12] = {7.5f, -3.0f, 0.25f, 64.0f, 1.0009765625f, 0x7bff, 0x7c00, 0x6800, 5.9604645e-8f, 11.0f, 7.0f, 32.0f};
  CHECK(cudaMalloc(&d, sizeof o));
  pairs<<<1, 1>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(o, d, sizeof o, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 12; i++) {
    if (o[i] != want[i]) fprintf(stderr, "pairs %d: %g, not %g\n", i, o[i], want[i]);
    EXPECT(o[i] == want[i]);
  }
  EXPECT(__half2float(__float2half(0.1f)) == 0.0999755859375f);  // the host's own conversion
  printf("half_bf16: well\n");
}
