// For sm_90, without its matrix groups: asynchronous copies, barriers in memory, formats of 8 bits.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_fp8.h>

namespace cg = cooperative_groups;

extern "C" __global__ void eights(const float* x, unsigned char* a, unsigned char* b, float* back, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i >= n) return;
    float4 v = ((const float4*)x)[i];
    __nv_fp8x4_e4m3 p(v);
    __nv_fp8x4_e5m2 q(v);
    ((unsigned*)a)[i] = p.__x;
    ((unsigned*)b)[i] = q.__x;
    float4 f = float4(p), g = float4(q);
    ((float4*)back)[i] = make_float4(f.x + g.x, f.y + g.y, f.z + g.z, f.w + g.w);
}

extern "C" __global__ void barriers(const int* x, int* out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    __shared__ int s[64];
    if (threadIdx.x == 0) init(&b, 64);
    __syncthreads();
    for (int k = 0; k < 3; k++) {
        s[threadIdx.x] = k ? s[threadIdx.x] + k : x[blockIdx.x * 64 + threadIdx.x];
        auto token = b.arrive();
        b.wait(cuda::std::move(token));
        int v = s[(threadIdx.x + 13) % 64];
        b.arrive_and_wait();
        s[threadIdx.x] = v * 3;
    }
    out[blockIdx.x * 64 + threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void pipeline(const int* x, int* out, int n)
{
    __shared__ int s[2][64];
    auto pipe = cuda::make_pipeline();
    int t = threadIdx.x, sum = 0;
    for (int k = 0; k < n + 2; k++) {
        if (k >= 2) {
            pipe.consumer_wait();
            sum = sum * 7 + s[k % 2][t];
            pipe.consumer_release();
        }
        pipe.producer_acquire();
        if (k < n) cuda::memcpy_async(&s[k % 2][t], x + k * 64 + t, sizeof(int), pipe);
        pipe.producer_commit();
    }
    out[t] = sum;
}

extern "C" __global__ void copies(const int4* x, int4* out)
{
    __shared__ int4 s[96];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x + blockIdx.x * 96, sizeof(int4) * 96);
    cg::wait(block);
    out[blockIdx.x * 96 + threadIdx.x] = s[95 - threadIdx.x];
}

extern "C" __global__ void elected(const int* x, int* out)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
    unsigned chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
    unsigned sum = __reduce_add_sync(~0u, (unsigned)x[threadIdx.x] * chosen);
    out[threadIdx.x] = sum * 1000 + __popc(__ballot_sync(~0u, chosen));
    asm volatile("griddepcontrol.launch_dependents;");
}
