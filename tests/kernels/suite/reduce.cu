// out[block] = sum of a block's 256 values, by shuffles; tests/pocl/reduce.cl has a tree in local
// memory instead, because PoCL has no sub-groups.

#define FULL 0xffffffffu

extern "C" __global__ void reduce(const float *__restrict__ x, float *__restrict__ out,
                                        unsigned n) {
    __shared__ float sums[8];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (unsigned half = 16; half > 0; half >>= 1) {
        v += __shfl_down_sync(FULL, v, half);
    }
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32] = v;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < 8 ? sums[threadIdx.x] : 0.0f;
        for (unsigned half = 4; half > 0; half >>= 1) {
            v += __shfl_down_sync(FULL, v, half);
        }
        if (threadIdx.x == 0) {
            out[blockIdx.x] = v;
        }
    }
}
