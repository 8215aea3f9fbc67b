// Small programs: stencils, signals, sparse matrices, graphs, random numbers, hashes.

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x;

extern "C" __global__ void stencil(const float* u, float* out, int h, int w)
{
    __shared__ float s[10][34];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    for (int j = threadIdx.y; j < 10; j += 8)
        for (int i = threadIdx.x; i < 34; i += 32) {
            int p = min(max((int)blockIdx.y * 8 + j - 1, 0), h - 1), q = min(max((int)blockIdx.x * 32 + i - 1, 0), w - 1);
            s[j][i] = u[p * w + q];
        }
    __syncthreads();
    int i = threadIdx.x + 1, j = threadIdx.y + 1;
    if (x < w && y < h) out[y * w + x] = s[j][i] + 0.1f * (s[j - 1][i] + s[j + 1][i] + s[j][i - 1] + s[j][i + 1] - 4 * s[j][i]);
}

extern "C" __global__ void life(const unsigned char* a, unsigned char* b, int h, int w)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int n = 0;
    for (int p = -1; p <= 1; p++)
        for (int q = -1; q <= 1; q++)
            if (p || q) n += a[(y + p + h) % h * w + (x + q + w) % w];
    b[y * w + x] = n == 3 || (n == 2 && a[y * w + x]);
}

extern "C" __global__ void median(const unsigned char* a, unsigned char* b, int h, int w)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= w) return;
    unsigned char v[9];
    for (int k = 0; k < 9; k++) v[k] = a[min(max(y + k / 3 - 1, 0), h - 1) * w + min(max(x + k % 3 - 1, 0), w - 1)];
    for (int i = 1; i < 9; i++) {
        unsigned char key = v[i];
        int j = i - 1;
        for (; j >= 0 && v[j] > key; j--) v[j + 1] = v[j];
        v[j + 1] = key;
    }
    b[y * w + x] = v[4];
}

extern "C" __global__ void fft(float2* x, int inverse)
{
    __shared__ float2 s[128];
    int t = threadIdx.x;
    for (int k = t; k < 128; k += 64) s[__brev(k) >> 25] = x[blockIdx.x * 128 + k];
    for (int half = 1; half < 128; half *= 2) {
        __syncthreads();
        int k = t & (half - 1), a = 2 * (t - k) + k, b = a + half;
        float si, co;
        sincospif((inverse ? 1.0f : -1.0f) * k / half, &si, &co);
        float2 u = s[a], v = s[b], w = make_float2(v.x * co - v.y * si, v.x * si + v.y * co);
        s[a] = make_float2(u.x + w.x, u.y + w.y);
        s[b] = make_float2(u.x - w.x, u.y - w.y);
    }
    __syncthreads();
    for (int k = t; k < 128; k += 64) x[blockIdx.x * 128 + k] = s[k];
}

extern "C" __global__ void walsh(int* x)
{
    INDEX
    int v = x[i], lane = threadIdx.x & 31;
    for (int k = 1; k < 32; k *= 2) {
        int o = __shfl_xor_sync(~0u, v, k);
        v = lane & k ? o - v : v + o;
    }
    x[i] = v;
}

extern "C" __global__ void spmv(const int* start, const int* column, const double* value, const double* x, double* y, int rows)
{
    INDEX
    if (i >= rows) return;
    double sum = 0;
    for (int k = start[i]; k < start[i + 1]; k++) sum += value[k] * x[column[k]];
    y[i] = sum;
}

extern "C" __global__ void spmv_warp(const int* start, const int* column, const double* value, const double* x, double* y, int rows)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    double sum = 0;
    for (int k = start[row] + lane; k < start[row + 1]; k += 32) sum += value[k] * x[column[k]];
    for (int k = 16; k; k >>= 1) sum += __shfl_down_sync(~0u, sum, k);
    if (lane == 0) y[row] = sum;
}

extern "C" __global__ void frontier(const int* start, const int* edge, int* depth, int level, int* changed, int n)
{
    INDEX
    if (i >= n || depth[i] != level) return;
    for (int k = start[i]; k < start[i + 1]; k++)
        if (atomicCAS(&depth[edge[k]], -1, level + 1) == -1) *changed = 1;
}

extern "C" __global__ void bodies(const float4* p, float3* force, int n)
{
    __shared__ float4 s[64];
    INDEX
    float4 me = i < n ? p[i] : make_float4(0, 0, 0, 0);
    float3 f = make_float3(0, 0, 0);
    for (int tile = 0; tile < n; tile += 64) {
        s[threadIdx.x] = tile + threadIdx.x < n ? p[tile + threadIdx.x] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < 64; k++) {
            float dx = s[k].x - me.x, dy = s[k].y - me.y, dz = s[k].z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), w = s[k].w * r * r * r;
            f.x += dx * w; f.y += dy * w; f.z += dz * w;
        }
        __syncthreads();
    }
    if (i < n) force[i] = f;
}

