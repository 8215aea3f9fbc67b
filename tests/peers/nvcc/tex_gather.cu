// Texture gather: tex2Dgather gives one component of the four texels that a linear filter would use.
#include "check.h"

__global__ void gather(cudaTextureObject_t t, float4 *o) {
  int i = threadIdx.x;
  float x = i % 7 + 1.0f, y = i / 7 + 1.0f;  // the middle of four texels
  o[i * 2] = tex2Dgather<float4>(t, x, y, 0);
  o[i * 2 + 1] = tex2Dgather<float4>(t, x, y, 1);
}

int main() {
  const int w = 8, h = 5;
  float2 pic[h][w];
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) pic[y][x] = make_float2(x + 10.0f * y, 1000.0f + x + 10.0f * y);
  cudaChannelFormatDesc cf = cudaCreateChannelDesc<float2>();
  cudaArray_t a;
  CHECK(cudaMallocArray(&a, &cf, w, h, cudaArrayTextureGather));
  CHECK(cudaMemcpy2DToArray(a, 0, 0, pic, sizeof pic[0], sizeof pic[0], h, cudaMemcpyHostToDevice));
  cudaChannelFormatDesc got;
  cudaExtent e;
  unsigned flags;
  CHECK(cudaArrayGetInfo(&got, &e, &flags, a));
  EXPECT(got.x == 32 && got.y == 32 && got.z == 0 && got.f == cudaChannelFormatKindFloat);
  EXPECT(e.width == w && e.height == h && e.depth == 0 && flags == cudaArrayTextureGather);
  cudaResourceDesc r = {};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = a;
  cudaTextureDesc d = {};
  d.addressMode[0] = d.addressMode[1] = cudaAddressModeClamp;
  d.filterMode = cudaFilterModePoint;
  cudaTextureObject_t t;
  CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
  cudaResourceDesc r2;
  CHECK(cudaGetTextureObjectResourceDesc(&r2, t));
  EXPECT(r2.resType == cudaResourceTypeArray && r2.res.array.array == a);
  float4 *o, out[7 * 4 * 2];
  CHECK(cudaMalloc(&o, sizeof out));
  gather<<<1, 28>>>(t, o);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out, o, sizeof out, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 28; i++)
    for (int c = 0; c < 2; c++) {
      float b = i % 7 + 10.0f * (i / 7) + 1000.0f * c;  // order: lower left, lower right, upper right, upper left
      float4 v = out[i * 2 + c];
      EXPECT(v.x == b + 10 && v.y == b + 11 && v.z == b + 1 && v.w == b);
    }
  CHECK(cudaDestroyTextureObject(t));
  CHECK(cudaFreeArray(a));
  printf("tex_gather: well\n");
}
