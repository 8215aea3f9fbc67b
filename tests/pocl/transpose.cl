// As tests/kernels/suite/transpose.cu.

#define TILE 32u
#define ROWS 8u

kernel __attribute__((reqd_work_group_size(32, 8, 1))) void
transpose(global const float *restrict in, global float *restrict out, uint n) {
    local float tile[TILE][TILE + 1];
    uint tx = get_local_id(0), ty = get_local_id(1);
    uint x = get_group_id(0) * TILE + tx, y = get_group_id(1) * TILE + ty;
    for (uint j = 0; j < TILE; j += ROWS) {
        tile[ty + j][tx] = in[(y + j) * n + x];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    x = get_group_id(1) * TILE + tx;
    y = get_group_id(0) * TILE + ty;
    for (uint j = 0; j < TILE; j += ROWS) {
        out[(y + j) * n + x] = tile[tx][ty + j];
    }
}
