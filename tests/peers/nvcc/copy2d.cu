// Two-dimensional copies: pitched memory, all directions, parts of a picture, and the error for a bad pitch.
#include "check.h"

__global__ void check_and_add(unsigned char *p, size_t pitch, int w, int h, int *bad) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  unsigned char *c = p + y * pitch + x;
  if (*c != (unsigned char)(3 * x + 7 * y)) atomicAdd(bad, 1);
  *c += 1;
}

int main() {
  const int w = 333, h = 77;
  static unsigned char in[h][400], out[h][512];
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) in[y][x] = (unsigned char)(3 * x + 7 * y);
  unsigned char *p, *q;
  size_t pitch, qpitch;
  int *bad, hbad;
  CHECK(cudaMallocPitch(&p, &pitch, w, h));
  CHECK(cudaMallocPitch(&q, &qpitch, w + 300, h + 10));
  EXPECT(pitch >= w && pitch % 32 == 0 && qpitch >= w + 300);
  CHECK(cudaMalloc(&bad, sizeof(int)));
  CHECK(cudaMemset(bad, 0, sizeof(int)));
  CHECK(cudaMemcpy2D(p, pitch, in, 400, w, h, cudaMemcpyHostToDevice));
  dim3 b(32, 8), g((w + 31) / 32, (h + 7) / 8);
  check_and_add<<<g, b>>>(p, pitch, w, h, bad);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&hbad, bad, sizeof(int), cudaMemcpyDefault));
  EXPECT(hbad == 0);
  CHECK(cudaMemset2D(q, qpitch, 0xee, w + 300, h + 10));
  CHECK(cudaMemcpy2D(q + 3 * qpitch + 17, qpitch, p, pitch, w, h, cudaMemcpyDeviceToDevice));
  memset(out, 0x11, sizeof out);
  CHECK(cudaMemcpy2DAsync(out, 512, q + 2 * qpitch + 16, qpitch, w + 2, h, cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());
  for (int y = 0; y < h; y++)
    for (int x = 0; x < 512; x++) {
      unsigned char want = x >= w + 2 ? 0x11 : (y == 0 || x == 0 || x == w + 1) ? 0xee : (unsigned char)(in[y - 1][x - 1] + 1);
      EXPECT(out[y][x] == want);
    }
  CHECK(cudaMemcpy2D(out, 512, in, 400, w, h, cudaMemcpyHostToHost));
  for (int y = 0; y < h; y++) EXPECT(!memcmp(out[y], in[y], w));
  WANT(cudaErrorInvalidPitchValue, cudaMemcpy2D(p, pitch, in, w - 1, w, h, cudaMemcpyHostToDevice));
  WANT(cudaErrorInvalidPitchValue, cudaGetLastError());
  CHECK(cudaMemcpy2D(p, pitch, in, 400, 0, h, cudaMemcpyHostToDevice));  // nothing to copy
  CHECK(cudaFree(p));
  CHECK(cudaFree(q));
  CHECK(cudaFree(bad));
  printf("copy2d: well\n");
}
