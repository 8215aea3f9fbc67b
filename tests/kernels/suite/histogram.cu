// Adds counts of n bytes to 256 bins, by atomics in shared and then in global memory; the same in
// tests/pocl/histogram.cl.

#define BINS 256u

extern "C" __global__ void histogram(const unsigned char *__restrict__ bytes,
                                           unsigned *__restrict__ bins, unsigned n) {
    __shared__ unsigned local[BINS];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * BINS + threadIdx.x; i < n; i += gridDim.x * BINS) {
        atomicAdd(&local[bytes[i]], 1u);
    }
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
