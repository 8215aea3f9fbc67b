// out = transposed in, square, 32 x 32 tiles by blocks of 32 x 8; the same in
// tests/pocl/transpose.cl.

#define TILE 32u
#define ROWS 8u

extern "C" __global__ void transpose(const float *__restrict__ in, float *__restrict__ out,
                                           unsigned n) {
    __shared__ float tile[TILE][TILE + 1];
    unsigned x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (unsigned j = 0; j < TILE; j += ROWS) {
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    }
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (unsigned j = 0; j < TILE; j += ROWS) {
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
    }
}
