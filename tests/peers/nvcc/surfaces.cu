// Surfaces: reads and writes of several types in one, two and three dimensions, and the boundary modes.
#include "check.h"

template <class T> __device__ T mk(int v);
template <> __device__ float mk<float>(int v) { return v * 0.5f; }
template <> __device__ uchar4 mk<uchar4>(int v) { return make_uchar4(v, v + 1, v + 2, 255); }
template <> __device__ int2 mk<int2>(int v) { return make_int2(v, -v); }
template <> __device__ short mk<short>(int v) { return (short)-v; }
template <> __device__ uint4 mk<uint4>(int v) { return make_uint4(v, v * v, ~v, 0x80000000u); }

template <class T> __global__ void put(cudaSurfaceObject_t s, int w, int h) {
  int x = threadIdx.x, y = threadIdx.y;
  if (x < w && y < h) surf2Dwrite(mk<T>(y * w + x), s, x * (int)sizeof(T), y);
}
template <class T> __global__ void want(T *o, int w, int h) {
  int i = threadIdx.y * w + threadIdx.x;
  if (threadIdx.x < w && threadIdx.y < h) o[i] = mk<T>(i);
}
template <class T> __global__ void get(cudaSurfaceObject_t s, T *o, int w, int h) {
  int x = threadIdx.x, y = threadIdx.y;
  if (x < w && y < h) o[y * w + x] = surf2Dread<T>(s, x * (int)sizeof(T), y);
}
__global__ void edges(cudaSurfaceObject_t s, float *o, int w, int h) {
  surf2Dwrite(777.0f, s, w * 4, 0, cudaBoundaryModeZero);  // outside: not written
  surf2Dwrite(777.0f, s, -4, 1, cudaBoundaryModeZero);
  o[0] = surf2Dread<float>(s, -4, 2, cudaBoundaryModeZero);
  o[1] = surf2Dread<float>(s, 0, h, cudaBoundaryModeZero);
  o[2] = surf2Dread<float>(s, -40, 2, cudaBoundaryModeClamp);
  o[3] = surf2Dread<float>(s, 4 * w + 40, h + 3, cudaBoundaryModeClamp);
}
__global__ void other(cudaSurfaceObject_t one, cudaSurfaceObject_t three, int *o) {
  int i = threadIdx.x;
  surf1Dwrite(i * 3, one, i * 4);
  surf3Dwrite(i + 1000, three, i % 4 * 4, i / 4 % 4, i / 16);
  __syncthreads();
  o[i] = surf1Dread<int>(one, (63 - i) * 4) + surf3Dread<int>(three, i % 4 * 4, i / 4 % 4, i / 16);
}
static cudaSurfaceObject_t surface(cudaArray_t a) {
  cudaResourceDesc r = {};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = a;
  cudaSurfaceObject_t s = 0;
  CHECK(cudaCreateSurfaceObject(&s, &r));
  return s;
}

template <class T> static void test() {
  const int w = 19, h = 11;
  T out[w * h], ref[w * h], *d;
  cudaArray_t a;
  cudaChannelFormatDesc f = cudaCreateChannelDesc<T>();
  CHECK(cudaMallocArray(&a, &f, w, h, cudaArraySurfaceLoadStore));
  CHECK(cudaMalloc(&d, sizeof out));
  cudaSurfaceObject_t s = surface(a);
  put<T><<<1, dim3(32, 16)>>>(s, w, h);
  CHECK(cudaGetLastError());
  want<T><<<1, dim3(32, 16)>>>(d, w, h);
  CHECK(cudaMemcpy(ref, d, sizeof ref, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy2DFromArray(out, w * sizeof(T), a, 0, 0, w * sizeof(T), h, cudaMemcpyDeviceToHost));
  EXPECT(!memcmp(out, ref, sizeof ref));
  CHECK(cudaMemset(d, 0, sizeof out));
  get<T><<<1, dim3(32, 16)>>>(s, d, w, h);
  CHECK(cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost));
  EXPECT(!memcmp(out, ref, sizeof ref));
  if (sizeof(T) == 4 && f.f == cudaChannelFormatKindFloat) {
    float e[4], *de;
    CHECK(cudaMalloc(&de, sizeof e));
    edges<<<1, 1>>>(s, de, w, h);
    CHECK(cudaMemcpy(e, de, sizeof e, cudaMemcpyDeviceToHost));
    EXPECT(e[0] == 0 && e[1] == 0 && e[2] == 2 * w * 0.5f && e[3] == (w * h - 1) * 0.5f);
    get<T><<<1, dim3(32, 16)>>>(s, d, w, h);
    CHECK(cudaMemcpy(out, d, sizeof out, cudaMemcpyDeviceToHost));
    EXPECT(!memcmp(out, ref, sizeof ref));
  }
  CHECK(cudaDestroySurfaceObject(s));
  CHECK(cudaFreeArray(a));
  CHECK(cudaFree(d));
}

int main() {
  test<float>();
  test<uchar4>();
  test<int2>();
  test<short>();
  test<uint4>();
  cudaArray_t a, b;
  cudaChannelFormatDesc f = cudaCreateChannelDesc<int>();
  CHECK(cudaMalloc3DArray(&a, &f, make_cudaExtent(64, 0, 0), cudaArraySurfaceLoadStore));
  CHECK(cudaMalloc3DArray(&b, &f, make_cudaExtent(4, 4, 4), cudaArraySurfaceLoadStore));
  int *d, h[64];
  CHECK(cudaMalloc(&d, sizeof h));
  other<<<1, 64>>>(surface(a), surface(b), d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; i++) EXPECT(h[i] == (63 - i) * 3 + i + 1000);
  printf("surfaces: well\n");
}
