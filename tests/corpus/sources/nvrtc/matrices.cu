// Matrix products: shared memory tiles, tensor cores by wmma and by inline PTX.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void tiled(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float sa[16][17], sb[16][17];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int p = 0; p < k; p += 16) {
        sa[y][x] = row < m && p + x < k ? a[row * k + p + x] : 0;
        sb[y][x] = column < n && p + y < k ? b[(p + y) * n + column] : 0;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++) sum += sa[y][j] * sb[j][x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

// 64 x 64 of c a block, 4 x 4 a thread.
extern "C" __global__ void blocked(const float* a, const float* b, float* c, int n, int k)
{
    __shared__ __align__(16) float sa[8][64], sb[8][64];
    int t = threadIdx.x, tx = t % 16, ty = t / 16;
    float r[4][4] = {};
    for (int p = 0; p < k; p += 8) {
        for (int i = t; i < 512; i += 256) {
            sa[i % 8][i / 8] = a[(blockIdx.y * 64 + i / 8) * k + p + i % 8];
            sb[i / 64][i % 64] = b[(p + i / 64) * n + blockIdx.x * 64 + i % 64];
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float4 u = *(float4*)&sa[j][4 * ty], v = *(float4*)&sb[j][4 * tx];
            float ua[4] = {u.x, u.y, u.z, u.w}, va[4] = {v.x, v.y, v.z, v.w};
            for (int y = 0; y < 4; y++) for (int x = 0; x < 4; x++) r[y][x] = fmaf(ua[y], va[x], r[y][x]);
        }
        __syncthreads();
    }
    for (int y = 0; y < 4; y++)
        *(float4*)&c[(blockIdx.y * 64 + 4 * ty + y) * n + blockIdx.x * 64 + 4 * tx] = make_float4(r[y][0], r[y][1], r[y][2], r[y][3]);
}

extern "C" __global__ void doubles(const double* a, const double* b, double* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= n) return;
    double sum = 0;
    for (int k = 0; k < n; k++) sum = fma(a[j * n + k], b[k * n + i], sum);
    c[j * n + i] = sum;
}

template <typename T, int M, int N, int K, typename LA, typename LB, typename Acc>
__device__ void product(const T* a, const T* b, Acc* c, int n, int k, int lda, int ldb)
{
    wmma::fragment<wmma::matrix_a, M, N, K, T, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
    wmma::fill_fragment(fc, (Acc)0);
    int row = blockIdx.y * M, column = blockIdx.x * N;
    for (int p = 0; p < k; p += K) {
        wmma::load_matrix_sync(fa, a + row * lda + p, lda);
        wmma::load_matrix_sync(fb, b + p * ldb + column, ldb);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int e = 0; e < fc.num_elements; e++) fc.x[e] = fc.x[e] + fc.x[e];
    wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_half(const __half* a, const __half* b, float* c, int n, int k)
{
    product<__half, 16, 16, 16, wmma::row_major, wmma::row_major, float>(a, b, c, n, k, k, n);
}

extern "C" __global__ void wmma_wide(const __half* a, const __half* b, __half* c, int n, int k)
{
    product<__half, 8, 32, 16, wmma::row_major, wmma::row_major, __half>(a, b, c, n, k, k, n);
}

extern "C" __global__ void wmma_tall(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k)
{
    product<__nv_bfloat16, 32, 8, 16, wmma::row_major, wmma::row_major, float>(a, b, c, n, k, k, n);
}

extern "C" __global__ void wmma_bytes(const signed char* a, const signed char* b, int* c, int n, int k)
{
    product<signed char, 16, 16, 16, wmma::row_major, wmma::row_major, int>(a, b, c, n, k, k, n);
}

extern "C" __global__ void wmma_tf32(const float* a, const float* b, float* c, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int p = 0; p < k; p += 8) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * k + p, k);
        wmma::load_matrix_sync(fb, b + blockIdx.x * 16 * k + p, k);
        for (int e = 0; e < fa.num_elements; e++) fa.x[e] = wmma::__float_to_tf32(fa.x[e]);
        for (int e = 0; e < fb.num_elements; e++) fb.x[e] = wmma::__float_to_tf32(fb.x[e]);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_double(const double* a, const double* b, double* c, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
    wmma::fill_fragment(fc, 0.0);
    for (int p = 0; p < k; p += 4) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 8 * k + p, k);
        wmma::load_matrix_sync(fb, b + p * n + blockIdx.x * 8, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 8 * n + blockIdx.x * 8, fc, n, wmma::mem_row_major);
}

