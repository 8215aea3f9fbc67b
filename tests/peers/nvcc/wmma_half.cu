// Matrix products of half with wmma: accumulation in float and in half, row and column order, and bfloat16.
// nvcc: -gencode arch=compute_80,code=compute_80
#include "check.h"
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;

template <class T, class C, class LB, int M, int N>
__global__ void product(const T *a, const T *b, C *c, int m, int n, int k) {
  int tm = blockIdx.y * M, tn = blockIdx.x * N;
  bool col = std::is_same<LB, wmma::col_major>::value;
  wmma::fragment<wmma::matrix_a, M, N, 16, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, 16, T, LB> fb;
  wmma::fragment<wmma::accumulator, M, N, 16, C> fc;
  wmma::fill_fragment(fc, C(1.0f));
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(fa, a + tm * k + i, k);
    wmma::load_matrix_sync(fb, col ? b + tn * k + i : b + i * n + tn, col ? k : n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] * C(2.0f);
  wmma::store_matrix_sync(c + tm * n + tn, fc, n, wmma::mem_row_major);
}

template <class T, class C, class LB, int M, int N> static void test() {
  const int m = 64, n = 64, k = 48;
  static T a[m * k], b[k * n];
  static C c[m * n];
  bool col = std::is_same<LB, wmma::col_major>::value;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < k; j++) a[i * k + j] = T((float)((i * 3 + j * 5) % 7 - 3));
  for (int j = 0; j < k; j++)
    for (int l = 0; l < n; l++) b[col ? l * k + j : j * n + l] = T((float)((j * 2 + l * 3) % 5 - 2));
  T *da, *db;
  C *dc;
  CHECK(cudaMalloc(&da, sizeof a));
  CHECK(cudaMalloc(&db, sizeof b));
  CHECK(cudaMalloc(&dc, sizeof c));
  CHECK(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice));
  product<T, C, LB, M, N><<<dim3(n / N, m / M), 32>>>(da, db, dc, m, n, k);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost));
  for (int i = 0; i < m; i++)
    for (int l = 0; l < n; l++) {
      int w = 1;
      for (int j = 0; j < k; j++) w += ((i * 3 + j * 5) % 7 - 3) * ((j * 2 + l * 3) % 5 - 2);
      EXPECT((float)c[i * n + l] == 2.0f * w);
    }
  CHECK(cudaFree(da));
  CHECK(cudaFree(db));
  CHECK(cudaFree(dc));
}

int main() {
  test<half, float, wmma::col_major, 16, 16>();
  test<half, float, wmma::row_major, 16, 16>();
  test<half, half, wmma::col_major, 16, 16>();
  test<half, float, wmma::col_major, 32, 8>();
  test<half, float, wmma::row_major, 8, 32>();
  test<__nv_bfloat16, float, wmma::col_major, 16, 16>();
  printf("wmma_half: well\n");
}
