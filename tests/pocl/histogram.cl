// As tests/kernels/suite/histogram.cu.

#define BINS 256u

kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
histogram(global const uchar *restrict bytes, global uint *restrict bins, uint n) {
    local uint counts[BINS];
    uint t = get_local_id(0);
    counts[t] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_group_id(0) * BINS + t; i < n; i += get_num_groups(0) * BINS) {
        atomic_add(&counts[bytes[i]], 1u);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&bins[t], counts[t]);
}
