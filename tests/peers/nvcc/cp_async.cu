// Asynchronous copies to shared memory: pipeline primitives, cooperative_groups::memcpy_async, cuda::memcpy_async.
// nvcc: -gencode arch=compute_80,code=compute_80
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

__global__ void primitives(const int *in, int *out, int n) {  // two stages, 16 and 4 bytes a thread
  __shared__ __align__(16) int s[2][256];
  int t = threadIdx.x, rounds = n / 256;
  auto fetch = [&](int r) {
    if (t < 32) __pipeline_memcpy_async(&s[r % 2][t * 4], &in[r * 256 + t * 4], 16);
    else if (t < 160) __pipeline_memcpy_async(&s[r % 2][128 + t - 32], &in[r * 256 + 128 + t - 32], 4);
    __pipeline_commit();
  };
  fetch(0);
  for (int r = 0; r < rounds; r++) {
    if (r + 1 < rounds) fetch(r + 1);
    __pipeline_wait_prior(r + 1 < rounds ? 1 : 0);
    __syncthreads();
    out[r * 256 + t] = s[r % 2][255 - t];
    __syncthreads();
  }
}
__global__ void groups(const int *in, int *out, int n) {
  __shared__ __align__(16) int s[256];
  auto block = cg::this_thread_block();
  for (int r = 0; r < n / 256; r++) {
    cg::memcpy_async(block, s, in + r * 256, sizeof s);
    cg::wait(block);
    out[r * 256 + threadIdx.x] = s[255 - threadIdx.x];
    block.sync();
  }
}
__global__ void barriers(const int *in, int *out, int n) {
  __shared__ __align__(16) int s[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  block.sync();
  for (int r = 0; r < n / 256; r++) {
    cuda::memcpy_async(block, s, in + r * 256, sizeof s, bar);
    bar.arrive_and_wait();
    out[r * 256 + threadIdx.x] = s[255 - threadIdx.x];
    block.sync();
  }
}
__global__ void piped(const int *in, int *out, int n) {
  __shared__ __align__(16) int s[2][256];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int rounds = n / 256, asked = 0;
  for (int r = 0; r < rounds; r++) {
    for (; asked < rounds && asked < r + 2; asked++) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s[asked % 2], in + asked * 256, sizeof s[0], pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    out[r * 256 + threadIdx.x] = s[r % 2][255 - threadIdx.x];
    block.sync();
    pipe.consumer_release();
  }
}

int main() {
  const int n = 2560;
  int *in, *out, h[n], r[n];
  for (int i = 0; i < n; i++) h[i] = i * 7 + 1;
  CHECK(cudaMalloc(&in, sizeof h));
  CHECK(cudaMalloc(&out, sizeof h));
  CHECK(cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice));
  void (*kernels[])(const int *, int *, int) = {primitives, groups, barriers, piped};
  for (auto k : kernels) {
    CHECK(cudaMemset(out, 0, sizeof r));
    k<<<1, 256>>>(in, out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) EXPECT(r[i] == h[i / 256 * 256 + 255 - i % 256]);
  }
  printf("cp_async: well\n");
}
