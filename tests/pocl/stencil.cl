// As tests/kernels/suite/stencil.cu.

kernel __attribute__((reqd_work_group_size(32, 8, 1))) void
stencil(global const float *restrict in, global float *restrict out, uint n) {
    uint x = get_global_id(0), y = get_global_id(1), at = y * n + x;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1) {
        out[at] = 0.2f * (in[at] + in[at - 1] + in[at + 1] + in[at - n] + in[at + n]);
    } else {
        out[at] = in[at];
    }
}
