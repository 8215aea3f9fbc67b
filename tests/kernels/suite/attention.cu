// One query per head over `length` (at most 1024) cached positions: a block of 128 per head of 64.
// Keys are stored head, dimension, position; values head, position, dimension. The same in
// tests/pocl/attention.cl.

#define THREADS 128u
#define HEAD 64u
#define MOST 1024u

extern "C" __global__ void attention(const float *__restrict__ query,
                                           const float *__restrict__ keys,
                                           const float *__restrict__ values,
                                           float *__restrict__ out, unsigned length) {
    __shared__ float scores[MOST], tree[THREADS], q[HEAD];
    unsigned t = threadIdx.x;
    keys += blockIdx.x * length * HEAD;
    values += blockIdx.x * length * HEAD;
    if (t < HEAD) {
        q[t] = query[blockIdx.x * HEAD + t] * 0.125f;
    }
    __syncthreads();
    float most = -3.4e38f;
    for (unsigned i = t; i < length; i += THREADS) {
        float dot = 0.0f;
        for (unsigned d = 0; d < HEAD; d++) {
            dot += q[d] * keys[d * length + i];
        }
        scores[i] = dot;
        most = fmaxf(most, dot);
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
    for (unsigned i = t; i < length; i += THREADS) {
        float weight = expf(scores[i] - most);
        scores[i] = weight;
        sum += weight;
    }
    tree[t] = sum;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half >>= 1) {
        if (t < half) {
            tree[t] += tree[t + half];
        }
        __syncthreads();
    }
    sum = tree[0];
    __syncthreads();
    unsigned d = t % HEAD, part = t / HEAD;
    float acc = 0.0f;
    for (unsigned i = part; i < length; i += THREADS / HEAD) {
        acc += scores[i] * values[i * HEAD + d];
    }
    tree[t] = acc;
    __syncthreads();
    if (t < HEAD) {
        out[blockIdx.x * HEAD + t] = (tree[t] + tree[t + HEAD]) / sum;
    }
}
