// Memory set in every way: odd offsets and lengths, in streams, in two dimensions, whole and empty.
#include "check.h"

int main() {
  const int n = 5000;
  static unsigned char h[n], w[n];
  unsigned char *d, *p;
  size_t pitch;
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaMalloc(&d, n));
  CHECK(cudaMemset(d, 0x5a, n));
  memset(w, 0x5a, n);
  for (int off = 0; off < 20; off++)
    for (int len = 0; len < 40; len += 3) {
      int at = (off * 211 + len * 7) % (n - 64);
      CHECK(cudaMemset(d + at, off * 8 + len, len));
      memset(w + at, off * 8 + len, len);
    }
  CHECK(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost));
  EXPECT(!memcmp(h, w, n));
  CHECK(cudaMemsetAsync(d + 1, -1, n - 2, s));  // the value is taken as an unsigned char
  CHECK(cudaMemsetAsync(d + 10, 0x1234, 5, s));
  CHECK(cudaMemcpyAsync(h, d, n, cudaMemcpyDeviceToHost, s));
  CHECK(cudaStreamSynchronize(s));
  for (int i = 1; i < n - 1; i++) EXPECT(h[i] == (i >= 10 && i < 15 ? 0x34 : 0xff));
  EXPECT(h[0] == w[0] && h[n - 1] == w[n - 1]);
  CHECK(cudaMallocPitch(&p, &pitch, 100, 40));
  CHECK(cudaMemset2D(p, pitch, 7, 100, 40));
  CHECK(cudaMemset2DAsync(p + 3 * pitch + 11, pitch, 9, 50, 20, s));
  CHECK(cudaMemcpy2DAsync(h, 100, p, pitch, 100, 40, cudaMemcpyDeviceToHost, s));
  CHECK(cudaStreamSynchronize(s));
  for (int y = 0; y < 40; y++)
    for (int x = 0; x < 100; x++) EXPECT(h[y * 100 + x] == (y >= 3 && y < 23 && x >= 11 && x < 61 ? 9 : 7));
  CHECK(cudaMemset2D(d, 10, 0, 10, n / 10));  // pitch equal to width: one stretch
  CHECK(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++) EXPECT(h[i] == 0);
  CHECK(cudaMemset2D(d, 10, 1, 0, 5));
  void *host;
  CHECK(cudaMallocHost(&host, 256));
  CHECK(cudaMemset(host, 3, 256));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 256; i++) EXPECT(((char *)host)[i] == 3);
  WANT(cudaErrorInvalidValue, cudaMemset((void *)64, 1, 16));
  cudaGetLastError();
  CHECK(cudaFree(d));
  CHECK(cudaFree(p));
  CHECK(cudaFreeHost(host));
  printf("memset_kinds: well\n");
}
