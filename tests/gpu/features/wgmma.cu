// nvcc: -arch=sm_90a
// One warp group's matrix product of Hopper: 64x16 by 16x64 in bf16, both from shared memory, added to twice.
#include "feature.cuh"

#include <cstdint>
#include <cuda_bf16.h>

constexpr int M = 64, N = 64, K = 16;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Where (row, k) lies in shared memory: cores of 8 rows by 8 values, each 128 bytes in a row; the two cores of a
// row's 16 values side by side.
__device__ inline int place(int row, int k) { return (row / 8 * 2 + k / 8) * 64 + row % 8 * 8 + k % 8; }

// A matrix without swizzle: 128 bytes from core to core along k, 256 along the rows.
__device__ inline uint64_t descriptor(const void *at) {
  uint64_t address = __cvta_generic_to_shared(at);
  return (address & 0x3FFFF) >> 4 | (uint64_t)(128 >> 4) << 16 | (uint64_t)(256 >> 4) << 32;
}

// Adds the product to the sums of this thread, or sets them.
__device__ inline void multiply(float (&d)[32], uint64_t a, uint64_t b, int add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, 0, 0; }\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(add)
      : "memory");
}
#endif

// C = 2 A B, by one warp group. A is M rows of K, B is N rows of K.
__global__ void twice(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ alignas(128) __nv_bfloat16 left[M * K], right[N * K];
  int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  for (int i = thread; i < M * K; i += 128) left[place(i / K, i % K)] = a[i];
  for (int i = thread; i < N * K; i += 128) right[place(i / K, i % K)] = b[i];
  // The tensor core reads through the async proxy.
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[32];
  for (int i = 0; i < 32; i++) d[i] = 1e6f;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  multiply(d, descriptor(left), descriptor(right), 0);
  multiply(d, descriptor(left), descriptor(right), 1);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 32; i++) {
    asm volatile("" : "+f"(d[i])::"memory");
    int row = warp * 16 + lane / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    c[row * N + column] = d[i];
  }
#endif
}

int main() {
  feature_begin("wgmma");
  need(9);
  if (attribute(cudaDevAttrComputeCapabilityMajor) != 9) skip("only sm_90a has this instruction");
  static __nv_bfloat16 a[M * K], b[N * K];
  static float x[M * K], y[N * K], seen[M * N];
  for (int i = 0; i < M * K; i++) a[i] = __float2bfloat16(x[i] = (float)(i * 5 % 23 - 11));
  for (int i = 0; i < N * K; i++) b[i] = __float2bfloat16(y[i] = (float)(i * 7 % 19 - 9));
  float *c = device_array<float>(M * N);
  twice<<<1, 128>>>(to_device(a, M * K), to_device(b, N * K), c);
  RAN();
  to_host(seen, c, M * N);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float right = 0;
      for (int k = 0; k < K; k++) right += 2 * x[i * K + k] * y[j * K + k];
      if (seen[i * N + j] != right) fail("(%d, %d) is %g, not %g", i, j, seen[i * N + j], right);
    }
  return well();
}
