// Layers of neural networks.
#include <cuda_fp16.h>

extern "C" __global__ void softmax(const float* x, float* y, int columns)
{
    __shared__ float s[8];
    const float* row = x + blockIdx.x * columns;
    int t = threadIdx.x;
    float m = -1e30f, sum = 0;
    for (int i = t; i < columns; i += blockDim.x) m = fmaxf(m, row[i]);
    for (int k = 16; k; k >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
    if (t % 32 == 0) s[t / 32] = m;
    __syncthreads();
    m = s[0];
    for (int k = 1; k < blockDim.x / 32; k++) m = fmaxf(m, s[k]);
    __syncthreads();
    for (int i = t; i < columns; i += blockDim.x) sum += expf(row[i] - m);
    for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
    if (t % 32 == 0) s[t / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int k = 0; k < blockDim.x / 32; k++) sum += s[k];
    for (int i = t; i < columns; i += blockDim.x) y[blockIdx.x * columns + i] = expf(row[i] - m) / sum;
}

extern "C" __global__ void rms_norm(const __half* x, const __half* gain, __half* y, int columns, float eps)
{
    const __half2* row = (const __half2*)(x + blockIdx.x * columns);
    float sum = 0;
    for (int i = threadIdx.x; i < columns / 2; i += 32) {
        float2 v = __half22float2(row[i]);
        sum = fmaf(v.x, v.x, fmaf(v.y, v.y, sum));
    }
    for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
    float scale = rsqrtf(sum / columns + eps);
    for (int i = threadIdx.x; i < columns / 2; i += 32) {
        float2 v = __half22float2(row[i]), g = __half22float2(((const __half2*)gain)[i]);
        ((__half2*)(y + blockIdx.x * columns))[i] = __floats2half2_rn(v.x * scale * g.x, v.y * scale * g.y);
    }
}

extern "C" __global__ void rope(float* q, const int* position, int heads, int width)
{
    int pair = threadIdx.x, head = blockIdx.y, token = blockIdx.x;
    float* v = q + (token * heads + head) * width + 2 * pair;
    float angle = position[token] * powf(10000.0f, -2.0f * pair / width), s, c;
    sincosf(angle, &s, &c);
    float a = v[0], b = v[1];
    v[0] = a * c - b * s;
    v[1] = a * s + b * c;
}

// One query a warp, its softmax computed on the way.
extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* out, int length, int causal)
{
    int lane = threadIdx.x, query = blockIdx.x;
    float x = q[query * 32 + lane], m = -1e30f, sum = 0, acc = 0;
    int end = causal ? query + 1 : length;
    for (int j = 0; j < end; j++) {
        float s = x * k[j * 32 + lane];
        for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
        s *= 0.17677669f;
        float bigger = fmaxf(m, s), shrink = __expf(m - bigger), p = __expf(s - bigger);
        sum = sum * shrink + p;
        acc = acc * shrink + p * v[j * 32 + lane];
        m = bigger;
    }
    out[query * 32 + lane] = acc / sum;
}

extern "C" __global__ void cross_entropy(const float* x, const int* label, float* loss, float* gradient, int classes)
{
    int row = blockIdx.x, lane = threadIdx.x;
    float m = -1e30f, sum = 0;
    for (int i = lane; i < classes; i += 32) m = fmaxf(m, x[row * classes + i]);
    for (int k = 16; k; k >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
    for (int i = lane; i < classes; i += 32) sum += expf(x[row * classes + i] - m);
    for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
    if (lane == 0) loss[row] = logf(sum) + m - x[row * classes + label[row]];
    for (int i = lane; i < classes; i += 32)
        gradient[row * classes + i] = expf(x[row * classes + i] - m) / sum - (i == label[row]);
}

extern "C" __global__ void conv(const float* x, const float* w, float* y, int channels, int height, int width, int filters)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y, f = blockIdx.z;
    if (i >= height || j >= width) return;
    float sum = 0;
    for (int c = 0; c < channels; c++)
#pragma unroll
        for (int p = -1; p <= 1; p++)
#pragma unroll
            for (int q = -1; q <= 1; q++)
                if (i + p >= 0 && i + p < height && j + q >= 0 && j + q < width)
                    sum += x[(c * height + i + p) * width + j + q] * w[((f * channels + c) * 3 + p + 1) * 3 + q + 1];
    y[(f * height + i) * width + j] = fmaxf(sum, 0.0f);
}

extern "C" __global__ void max_pool(const float* x, float* y, unsigned char* place, int width, int out)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= out) return;
    float best = -1e30f;
    int at = 0;
    for (int k = 0; k < 4; k++) {
        float v = x[(2 * i + k / 2) * width + 2 * j + k % 2];
        if (v > best) best = v, at = k;
    }
    y[i * out + j] = best;
    place[i * out + j] = at;
}

extern "C" __global__ void quantise(const float* x, signed char* q, float* scale, int columns)
{
    const float* row = x + blockIdx.x * columns;
    float m = 0;
    for (int i = threadIdx.x; i < columns; i += 32) m = fmaxf(m, fabsf(row[i]));
    for (int k = 16; k; k >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
    float s = m / 127.0f;
    for (int i = threadIdx.x; i < columns; i += 32)
        q[blockIdx.x * columns + i] = (signed char)max(-127, min(127, __float2int_rn(row[i] / s)));
    if (threadIdx.x == 0) scale[blockIdx.x] = s;
}

extern "C" __global__ void adam(float* w, const float* g, float* m, float* v, float rate, float correction1, float correction2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= rate * (m[i] / correction1) / (sqrtf(v[i] / correction2) + 1e-8f);
}

extern "C" __global__ void embedding_bag(const float* table, const int* ids, const int* offsets, float* out, int width)
{
    int bag = blockIdx.x;
    for (int d = threadIdx.x; d < width; d += blockDim.x) {
        float sum = 0;
        for (int k = offsets[bag]; k < offsets[bag + 1]; k++) sum += table[ids[k] * width + d];
        out[bag * width + d] = offsets[bag + 1] > offsets[bag] ? sum / (offsets[bag + 1] - offsets[bag]) : 0.0f;
    }
}

extern "C" __global__ void lstm(const float* gates, float* c, float* h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    auto sigmoid = [](float x) { return 1.0f / (1.0f + __expf(-x)); };
    float in = sigmoid(gates[i]), forget = sigmoid(gates[n + i]), cell = tanhf(gates[2 * n + i]), out = sigmoid(gates[3 * n + i]);
    c[i] = forget * c[i] + in * cell;
    h[i] = out * tanhf(c[i]);
}
