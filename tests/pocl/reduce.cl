// As tests/kernels/suite/reduce.cu, but by a tree in local memory: PoCL has no sub-groups.

#define THREADS 256u

kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
reduce(global const float *restrict x, global float *restrict out, uint n) {
    local float tree[THREADS];
    uint t = get_local_id(0), i = get_global_id(0);
    tree[t] = i < n ? x[i] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = THREADS / 2; half_ > 0; half_ >>= 1) {
        if (t < half_) {
            tree[t] += tree[t + half_];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t == 0) {
        out[get_group_id(0)] = tree[0];
    }
}