__device__ unsigned shared_at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// 16 x 8 of c a warp: asynchronous copies, ldmatrix, m16n8k16.
extern "C" __global__ void mma_half(const __half* a, const __half* b, float* c, int n, int k)
{
    __shared__ __align__(16) __half sa[2][16][16], sb[2][16][8];
    int t = threadIdx.x, row = blockIdx.y * 16, column = blockIdx.x * 8;
    float d[4] = {};
    auto fetch = [&](int stage, int p) {
        const __half* from = a + (row + t / 2) * k + p + t % 2 * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_at(&sa[stage][t / 2][t % 2 * 8])), "l"(from));
        if (t < 16) {
            const __half* other = b + (p + t) * n + column;
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(shared_at(&sb[stage][t][0])), "l"(other));
        }
        asm volatile("cp.async.commit_group;");
    };
    fetch(0, 0);
    for (int p = 0, stage = 0; p < k; p += 16, stage ^= 1) {
        if (p + 16 < k) {
            fetch(stage ^ 1, p + 16);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_all;");
        }
        __syncwarp();
        unsigned fa[4], fb[2];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(shared_at(&sa[stage][t % 16][t / 16 * 8])));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_at(&sb[stage][t % 16][0])));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
        __syncwarp();
    }
    float* at = c + (row + t / 4) * n + column + t % 4 * 2;
    at[0] = d[0]; at[1] = d[1]; at[8 * n] = d[2]; at[8 * n + 1] = d[3];
}

// m16n8k32 of bytes; b is stored column by column.
extern "C" __global__ void mma_bytes(const int* a, const int* b, int* c, int n, int k)
{
    int t = threadIdx.x, g = t / 4, q = t % 4, row = blockIdx.y * 16, column = blockIdx.x * 8, words = k / 4;
    int d[4] = {1, 2, 3, 4};
    for (int p = 0; p < words; p += 8) {
        int fa[4] = {a[(row + g) * words + p + q], a[(row + g + 8) * words + p + q],
                     a[(row + g) * words + p + q + 4], a[(row + g + 8) * words + p + q + 4]};
        int fb[2] = {b[(column + g) * words + p + q], b[(column + g) * words + p + q + 4]};
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                     : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    }
    int* at = c + (row + g) * n + column + q * 2;
    at[0] = d[0]; at[1] = d[1]; at[8 * n] = d[2]; at[8 * n + 1] = d[3];
}

// The same product four bytes at a time.
extern "C" __global__ void dot_bytes(const int* a, const int* b, int* c, int n, int words)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= n) return;
    int sum = 0;
    for (int p = 0; p < words; p++) sum = __dp4a(a[i * words + p], b[j * words + p], sum);
    c[i * n + j] = sum;
}

extern "C" __global__ void transposed_tile(const __half* x, __half* out)
{
    __shared__ __align__(16) __half s[32][8];
    int t = threadIdx.x;
    *(int4*)&s[t][0] = *(const int4*)(x + 8 * t);
    __syncwarp();
    unsigned r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_at(&s[t][0])));
    for (int k = 0; k < 4; k++) *(unsigned*)(out + 64 * k + t / 4 * 8 + t % 4 * 2) = r[k];
}

extern "C" __global__ void outer(float* a, const float* x, const float* y, float alpha, int m, int n)
{
    for (int i = blockIdx.y; i < m; i += gridDim.y)
        for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x)
            a[i * n + j] += alpha * x[i] * y[j];
}

extern "C" __global__ void cholesky(double* a, int n)
{
    double* m = a + blockIdx.x * n * n;
    int t = threadIdx.x;
    for (int k = 0; k < n; k++) {
        if (t == 0) m[k * n + k] = sqrt(m[k * n + k]);
        __syncthreads();
        for (int i = k + 1 + t; i < n; i += blockDim.x) m[i * n + k] /= m[k * n + k];
        __syncthreads();
        for (int i = k + 1 + t; i < n; i += blockDim.x)
            for (int j = k + 1; j <= i; j++) m[i * n + j] -= m[i * n + k] * m[j * n + k];
        __syncthreads();
    }
}
