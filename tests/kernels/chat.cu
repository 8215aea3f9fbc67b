// One decoding step of a GPT-style model, kernel by kernel. All matrices are
// row-major, all numbers are f32, a head is exactly one warp (32) wide.

#define WARP 32u
#define FULL 0xffffffffu
#define MAX_CONTEXT 256u

__device__ __forceinline__ float warp_sum(float v) {
    for (int step = 16; step > 0; step >>= 1) {
        v += __shfl_xor_sync(FULL, v, step);
    }
    return v;
}

__device__ __forceinline__ float warp_max(float v) {
    for (int step = 16; step > 0; step >>= 1) {
        v = fmaxf(v, __shfl_xor_sync(FULL, v, step));
    }
    return v;
}

// Sum over the block, for every thread. `scratch` has one slot per warp.
__device__ __forceinline__ float block_sum(float v, float *scratch) {
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    v = warp_sum(v);
    if (lane == 0) {
        scratch[warp] = v;
    }
    __syncthreads();
    v = warp_sum(lane < blockDim.x / WARP ? scratch[lane] : 0.0f);
    __syncthreads();
    return v;
}

// out[i] = token_table[*token][i] + position_table[position][i]
extern "C" __global__ void chat_embed(const unsigned *__restrict__ token, unsigned position,
                                      const float *__restrict__ token_table,
                                      const float *__restrict__ position_table,
                                      float *__restrict__ out, unsigned width) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width) {
        out[i] = token_table[*token * width + i] + position_table[position * width + i];
    }
}

// out = (x - mean) / sqrt(variance + 1e-5) * gain + bias. One block.
extern "C" __global__ void chat_layernorm(const float *__restrict__ x,
                                          const float *__restrict__ gain,
                                          const float *__restrict__ bias,
                                          float *__restrict__ out, unsigned width) {
    __shared__ float scratch[WARP];
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        sum += x[i];
    }
    float mean = block_sum(sum, scratch) / (float)width;
    float squares = 0.0f;
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        float d = x[i] - mean;
        squares += d * d;
    }
    float inverse = rsqrtf(block_sum(squares, scratch) / (float)width + 1e-5f);
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        out[i] = (x[i] - mean) * inverse * gain[i] + bias[i];
    }
}

// y = weights * x + bias, one warp per row; columns is a multiple of 4.
extern "C" __global__ void chat_matvec(const float *__restrict__ weights,
                                       const float *__restrict__ bias,
                                       const float *__restrict__ x, float *__restrict__ y,
                                       unsigned rows, unsigned columns) {
    unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    unsigned lane = threadIdx.x % WARP;
    if (row >= rows) {
        return;
    }
    const float4 *w = (const float4 *)(weights + row * columns);
    const float4 *v = (const float4 *)x;
    float sum = 0.0f;
    for (unsigned i = lane; i < columns / 4; i += WARP) {
        float4 a = w[i], b = v[i];
        sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
    sum = warp_sum(sum);
    if (lane == 0) {
        y[row] = sum + bias[row];
    }
}

// Copies this position's key and value (after the query in `qkv`) into the cache.
extern "C" __global__ void chat_cache_append(const float *__restrict__ qkv,
                                             float *__restrict__ keys,
                                             float *__restrict__ values, unsigned position,
                                             unsigned width) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width) {
        keys[position * width + i] = qkv[width + i];
        values[position * width + i] = qkv[2 * width + i];
    }
}

// Attention of one query over `length` cached positions, one head per block of
// 128 threads: warps take positions in turn, a lane is one dimension of the head.
extern "C" __global__ void chat_attention(const float *__restrict__ qkv,
                                          const float *__restrict__ keys,
                                          const float *__restrict__ values,
                                          float *__restrict__ out, unsigned length,
                                          unsigned width) {
    __shared__ float scores[MAX_CONTEXT];
    __shared__ float scratch[WARP];
    __shared__ float partial[4][WARP];
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    unsigned column = blockIdx.x * WARP + lane;
    float query = qkv[column] * 0.17677669529663687f; // 1 / sqrt(32)
    for (unsigned p = warp; p < length; p += warps) {
        float score = warp_sum(query * keys[p * width + column]);
        if (lane == 0) {
            scores[p] = score;
        }
    }
    __syncthreads();

    // Every warp finds the same maximum for itself: cheaper than a barrier more.
    float highest = -3.402823466e38f;
    for (unsigned p = lane; p < length; p += WARP) {
        highest = fmaxf(highest, scores[p]);
    }
    highest = warp_max(highest);
    __syncthreads();
    float sum = 0.0f;
    for (unsigned p = threadIdx.x; p < length; p += blockDim.x) {
        float e = expf(scores[p] - highest);
        scores[p] = e;
        sum += e;
    }
    sum = block_sum(sum, scratch);

    float mixed = 0.0f;
    for (unsigned p = warp; p < length; p += warps) {
        mixed += scores[p] * values[p * width + column];
    }
    partial[warp][lane] = mixed;
    __syncthreads();
    if (warp == 0) {
        float total = partial[0][lane] + partial[1][lane] + partial[2][lane] + partial[3][lane];
        out[column] = total / sum;
    }
}

// x = gelu(x), the tanh form.
extern "C" __global__ void chat_gelu(float *__restrict__ x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        float t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v));
        x[i] = 0.5f * v * (1.0f + t);
    }
}

// x += y
extern "C" __global__ void chat_residual(float *__restrict__ x, const float *__restrict__ y,
                                         unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] += y[i];
    }
}

// *out = index of the largest value, the lowest index where values are equal.
// One block. The same answer whatever the order of threads.
extern "C" __global__ void chat_argmax(const float *__restrict__ values, unsigned n,
                                       unsigned *__restrict__ out) {
    __shared__ float best_values[WARP];
    __shared__ unsigned best_indices[WARP];
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    float best = -3.402823466e38f;
    unsigned index = 0xffffffffu;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        if (values[i] > best || index == 0xffffffffu) {
            best = values[i];
            index = i;
        }
    }
    for (int round = 0; round < 2; round++) {
        for (int step = 16; step > 0; step >>= 1) {
            float other = __shfl_down_sync(FULL, best, step);
            unsigned other_index = __shfl_down_sync(FULL, index, step);
            if (other > best || (other == best && other_index < index)) {
                best = other;
                index = other_index;
            }
        }
        if (round == 0) {
            if (lane == 0) {
                best_values[warp] = best;
                best_indices[warp] = index;
            }
            __syncthreads();
            bool have = lane < blockDim.x / WARP;
            best = have ? best_values[lane] : -3.402823466e38f;
            index = have ? best_indices[lane] : 0xffffffffu;
        }
    }
    if (threadIdx.x == 0) {
        *out = index;
    }
}
