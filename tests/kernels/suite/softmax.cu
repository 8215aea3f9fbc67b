// out = softmax of the rows of x, a block of 256 per row; the same in tests/pocl/softmax.cl.

#define THREADS 256u

extern "C" __global__ void softmax(const float *__restrict__ x, float *__restrict__ out,
                                         unsigned width) {
    __shared__ float tree[THREADS];
    unsigned t = threadIdx.x;
    const float *row = x + blockIdx.x * width;
    float most = -3.4e38f;
    for (unsigned i = t; i < width; i += THREADS) {
        most = fmaxf(most, row[i]);
    }
    tree[t] = most;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half >>= 1) {
        if (t < half) {
            tree[t] = fmaxf(tree[t], tree[t + half]);
        }
        __syncthreads();
    }
    most = tree[0];
    __syncthreads();
    float sum = 0.0f;
    for (unsigned i = t; i < width; i += THREADS) {
        sum += expf(row[i] - most);
    }
    tree[t] = sum;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half >>= 1) {
        if (t < half) {
            tree[t] += tree[t + half];
        }
        __syncthreads();
    }
    float scale = 1.0f / tree[0];
    for (unsigned i = t; i < width; i += THREADS) {
        out[blockIdx.x * width + i] = expf(row[i] - most) * scale;
    }
}
