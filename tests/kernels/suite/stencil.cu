// out = mean of a point and its four neighbours inside, a copy on the edge; blocks of 32 x 8; the
// same in tests/pocl/stencil.cl.

extern "C" __global__ void stencil(const float *__restrict__ in, float *__restrict__ out,
                                         unsigned n) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned at = y * n + x;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1) {
        out[at] = 0.2f * (in[at] + in[at - 1] + in[at + 1] + in[at - n] + in[at + n]);
    } else {
        out[at] = in[at];
    }
}
