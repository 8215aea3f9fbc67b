// Inclusive prefix sums within each block of 256; the same in tests/pocl/scan.cl.

#define THREADS 256u

extern "C" __global__ void scan(const unsigned *__restrict__ in, unsigned *__restrict__ out,
                                      unsigned *__restrict__ totals) {
    __shared__ unsigned sums[2][THREADS];
    unsigned t = threadIdx.x, i = blockIdx.x * THREADS + t, from = 0;
    sums[0][t] = in[i];
    __syncthreads();
    for (unsigned step = 1; step < THREADS; step <<= 1) {
        unsigned v = sums[from][t];
        if (t >= step) {
            v += sums[from][t - step];
        }
        from ^= 1;
        sums[from][t] = v;
        __syncthreads();
    }
    out[i] = sums[from][t];
    if (t == THREADS - 1) {
        totals[blockIdx.x] = sums[from][t];
    }
}
