// c = a b, square, 16 x 16 tiles in shared memory; the same in tests/pocl/matmul.cl.

#define TILE 16u

extern "C" __global__ void matmul(const float *__restrict__ a, const float *__restrict__ b,
                                        float *__restrict__ c, unsigned n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    unsigned x = threadIdx.x, y = threadIdx.y;
    unsigned row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (unsigned k = 0; k < n; k += TILE) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (unsigned i = 0; i < TILE; i++) {
            sum += left[y][i] * right[i][x];
        }
        __syncthreads();
    }
    c[row * n + column] = sum;
}
