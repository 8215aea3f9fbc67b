// As tests/kernels/suite/matmul.cu.

#define TILE 16u

kernel __attribute__((reqd_work_group_size(16, 16, 1))) void
matmul(global const float *restrict a, global const float *restrict b,
             global float *restrict c, uint n) {
    local float left[TILE][TILE], right[TILE][TILE];
    uint x = get_local_id(0), y = get_local_id(1);
    uint row = get_global_id(1), column = get_global_id(0);
    float sum = 0.0f;
    for (uint k = 0; k < n; k += TILE) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < TILE; i++) {
            sum += left[y][i] * right[i][x];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + column] = sum;
}
