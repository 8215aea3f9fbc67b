// As tests/kernels/suite/attention.cu.

#define THREADS 128u
#define HEAD 64u
#define MOST 1024u

kernel __attribute__((reqd_work_group_size(128, 1, 1))) void
attention(global const float *restrict query, global const float *restrict keys,
                global const float *restrict values, global float *restrict out, uint length_) {
    local float scores[MOST], tree[THREADS], q[HEAD];
    uint t = get_local_id(0), group = get_group_id(0);
    keys += group * length_ * HEAD;
    values += group * length_ * HEAD;
    if (t < HEAD) {
        q[t] = query[group * HEAD + t] * 0.125f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float most = -3.4e38f;
    for (uint i = t; i < length_; i += THREADS) {
        float sum = 0.0f;
        for (uint d = 0; d < HEAD; d++) {
            sum += q[d] * keys[d * length_ + i];
        }
        scores[i] = sum;
        most = fmax(most, sum);
    }
    tree[t] = most;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = THREADS / 2; half_ > 0; half_ >>= 1) {
        if (t < half_) {
            tree[t] = fmax(tree[t], tree[t + half_]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    most = tree[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (uint i = t; i < length_; i += THREADS) {
        float weight = exp(scores[i] - most);
        scores[i] = weight;
        sum += weight;
    }
    tree[t] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = THREADS / 2; half_ > 0; half_ >>= 1) {
        if (t < half_) {
            tree[t] += tree[t + half_];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = tree[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    uint d = t % HEAD, part = t / HEAD;
    float acc = 0.0f;
    for (uint i = part; i < length_; i += THREADS / HEAD) {
        acc += scores[i] * values[i * HEAD + d];
    }
    tree[t] = acc;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t < HEAD) {
        out[group * HEAD + t] = (tree[t] + tree[t + HEAD]) / sum;
    }
}
