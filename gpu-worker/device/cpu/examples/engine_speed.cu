extern "C" __global__ void empty() {}
extern "C" __global__ void saxpy(unsigned n, float a, const float *x, float *y) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
// 256 threads are a 16 x 16 tile.
extern "C" __global__ void matmul(const float *a, const float *b, float *c, unsigned n) {
    __shared__ float ta[16][16], tb[16][16];
    unsigned tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    unsigned row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0;
    for (unsigned t = 0; t < n / 16; t++) {
        ta[ty][tx] = a[row * n + t * 16 + tx];
        tb[ty][tx] = b[(t * 16 + ty) * n + col];
        __syncthreads();
        for (unsigned k = 0; k < 16; k++) sum += ta[ty][k] * tb[k][tx];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
extern "C" __global__ void reduce(const float *x, float *out, unsigned n) {
    __shared__ float part[32];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int s = 16; s > 0; s >>= 1) v += __shfl_xor_sync(0xffffffffu, v, s);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0f;
        for (int s = 16; s > 0; s >>= 1) v += __shfl_xor_sync(0xffffffffu, v, s);
        if (threadIdx.x == 0) atomicAdd(out, v);
    }
}
