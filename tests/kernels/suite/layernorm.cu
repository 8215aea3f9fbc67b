// out = normalised rows of x, a block of 256 per row; the same in tests/pocl/layernorm.cl.

#define THREADS 256u

static __device__ float total(float *tree, float v) {
    unsigned t = threadIdx.x;
    tree[t] = v;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half >>= 1) {
        if (t < half) {
            tree[t] += tree[t + half];
        }
        __syncthreads();
    }
    float sum = tree[0];
    __syncthreads();
    return sum;
}

extern "C" __global__ void layernorm(const float *__restrict__ x,
                                           const float *__restrict__ gain,
                                           const float *__restrict__ bias, float *__restrict__ out,
                                           unsigned width) {
    __shared__ float tree[THREADS];
    const float *row = x + blockIdx.x * width;
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < width; i += THREADS) {
        sum += row[i];
    }
    float mean = total(tree, sum) / width;
    float squares = 0.0f;
    for (unsigned i = threadIdx.x; i < width; i += THREADS) {
        float d = row[i] - mean;
        squares += d * d;
    }
    float scale = rsqrtf(total(tree, squares) / width + 1e-5f);
    for (unsigned i = threadIdx.x; i < width; i += THREADS) {
        out[blockIdx.x * width + i] = (row[i] - mean) * scale * gain[i] + bias[i];
    }
}
