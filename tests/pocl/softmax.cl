// As tests/kernels/suite/softmax.cu.

#define THREADS 256u

kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
softmax(global const float *restrict x, global float *restrict out, uint width) {
    local float tree[THREADS];
    uint t = get_local_id(0), group = get_group_id(0);
    global const float *row = x + group * width;
    float most = -3.4e38f;
    for (uint i = t; i < width; i += THREADS) {
        most = fmax(most, row[i]);
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
    for (uint i = t; i < width; i += THREADS) {
        sum += exp(row[i] - most);
    }
    tree[t] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = THREADS / 2; half_ > 0; half_ >>= 1) {
        if (t < half_) {
            tree[t] += tree[t + half_];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float scale = 1.0f / tree[0];
    for (uint i = t; i < width; i += THREADS) {
        out[group * width + i] = exp(row[i] - most) * scale;
    }
}
