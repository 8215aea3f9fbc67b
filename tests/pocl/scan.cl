// As tests/kernels/suite/scan.cu.

#define THREADS 256u

kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
scan(global const uint *restrict in, global uint *restrict out, global uint *restrict totals) {
    local uint sums[2][THREADS];
    uint t = get_local_id(0), i = get_global_id(0), from = 0;
    sums[0][t] = in[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step_ = 1; step_ < THREADS; step_ <<= 1) {
        uint v = sums[from][t];
        if (t >= step_) {
            v += sums[from][t - step_];
        }
        from ^= 1;
        sums[from][t] = v;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[i] = sums[from][t];
    if (t == THREADS - 1) {
        totals[get_group_id(0)] = sums[from][t];
    }
}
