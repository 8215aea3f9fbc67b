// As tests/kernels/suite/layernorm.cu.

#define THREADS 256u

kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
layernorm(global const float *restrict x, global const float *restrict gain,
                global const float *restrict bias, global float *restrict out, uint width) {
    local float tree[THREADS];
    uint t = get_local_id(0), group = get_group_id(0);
    global const float *row = x + group * width;
    float sum = 0.0f;
    for (uint i = t; i < width; i += THREADS) {
        sum += row[i];
    }
    tree[t] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = THREADS / 2; half_ > 0; half_ >>= 1) {
        if (t < half_) {
            tree[t] += tree[t + half_];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float mean = tree[0] / width;
    barrier(CLK_LOCAL_MEM_FENCE);
    float squares = 0.0f;
    for (uint i = t; i < width; i += THREADS) {
        float d = row[i] - mean;
        squares += d * d;
    }
    tree[t] = squares;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = THREADS / 2; half_ > 0; half_ >>= 1) {
        if (t < half_) {
            tree[t] += tree[t + half_];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float scale = rsqrt(tree[0] / width + 1e-5f);
    for (uint i = t; i < width; i += THREADS) {
        out[group * width + i] = (row[i] - mean) * scale * gain[i] + bias[i];
    }
}
