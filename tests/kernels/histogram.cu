// Counts bytes with atomics: in shared memory per block, then in global memory.

#define BINS 256u

extern "C" __global__ void histogram(const unsigned char *__restrict__ bytes,
                                     unsigned *__restrict__ bins, unsigned n) {
    __shared__ unsigned local[BINS];
    for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x) {
        local[i] = 0;
    }
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&local[bytes[i]], 1u);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x) {
        atomicAdd(&bins[i], local[i]);
    }
}

// One pass over n values: out = {sum, min, max, and, or, xor, exchanged, increments}.
// The caller sets out to {0, ~0, 0, ~0, 0, 0, 0, 0}.
extern "C" __global__ void atomics(const unsigned *__restrict__ values, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned v = values[i];
        atomicAdd(&out[0], v);
        atomicMin(&out[1], v);
        atomicMax(&out[2], v);
        atomicAnd(&out[3], v);
        atomicOr(&out[4], v);
        atomicXor(&out[5], v);
        atomicExch(&out[6], 7u);
        atomicInc(&out[7], 0xffffffffu);
    }
}
