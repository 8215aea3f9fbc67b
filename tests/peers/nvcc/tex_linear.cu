// Textures over linear memory with tex1Dfetch and over pitched memory with tex2D, filters and normalized coordinates.
#include "check.h"
#include <cmath>

__global__ void fetch(cudaTextureObject_t t, float *o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = tex1Dfetch<float>(t, i);
}
__global__ void fetch4(cudaTextureObject_t t, float4 *o) { o[threadIdx.x] = tex1Dfetch<float4>(t, threadIdx.x); }
__global__ void fetch_int2(cudaTextureObject_t t, int2 *o) { o[threadIdx.x] = tex1Dfetch<int2>(t, threadIdx.x); }
__global__ void at(cudaTextureObject_t t, const float2 *xy, float *o) { o[threadIdx.x] = tex2D<float>(t, xy[threadIdx.x].x, xy[threadIdx.x].y); }

static cudaTextureObject_t linear(void *p, size_t bytes, cudaChannelFormatDesc f, cudaTextureReadMode mode) {
  cudaResourceDesc r = {};
  r.resType = cudaResourceTypeLinear;
  r.res.linear.devPtr = p;
  r.res.linear.desc = f;
  r.res.linear.sizeInBytes = bytes;
  cudaTextureDesc d = {};
  d.readMode = mode;
  cudaTextureObject_t t = 0;
  CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
  return t;
}

int main() {
  const int n = 1000, w = 40, h = 30;
  static float in[n], out[n];
  float *d, *o;
  for (int i = 0; i < n; i++) in[i] = i * 0.25f;
  CHECK(cudaMalloc(&d, sizeof in));
  CHECK(cudaMalloc(&o, sizeof out));
  CHECK(cudaMemcpy(d, in, sizeof in, cudaMemcpyHostToDevice));
  cudaTextureObject_t t = linear(d, sizeof in, cudaCreateChannelDesc<float>(), cudaReadModeElementType);
  fetch<<<4, 256>>>(t, o, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out, o, sizeof out, cudaMemcpyDeviceToHost));
  EXPECT(!memcmp(in, out, sizeof in));
  CHECK(cudaDestroyTextureObject(t));
  t = linear(d, sizeof in, cudaCreateChannelDesc<int2>(), cudaReadModeElementType);
  fetch_int2<<<1, 100>>>(t, (int2 *)o);
  CHECK(cudaMemcpy(out, o, 800, cudaMemcpyDeviceToHost));
  EXPECT(!memcmp(in, out, 800));
  CHECK(cudaDestroyTextureObject(t));
  unsigned char bytes[64 * 4];
  for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)i;
  CHECK(cudaMemcpy(d, bytes, sizeof bytes, cudaMemcpyHostToDevice));
  t = linear(d, sizeof bytes, cudaCreateChannelDesc<uchar4>(), cudaReadModeNormalizedFloat);
  fetch4<<<1, 64>>>(t, (float4 *)o);
  CHECK(cudaMemcpy(out, o, 1024, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 256; i++) EXPECT(fabsf(out[i] - i / 255.0f) < 1e-6f);
  CHECK(cudaDestroyTextureObject(t));
  // Pitched memory: value x + 100 y; with the linear filter the plane comes back between the texels too.
  static float pic[h][w];
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) pic[y][x] = x + 100.0f * y;
  float *p;
  size_t pitch;
  CHECK(cudaMallocPitch(&p, &pitch, w * sizeof(float), h));
  CHECK(cudaMemcpy2D(p, pitch, pic, sizeof pic[0], sizeof pic[0], h, cudaMemcpyHostToDevice));
  for (int mode = 0; mode < 4; mode++) {
    bool lin = mode & 1, norm = mode & 2;
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypePitch2D;
    r.res.pitch2D.devPtr = p;
    r.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    r.res.pitch2D.width = w;
    r.res.pitch2D.height = h;
    r.res.pitch2D.pitchInBytes = pitch;
    cudaTextureDesc td = {};
    td.addressMode[0] = td.addressMode[1] = cudaAddressModeClamp;
    td.filterMode = lin ? cudaFilterModeLinear : cudaFilterModePoint;
    td.normalizedCoords = norm;
    CHECK(cudaCreateTextureObject(&t, &r, &td, nullptr));
    float2 xy[64];
    for (int i = 0; i < 64; i++) xy[i] = make_float2((i * 13 % 41) * 0.75f + 0.3125f + i / 40 * 10, (i * 7 % 31) + 0.6875f);
    float2 q[64], *dq;
    for (int i = 0; i < 64; i++) q[i] = norm ? make_float2(xy[i].x / w, xy[i].y / h) : xy[i];
    CHECK(cudaMalloc(&dq, sizeof q));
    CHECK(cudaMemcpy(dq, q, sizeof q, cudaMemcpyHostToDevice));
    at<<<1, 64>>>(t, dq, o);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out, o, 64 * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++) {
      float x = fminf(fmaxf(lin ? xy[i].x - 0.5f : floorf(xy[i].x), 0), w - 1), y = fminf(fmaxf(lin ? xy[i].y - 0.5f : floorf(xy[i].y), 0), h - 1);
      EXPECT(fabsf(out[i] - (x + 100 * y)) <= (lin ? 0.5f : 0.0f));  // weights in 1/256
    }
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFree(dq));
  }
  printf("tex_linear: well\n");
}
