// Textures over arrays of one, two and three dimensions and in layers: address modes, filters, weights in 1/256.
#include "check.h"
#include <cmath>

__global__ void t1(cudaTextureObject_t t, const float *x, float *o) { o[threadIdx.x] = tex1D<float>(t, x[threadIdx.x]); }
__global__ void t2(cudaTextureObject_t t, float2 *o, int w) { o[threadIdx.x] = tex2D<float2>(t, threadIdx.x % w + 0.5f, threadIdx.x / w + 0.5f); }
__global__ void t3(cudaTextureObject_t t, const float *x, float *o) { o[threadIdx.x] = tex3D<float>(t, x[threadIdx.x], x[threadIdx.x] * 0.5f + 1, 2.25f); }
__global__ void tl(cudaTextureObject_t t, float *o) { o[threadIdx.x] = tex2DLayered<float>(t, threadIdx.x % 4 + 0.5f, threadIdx.x / 4 % 4 + 0.5f, threadIdx.x / 16); }

static cudaTextureObject_t make(cudaArray_t a, cudaTextureAddressMode m, cudaTextureFilterMode f, bool norm) {
  cudaResourceDesc r = {};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = a;
  cudaTextureDesc d = {};
  for (int i = 0; i < 3; i++) d.addressMode[i] = m;
  d.filterMode = f;
  d.normalizedCoords = norm;
  d.borderColor[0] = 0;
  cudaTextureObject_t t = 0;
  CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
  return t;
}
static int address(int i, int n, cudaTextureAddressMode m) {  // -1: the border
  if (m == cudaAddressModeClamp) return i < 0 ? 0 : i >= n ? n - 1 : i;
  if (m == cudaAddressModeBorder) return i < 0 || i >= n ? -1 : i;
  int k = ((i % (2 * n)) + 2 * n) % (2 * n);
  return m == cudaAddressModeWrap ? k % n : k < n ? k : 2 * n - 1 - k;
}

int main() {
  const int n = 16, q = 256;
  float v[n], x[q], nx[q], out[q], *dx, *o;
  for (int i = 0; i < n; i++) v[i] = (float)(i * i % 23);
  for (int i = 0; i < q; i++) x[i] = -20 + i * 0.21484375f, nx[i] = x[i] / n;  // multiples of 1/256
  cudaChannelFormatDesc cf = cudaCreateChannelDesc<float>();
  cudaArray_t a;
  CHECK(cudaMallocArray(&a, &cf, n));
  CHECK(cudaMemcpy2DToArray(a, 0, 0, v, sizeof v, sizeof v, 1, cudaMemcpyHostToDevice));
  CHECK(cudaMalloc(&dx, sizeof x));
  CHECK(cudaMalloc(&o, sizeof out));
  for (int k = 0; k < 8; k++) {
    cudaTextureAddressMode m = (cudaTextureAddressMode)(k / 2);  // wrap, clamp, mirror, border
    bool lin = k % 2, norm = m == cudaAddressModeWrap || m == cudaAddressModeMirror;
    cudaTextureObject_t t = make(a, m, lin ? cudaFilterModeLinear : cudaFilterModePoint, norm);
    CHECK(cudaMemcpy(dx, norm ? nx : x, sizeof x, cudaMemcpyHostToDevice));
    t1<<<1, q>>>(t, dx, o);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out, o, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < q; i++) {
      auto texel = [&](int j) { int p = address(j, n, m); return p < 0 ? 0.0f : v[p]; };
      float c = lin ? x[i] - 0.5f : x[i], f = floorf(c), fr = c - f, want = texel((int)f);
      if (lin) want = (1 - fr) * want + fr * texel((int)f + 1);
      EXPECT(fabsf(out[i] - want) <= (lin ? 23.0f / 256 : 0.0f));
      if (lin && !norm) EXPECT(fabsf(out[i] * 256 - roundf(out[i] * 256)) < 0.01f);  // weights in 1/256
    }
    CHECK(cudaDestroyTextureObject(t));
  }
  // Two channels, two dimensions.
  float2 pic[8][8], back[64];
  for (int i = 0; i < 64; i++) pic[i / 8][i % 8] = make_float2((float)i, -2.0f * i);
  cudaChannelFormatDesc cf2 = cudaCreateChannelDesc<float2>();
  cudaArray_t b, c, l;
  CHECK(cudaMallocArray(&b, &cf2, 8, 8));
  CHECK(cudaMemcpy2DToArray(b, 0, 0, pic, 64, 64, 8, cudaMemcpyHostToDevice));
  cudaTextureObject_t t = make(b, cudaAddressModeClamp, cudaFilterModePoint, false);
  t2<<<1, 64>>>(t, (float2 *)o, 8);
  CHECK(cudaMemcpy(back, o, sizeof back, cudaMemcpyDeviceToHost));
  EXPECT(!memcmp(back, pic, sizeof pic));
  // Three dimensions: a linear function comes back between the texels, away from the edges.
  float vol[8][8][8], three[16];
  for (int i = 0; i < 512; i++) vol[i / 64][i / 8 % 8][i % 8] = i % 8 + 10.0f * (i / 8 % 8) + 100.0f * (i / 64);
  CHECK(cudaMalloc3DArray(&c, &cf, make_cudaExtent(8, 8, 8)));
  cudaMemcpy3DParms p = {};
  p.srcPtr = make_cudaPitchedPtr(vol, 32, 8, 8);
  p.dstArray = c;
  p.extent = make_cudaExtent(8, 8, 8);
  p.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&p));
  t = make(c, cudaAddressModeClamp, cudaFilterModeLinear, false);
  for (int i = 0; i < 16; i++) x[i] = 1 + i * 0.375f;
  CHECK(cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice));
  t3<<<1, 16>>>(t, dx, o);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(three, o, sizeof three, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 16; i++) EXPECT(fabsf(three[i] - (x[i] - 0.5f + 10 * (x[i] * 0.5f + 0.5f) + 175)) < 0.5f);
  // Layers are never mixed.
  CHECK(cudaMalloc3DArray(&l, &cf, make_cudaExtent(4, 4, 3), cudaArrayLayered));
  p.srcPtr = make_cudaPitchedPtr(vol, 16, 4, 4);
  p.dstArray = l;
  p.extent = make_cudaExtent(4, 4, 3);
  CHECK(cudaMemcpy3D(&p));
  t = make(l, cudaAddressModeClamp, cudaFilterModePoint, false);
  tl<<<1, 48>>>(t, o);
  CHECK(cudaMemcpy(out, o, 48 * sizeof(float), cudaMemcpyDeviceToHost));
  EXPECT(!memcmp(out, vol, 48 * sizeof(float)));
  for (cudaArray_t x : {a, b, c, l}) CHECK(cudaFreeArray(x));
  printf("tex_arrays: well\n");
}
