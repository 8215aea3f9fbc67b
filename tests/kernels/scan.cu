// Inclusive prefix sums of u32 in three launches: blocks, block totals, offsets.

#define WARP 32u
#define FULL 0xffffffffu

// out = inclusive scan within each block, totals[block] = the block's sum.
extern "C" __global__ void scan_blocks(const unsigned *__restrict__ in, unsigned *__restrict__ out,
                                       unsigned *__restrict__ totals, unsigned n) {
    __shared__ unsigned sums[WARP];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    unsigned v = i < n ? in[i] : 0;
    for (unsigned step = 1; step < WARP; step <<= 1) {
        unsigned below = __shfl_up_sync(FULL, v, step);
        if (lane >= step) {
            v += below;
        }
    }
    if (lane == WARP - 1) {
        sums[warp] = v;
    }
    __syncthreads();
    if (warp == 0) {
        unsigned s = lane < blockDim.x / WARP ? sums[lane] : 0;
        for (unsigned step = 1; step < WARP; step <<= 1) {
            unsigned below = __shfl_up_sync(FULL, s, step);
            if (lane >= step) {
                s += below;
            }
        }
        sums[lane] = s;
    }
    __syncthreads();
    if (warp > 0) {
        v += sums[warp - 1];
    }
    if (i < n) {
        out[i] = v;
    }
    if (threadIdx.x == blockDim.x - 1) {
        totals[blockIdx.x] = v;
    }
}

// out[i] += the scanned total of all blocks before this one.
extern "C" __global__ void scan_offsets(unsigned *__restrict__ out,
                                        const unsigned *__restrict__ totals, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x > 0 && i < n) {
        out[i] += totals[blockIdx.x - 1];
    }
}
