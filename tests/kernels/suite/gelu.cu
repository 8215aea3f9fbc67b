// out = gelu(x), tanh form written with one exponential; the same in tests/pocl/gelu.cl.

extern "C" __global__ void gelu(const float *__restrict__ x, float *__restrict__ out,
                                      unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        float u = 1.5957691216f * (v + 0.044715f * v * v * v);
        out[i] = v / (1.0f + expf(-u));
    }
}
