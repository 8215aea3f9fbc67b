// Ranks documents for a batch of queries: embed, multiply, softmax.
// Matrices are row-major f32.

#define TILE 16u
#define WARP 32u
#define FULL 0xffffffffu

// out[q][d] = mean over the query's tokens of table[ids[q][t]][d]. A block per query.
extern "C" __global__ void search_gather(const unsigned *__restrict__ ids,
                                         const float *__restrict__ table,
                                         float *__restrict__ out, unsigned tokens,
                                         unsigned width) {
    for (unsigned d = threadIdx.x; d < width; d += blockDim.x) {
        float sum = 0.0f;
        for (unsigned t = 0; t < tokens; t++) {
            sum += table[ids[blockIdx.x * tokens + t] * width + d];
        }
        out[blockIdx.x * width + d] = sum / (float)tokens;
    }
}

// c[m][n] = a[m][k] * b[k][n] in 16x16 shared tiles; any sizes.
extern "C" __global__ void search_matmul(const float *__restrict__ a,
                                         const float *__restrict__ b, float *__restrict__ c,
                                         unsigned m, unsigned n, unsigned k) {
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    unsigned x = threadIdx.x, y = threadIdx.y;
    unsigned row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (unsigned start = 0; start < k; start += TILE) {
        tile_a[y][x] = row < m && start + x < k ? a[row * k + start + x] : 0.0f;
        tile_b[y][x] = start + y < k && column < n ? b[(start + y) * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < TILE; i++) {
            sum += tile_a[y][i] * tile_b[i][x];
        }
        __syncthreads();
    }
    if (row < m && column < n) {
        c[row * n + column] = sum;
    }
}

// x[row] = softmax(x[row] * scale), in place, a block per row.
extern "C" __global__ void search_softmax(float *__restrict__ x, unsigned n, float scale) {
    __shared__ float scratch[WARP];
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    float *row = x + blockIdx.x * n;

    float highest = -3.402823466e38f;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        highest = fmaxf(highest, row[i] * scale);
    }
    for (int step = 16; step > 0; step >>= 1) {
        highest = fmaxf(highest, __shfl_xor_sync(FULL, highest, step));
    }
    if (lane == 0) {
        scratch[warp] = highest;
    }
    __syncthreads();
    highest = lane < warps ? scratch[lane] : -3.402823466e38f;
    for (int step = 16; step > 0; step >>= 1) {
        highest = fmaxf(highest, __shfl_xor_sync(FULL, highest, step));
    }
    __syncthreads();

    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        float e = expf(row[i] * scale - highest);
        row[i] = e;
        sum += e;
    }
    for (int step = 16; step > 0; step >>= 1) {
        sum += __shfl_xor_sync(FULL, sum, step);
    }
    if (lane == 0) {
        scratch[warp] = sum;
    }
    __syncthreads();
    sum = lane < warps ? scratch[lane] : 0.0f;
    for (int step = 16; step > 0; step >>= 1) {
        sum += __shfl_xor_sync(FULL, sum, step);
    }
    float inverse = 1.0f / sum;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        row[i] *= inverse;
    }
}
