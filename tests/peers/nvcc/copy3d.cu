// Three-dimensional copies and cudaMemset3D over boxes inside pitched volumes.
#include "check.h"

__global__ void stamp(cudaPitchedPtr v, int w, int h, int d) {
  int x = threadIdx.x + blockIdx.x * blockDim.x, y = blockIdx.y, z = blockIdx.z;
  if (x < w && y < h && z < d) {
    int *row = (int *)((char *)v.ptr + ((size_t)z * v.ysize + y) * v.pitch);
    row[x] = x + 1000 * y + 1000000 * z;
  }
}

int main() {
  const int w = 50, h = 20, d = 9, bw = 11, bh = 7, bd = 4;
  static int host[d][h][w], box[bd + 2][bh + 3][bw + 5];
  cudaPitchedPtr v, u;
  cudaExtent all = make_cudaExtent(w * sizeof(int), h, d);
  CHECK(cudaMalloc3D(&v, all));
  CHECK(cudaMalloc3D(&u, make_cudaExtent(64 * sizeof(int), 30, 12)));
  EXPECT(v.pitch >= w * sizeof(int) && v.ysize == h);
  stamp<<<dim3(2, h, d), 32>>>(v, w, h, d);
  CHECK(cudaGetLastError());
  cudaMemcpy3DParms c = {};
  c.srcPtr = v;
  c.dstPtr = make_cudaPitchedPtr(host, w * sizeof(int), w, h);
  c.extent = all;
  c.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3D(&c));
  for (int z = 0; z < d; z++)
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) EXPECT(host[z][y][x] == x + 1000 * y + 1000000 * z);
  // A box of v into u, then a box of u into host memory.
  CHECK(cudaMemset3D(u, 0xab, make_cudaExtent(64 * sizeof(int), 30, 12)));
  cudaMemcpy3DParms k = {};
  k.srcPtr = v;
  k.srcPos = make_cudaPos(5 * sizeof(int), 6, 2);
  k.dstPtr = u;
  k.dstPos = make_cudaPos(8 * sizeof(int), 9, 3);
  k.extent = make_cudaExtent(bw * sizeof(int), bh, bd);
  k.kind = cudaMemcpyDeviceToDevice;
  CHECK(cudaMemcpy3DAsync(&k));
  memset(box, 0, sizeof box);
  cudaMemcpy3DParms m = {};
  m.srcPtr = u;
  m.srcPos = make_cudaPos(7 * sizeof(int), 8, 2);
  m.dstPtr = make_cudaPitchedPtr(box, (bw + 5) * sizeof(int), bw + 5, bh + 3);
  m.dstPos = make_cudaPos(sizeof(int), 1, 0);
  m.extent = make_cudaExtent((bw + 2) * sizeof(int), bh + 2, bd + 2);
  m.kind = cudaMemcpyDefault;
  CHECK(cudaMemcpy3D(&m));
  for (int z = 0; z < bd + 2; z++)
    for (int y = 0; y < bh + 3; y++)
      for (int x = 0; x < bw + 5; x++) {
        int want = (int)0xabababab, X = x - 2, Y = y - 2, Z = z - 1;
        if (x < 1 || x > bw + 2 || y < 1) want = 0;
        else if (X >= 0 && X < bw && Y >= 0 && Y < bh && Z >= 0 && Z < bd) want = X + 5 + 1000 * (Y + 6) + 1000000 * (Z + 2);
        EXPECT(box[z][y][x] == want);
      }
  cudaPitchedPtr part = v;
  part.ptr = (char *)v.ptr + 4 * sizeof(int);
  CHECK(cudaMemset3DAsync(part, 0, make_cudaExtent(3 * sizeof(int), 2, d)));
  CHECK(cudaMemcpy3D(&c));
  for (int z = 0; z < d; z++)
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) EXPECT(host[z][y][x] == (x >= 4 && x < 7 && y < 2 ? 0 : x + 1000 * y + 1000000 * z));
  CHECK(cudaFree(v.ptr));
  CHECK(cudaFree(u.ptr));
  printf("copy3d: well\n");
}