extern "C" __global__ void philox(uint4* out, unsigned k0, unsigned k1)
{
    INDEX
    uint4 c = make_uint4(i, 7, 0, 0);
    for (int r = 0; r < 10; r++) {
        unsigned h0 = __umulhi(0xD2511F53, c.x), l0 = 0xD2511F53 * c.x, h1 = __umulhi(0xCD9E8D57, c.z), l1 = 0xCD9E8D57 * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    out[i] = c;
}

extern "C" __global__ void normals(unsigned long long* state, float2* out)
{
    INDEX
    unsigned long long s = state[i];
    float u[2];
    for (int k = 0; k < 2; k++) {
        unsigned long long old = s;
        s = old * 6364136223846793005ull + 1442695040888963407ull;
        unsigned x = ((old >> 18) ^ old) >> 27, rot = old >> 59;
        u[k] = ((x >> rot | x << (-rot & 31)) >> 8) * 0x1p-24f + 0x1p-25f;
    }
    state[i] = s;
    float r = sqrtf(-2.0f * logf(u[0])), a, b;
    sincospif(2.0f * u[1], &a, &b);
    out[i] = make_float2(r * b, r * a);
}

__constant__ unsigned rounds[64];

extern "C" __global__ void sha256(const unsigned* message, unsigned* digest)
{
    INDEX
    unsigned w[64], h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int k = 0; k < 16; k++) w[k] = __byte_perm(message[16 * i + k], 0, 0x0123);
#define R(x, n) __funnelshift_r(x, x, n)
    for (int k = 16; k < 64; k++) {
        unsigned a = R(w[k - 15], 7) ^ R(w[k - 15], 18) ^ w[k - 15] >> 3, b = R(w[k - 2], 17) ^ R(w[k - 2], 19) ^ w[k - 2] >> 10;
        w[k] = w[k - 16] + a + w[k - 7] + b;
    }
    unsigned v[8];
    for (int k = 0; k < 8; k++) v[k] = h[k];
    for (int k = 0; k < 64; k++) {
        unsigned t = v[7] + (R(v[4], 6) ^ R(v[4], 11) ^ R(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) + rounds[k] + w[k];
        unsigned u = (R(v[0], 2) ^ R(v[0], 13) ^ R(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        for (int j = 7; j; j--) v[j] = v[j - 1];
        v[4] += t;
        v[0] = t + u;
    }
    for (int k = 0; k < 8; k++) digest[8 * i + k] = __byte_perm(h[k] + v[k], 0, 0x0123);
}

extern "C" __global__ void crc32(const unsigned char* data, unsigned* out, int length)
{
    INDEX
    unsigned crc = ~0u;
    for (int k = 0; k < length; k++) {
        crc ^= data[i * length + k];
        for (int b = 0; b < 8; b++) crc = crc >> 1 ^ (0xEDB88320 & -(crc & 1));
    }
    out[i] = ~crc;
}

// Wavefronts of an edit distance: one anti-diagonal a barrier.
extern "C" __global__ void edit(const char* a, const char* b, int* out, int n)
{
    extern __shared__ int d[];
    int t = threadIdx.x, size = n + 1;
    const char *p = a + blockIdx.x * n, *q = b + blockIdx.x * n;
    for (int k = 0; k <= 2 * n; k++) {
        for (int i = t; i <= min(k, n); i += blockDim.x) {
            int j = k - i;
            if (j > n) continue;
            int v;
            if (i == 0 || j == 0) v = i + j;
            else v = min(min(d[(i - 1) * size + j], d[i * size + j - 1]) + 1, d[(i - 1) * size + j - 1] + (p[i - 1] != q[j - 1]));
            d[i * size + j] = v;
        }
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = d[size * size - 1];
}

extern "C" __global__ void rays(const float4* spheres, float* depth, int* hit, int count, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= width) return;
    float dx = (x + 0.5f) / width - 0.5f, dy = (y + 0.5f) / width - 0.5f, best = 1e30f;
    int which = -1;
    for (int k = 0; k < count; k++) {
        float4 s = spheres[k];
        float b = dx * s.x + dy * s.y + s.z, a = dx * dx + dy * dy + 1, c = s.x * s.x + s.y * s.y + s.z * s.z - s.w * s.w;
        float d = b * b - a * c;
        if (d > 0) {
            float t = (b - sqrtf(d)) / a;
            if (t > 0 && t < best) best = t, which = k;
        }
    }
    depth[y * width + x] = which < 0 ? -1 : best;
    hit[y * width + x] = which;
}

extern "C" __global__ void kmeans(const float2* p, const float2* centre, int* nearest, int* count, int n, int k)
{
    INDEX
    if (i >= n) return;
    float best = 1e30f;
    int at = 0;
    for (int j = 0; j < k; j++) {
        float dx = p[i].x - centre[j].x, dy = p[i].y - centre[j].y, d = __fadd_rn(__fmul_rn(dx, dx), __fmul_rn(dy, dy));
        if (d < best) best = d, at = j;
    }
    nearest[i] = at;
    atomicAdd(&count[at], 1);
}
