// Compiled for compute_80: asynchronous copies, ldmatrix, and the shapes of mma of that generation.
//
// Products of matrices, a (m x k) and b (k x n), to c row-major (m x n).

typedef unsigned short half_bits;
typedef unsigned int u32;

static const int TILE_M = 64, TILE_N = 64, TILE_K = 32;
// Sixteen bytes more per row, so that the rows that ldmatrix reads lie in different banks.
static const int A_ROW = TILE_K + 8, B_ROW = TILE_N + 8;

__device__ __forceinline__ u32 shared_address(const void *pointer) {
    return (u32)__cvta_generic_to_shared(pointer);
}

__device__ __forceinline__ void copy_async(half_bits *to, const half_bits *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
}

__device__ __forceinline__ void load_four(u32 (&to)[4], const half_bits *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row)));
}

__device__ __forceinline__ void load_four_turned(u32 (&to)[4], const half_bits *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row)));
}

__device__ __forceinline__ void multiply(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// One tile of a and one of b, sixteen bytes a copy.
__device__ __forceinline__ void fetch(half_bits *a_tile, half_bits *b_tile, const half_bits *a,
                                      const half_bits *b, u32 n, u32 k, u32 step) {
    for (int at = threadIdx.x; at < TILE_M * TILE_K / 8; at += 128) {
        int row = at / (TILE_K / 8), column = at % (TILE_K / 8) * 8;
        copy_async(a_tile + row * A_ROW + column, a + (size_t)row * k + step * TILE_K + column);
    }
    for (int at = threadIdx.x; at < TILE_K * TILE_N / 8; at += 128) {
        int row = at / (TILE_N / 8), column = at % (TILE_N / 8) * 8;
        copy_async(b_tile + row * B_ROW + column, b + (size_t)(step * TILE_K + row) * n + column);
    }
    asm volatile("cp.async.commit_group;");
}

// f16 by f16 in f32, all row-major; m and n are multiples of 64, k of 32, at least 32.
// A block of four warps computes 64 x 64; each warp 32 x 32 by mma. The next tiles are copied
// while the current ones are multiplied.
extern "C" __global__ void __launch_bounds__(128)
matmul_f16_mma(const half_bits *a, const half_bits *b, float *c, u32 m, u32 n, u32 k) {
    __shared__ __align__(16) half_bits a_tiles[2][TILE_M * A_ROW];
    __shared__ __align__(16) half_bits b_tiles[2][TILE_K * B_ROW];
    a += (size_t)blockIdx.y * TILE_M * k;
    b += blockIdx.x * TILE_N;
    c += (size_t)blockIdx.y * TILE_M * n + blockIdx.x * TILE_N;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int first_row = warp / 2 * 32, first_column = warp % 2 * 32;
    float sums[2][4][4] = {};
    u32 steps = k / TILE_K;
    fetch(a_tiles[0], b_tiles[0], a, b, n, k, 0);
    for (u32 step = 0; step < steps; ++step) {
        if (step + 1 < steps) {
            fetch(a_tiles[(step + 1) % 2], b_tiles[(step + 1) % 2], a, b, n, k, step + 1);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        const half_bits *a_tile = a_tiles[step % 2], *b_tile = b_tiles[step % 2];
#pragma unroll
        for (int depth = 0; depth < TILE_K; depth += 16) {
            u32 left[2][4], right[2][4];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                int row = first_row + 16 * half + lane % 16;
                load_four(left[half], a_tile + row * A_ROW + depth + lane / 16 * 8);
                int column = first_column + 16 * half + lane / 16 * 8;
                load_four_turned(right[half], b_tile + (depth + lane % 16) * B_ROW + column);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    multiply(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int row = first_row + 16 * i + lane / 4, column = first_column + 8 * j + lane % 4 * 2;
            *(float2 *)(c + (size_t)row * n + column) = make_float2(sums[i][j][0], sums[i][j][1]);
            *(float2 *)(c + (size_t)(row + 8) * n + column) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
}

// The compiler's own names of wmma, so that no header is needed.
extern "C" {
__device__ __device_builtin__ void __hmma_m16n16k16_ld_a(int *, const int *, unsigned, int);
__device__ __device_builtin__ void __hmma_m16n16k16_ld_b(int *, const int *, unsigned, int);
__device__ __device_builtin__ void __hmma_m16n16k16_st_c_f32(float *, const float *, unsigned, int);
__device__ __device_builtin__ void __hmma_m16n16k16_mma_f32f32(float *, const int *, const int *,
                                                               const float *, int, int);
}

// f16 by f16 in f32, all row-major; m, n and k are multiples of 16.
// A warp computes 16 x 16 by wmma, straight from global memory.
extern "C" __global__ void matmul_f16_wmma(const half_bits *a, const half_bits *b, float *c, u32 m,
                                         u32 n, u32 k) {
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    u32 row = warp / (n / 16) * 16, column = warp % (n / 16) * 16;
    if (row >= m)
        return;
    int left[8], right[8];
    float sum[8] = {};
    for (u32 at = 0; at < k; at += 16) {
        __hmma_m16n16k16_ld_a(left, (const int *)(a + (size_t)row * k + at), k, 0);
        __hmma_m16n16k16_ld_b(right, (const int *)(b + (size_t)at * n + column), n, 0);
        __hmma_m16n16k16_mma_f32f32(sum, left, right, sum, 0, 0);
    }
    __hmma_m16n16k16_st_c_f32(c + (size_t)row * n + column, sum, n, 0);
}

// s8 by s8 in s32, a row-major and b column-major; m is a multiple of 16, n of 8, k of 32.
// A warp computes 16 x 8 by mma, straight from global memory.
extern "C" __global__ void matmul_s8_mma(const signed char *a, const signed char *b, int *c, u32 m,
                                         u32 n, u32 k) {
    u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    u32 row = warp / (n / 8) * 16, column = warp % (n / 8) * 8;
    if (row >= m)
        return;
    u32 group = threadIdx.x % 32 / 4, thread = threadIdx.x % 4;
    const signed char *upper = a + (size_t)(row + group) * k + thread * 4;
    const signed char *lower = upper + (size_t)8 * k;
    const signed char *right = b + (size_t)(column + group) * k + thread * 4;
    int sum[4] = {};
    for (u32 at = 0; at < k; at += 32)
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
                     : "r"(*(const u32 *)(upper + at)), "r"(*(const u32 *)(lower + at)),
                       "r"(*(const u32 *)(upper + at + 16)), "r"(*(const u32 *)(lower + at + 16)),
                       "r"(*(const u32 *)(right + at)), "r"(*(const u32 *)(right + at + 16)));
    int *to = c + (size_t)(row + group) * n + column + thread * 2;
    *(int2 *)to = make_int2(sum[0], sum[1]);
    *(int2 *)(to + (size_t)8 * n) = make_int2(sum[2], sum[3]);
}
