// A two-layer perceptron's training step: large matmuls, reductions, updates.
// Matrices are row-major f32. A matmul's m and n are multiples of 64, its k of 16.

#define BLOCK 64u // one block computes a BLOCK x BLOCK tile of the result
#define STEP 16u  // of the inner dimension at a time
#define EACH 4u   // one of 16 x 16 threads computes EACH x EACH of it
#define WARP 32u
#define FULL 0xffffffffu

// c = op(a) * op(b). A transposed operand is read as stored: a as [k][m], b as [n][k].
template <bool TRANSPOSE_A, bool TRANSPOSE_B>
__device__ __forceinline__ void matmul(const float *__restrict__ a, const float *__restrict__ b,
                                       float *__restrict__ c, unsigned m, unsigned n, unsigned k) {
    // One column more than the tile: a column's words then lie in different banks.
    __shared__ float tile_a[STEP][BLOCK + 1];
    __shared__ float tile_b[STEP][BLOCK + 1];
    unsigned x = threadIdx.x, y = threadIdx.y, thread = y * 16 + x;
    unsigned top = blockIdx.y * BLOCK, left = blockIdx.x * BLOCK;
    float sums[EACH][EACH] = {};
    for (unsigned start = 0; start < k; start += STEP) {
#pragma unroll
        for (unsigned part = 0; part < STEP * BLOCK / 256; part++) {
            unsigned e = part * 256 + thread;
            // Neighbouring threads read neighbouring addresses, whichever way it is stored.
            if (TRANSPOSE_A) {
                tile_a[e / BLOCK][e % BLOCK] = a[(start + e / BLOCK) * m + top + e % BLOCK];
            } else {
                tile_a[e % STEP][e / STEP] = a[(top + e / STEP) * k + start + e % STEP];
            }
            if (TRANSPOSE_B) {
                tile_b[e % STEP][e / STEP] = b[(left + e / STEP) * k + start + e % STEP];
            } else {
                tile_b[e / BLOCK][e % BLOCK] = b[(start + e / BLOCK) * n + left + e % BLOCK];
            }
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < STEP; i++) {
            float column[EACH], row[EACH];
#pragma unroll
            for (unsigned j = 0; j < EACH; j++) {
                column[j] = tile_a[i][y + 16 * j];
                row[j] = tile_b[i][x + 16 * j];
            }
#pragma unroll
            for (unsigned r = 0; r < EACH; r++) {
#pragma unroll
                for (unsigned s = 0; s < EACH; s++) {
                    sums[r][s] += column[r] * row[s];
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (unsigned r = 0; r < EACH; r++) {
#pragma unroll
        for (unsigned s = 0; s < EACH; s++) {
            c[(top + y + 16 * r) * n + left + x + 16 * s] = sums[r][s];
        }
    }
}

// c[m][n] = a[m][k] * b[k][n]
extern "C" __global__ void __launch_bounds__(256)
    train_matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
                 unsigned m, unsigned n, unsigned k) {
    matmul<false, false>(a, b, c, m, n, k);
}

// c[m][n] = transpose of a[k][m] * b[k][n]
extern "C" __global__ void __launch_bounds__(256)
    train_matmul_at(const float *__restrict__ a, const float *__restrict__ b,
                    float *__restrict__ c, unsigned m, unsigned n, unsigned k) {
    matmul<true, false>(a, b, c, m, n, k);
}

// c[m][n] = a[m][k] * transpose of b[n][k]
extern "C" __global__ void __launch_bounds__(256)
    train_matmul_bt(const float *__restrict__ a, const float *__restrict__ b,
                    float *__restrict__ c, unsigned m, unsigned n, unsigned k) {
    matmul<false, true>(a, b, c, m, n, k);
}

// Sum over the block, valid in thread 0.
__device__ __forceinline__ float block_sum(float v) {
    __shared__ float scratch[WARP];
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    for (int step = 16; step > 0; step >>= 1) {
        v += __shfl_down_sync(FULL, v, step);
    }
    if (lane == 0) {
        scratch[warp] = v;
    }
    __syncthreads();
    if (warp == 0) {
        v = lane < blockDim.x / WARP ? scratch[lane] : 0.0f;
        for (int step = 16; step > 0; step >>= 1) {
            v += __shfl_down_sync(FULL, v, step);
        }
    }
    return v;
}

// out[block] = sum of the block's share of x. Launched again on its own result
// with one block, it gives the total; the order of additions is always the same.
extern "C" __global__ void train_sum(const float *__restrict__ x, float *__restrict__ out,
                                     unsigned n) {
    float sum = 0.0f;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += x[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = sum;
    }
}

// x = x / (1 + |x|): a smooth activation. One with a kink would let two correct
// devices disagree visibly where a value is within rounding of it.
extern "C" __global__ void train_activate(float *__restrict__ x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] = x[i] / (1.0f + fabsf(x[i]));
    }
}

// gradient *= derivative of the activation, from its result: (1 - |activation|)^2
extern "C" __global__ void train_activate_gradient(float *__restrict__ gradient,
                                                   const float *__restrict__ activation,
                                                   unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float slope = 1.0f - fabsf(activation[i]);
        gradient[i] *= slope * slope;
    }
}

// error = prediction - target, squares = error * error. The error may take the
// prediction's place, so those two are not declared apart.
extern "C" __global__ void train_error(const float *prediction, const float *__restrict__ target,
                                       float *error, float *__restrict__ squares, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float e = prediction[i] - target[i];
        error[i] = e;
        squares[i] = e * e;
    }
}

// weights -= rate * (gradient + decay * weights)
extern "C" __global__ void train_update(float *__restrict__ weights,
                                        const float *__restrict__ gradient, float rate,
                                        float decay, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        weights[i] -= rate * (gradient[i] + decay * weights[i]);
    }
}

// to = from
extern "C" __global__ void train_assign(float *__restrict__ to, const float *__restrict__ from,
                                        unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        to[i] = from[i];
    }
}
