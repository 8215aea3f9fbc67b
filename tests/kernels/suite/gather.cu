// out = rows of a table by id, a block per row; the same in tests/pocl/gather.cl.

extern "C" __global__ void gather(const unsigned *__restrict__ ids,
                                        const float *__restrict__ table, float *__restrict__ out,
                                        unsigned width) {
    unsigned id = ids[blockIdx.x];
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        out[blockIdx.x * width + i] = table[id * width + i];
    }
}
