// Sums, extremes and scans within warps, blocks and grids.

extern "C" __global__ void tree(const float* x, float* out, int n)
{
    extern __shared__ float s[];
    int t = threadIdx.x;
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) v += x[i];
    s[t] = v;
    __syncthreads();
    for (int k = blockDim.x / 2; k; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) atomicAdd(out, s[0]);
}

__device__ __forceinline__ double warp_sum(double v)
{
    for (int k = 16; k; k >>= 1) v += __shfl_down_sync(~0u, v, k);
    return v;
}

extern "C" __global__ void shuffles(const double* x, double* out, int n)
{
    __shared__ double parts[32];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    double v = warp_sum(i < n ? x[i] : 0.0);
    if (t % 32 == 0) parts[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = warp_sum(t < blockDim.x / 32 ? parts[t] : 0.0);
        if (t == 0) out[blockIdx.x] = v;
    }
}

extern "C" __global__ void argmax(const float* x, int* place, float* value, int columns)
{
    const float* row = x + blockIdx.x * columns;
    float best = -1e30f;
    int at = -1;
    for (int i = threadIdx.x; i < columns; i += 32)
        if (row[i] > best) best = row[i], at = i;
    for (int k = 16; k; k >>= 1) {
        float b = __shfl_xor_sync(~0u, best, k);
        int a = __shfl_xor_sync(~0u, at, k);
        if (b > best || (b == best && a < at)) best = b, at = a;
    }
    if (threadIdx.x == 0) place[blockIdx.x] = at, value[blockIdx.x] = best;
}

extern "C" __global__ void redux(const int* x, int* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, warp = i / 32;
    int v = x[i];
    unsigned member = __ballot_sync(~0u, v > 0);
    if (v > 0) {
        int sum = __reduce_add_sync(member, v), most = __reduce_max_sync(member, v);
        if (threadIdx.x % 32 == __ffs(member) - 1) out[4 * warp] = sum, out[4 * warp + 1] = most;
    }
    __syncwarp();
    unsigned all = __reduce_and_sync(~0u, (unsigned)v | 0xff), any = __reduce_xor_sync(~0u, (unsigned)v);
    if (threadIdx.x % 32 == 0) out[4 * warp + 2] = all, out[4 * warp + 3] = any;
}

extern "C" __global__ void block_votes(const int* x, int* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int a = __syncthreads_count(x[i] & 1);
    int b = __syncthreads_and(x[i] > -900);
    int c = __syncthreads_or(x[i] > 990);
    if (threadIdx.x == 0) out[3 * blockIdx.x] = a, out[3 * blockIdx.x + 1] = b, out[3 * blockIdx.x + 2] = c;
}

// The last block to finish adds up what all have written.
__device__ unsigned finished;

extern "C" __global__ void last_block(const unsigned* x, unsigned* parts, unsigned* out, int n)
{
    __shared__ unsigned s[128];
    __shared__ bool last;
    int t = threadIdx.x;
    unsigned v = 0;
    for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128) v += x[i];
    s[t] = v;
    __syncthreads();
    for (int k = 64; k; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) {
        parts[blockIdx.x] = s[0];
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        unsigned total = 0;
        for (int k = 0; k < gridDim.x; k++) total += ((volatile unsigned*)parts)[k];
        *out = total;
    }
}

extern "C" __global__ void welford(const float* x, float* mean, float* variance, int columns)
{
    const float* row = x + blockIdx.x * columns;
    float m = 0, s = 0, n = 0;
    for (int i = threadIdx.x; i < columns; i += 32) {
        n += 1;
        float d = row[i] - m;
        m += d / n;
        s += d * (row[i] - m);
    }
    for (int k = 16; k; k >>= 1) {
        float m2 = __shfl_down_sync(~0u, m, k), s2 = __shfl_down_sync(~0u, s, k), n2 = __shfl_down_sync(~0u, n, k);
        float total = n + n2, d = m2 - m;
        if (total > 0) {
            m += d * n2 / total;
            s += s2 + d * d * n * n2 / total;
            n = total;
        }
    }
    if (threadIdx.x == 0) mean[blockIdx.x] = m, variance[blockIdx.x] = s / n;
}

extern "C" __global__ void inclusive(const int* x, int* out)
{
    __shared__ int sums[32];
    int t = threadIdx.x, lane = t & 31, i = blockIdx.x * blockDim.x + t;
    int v = x[i];
    for (int k = 1; k < 32; k *= 2) {
        int u = __shfl_up_sync(~0u, v, k);
        if (lane >= k) v += u;
    }
    if (lane == 31) sums[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        int s = t < blockDim.x / 32 ? sums[t] : 0;
        for (int k = 1; k < 32; k *= 2) {
            int u = __shfl_up_sync(~0u, s, k);
            if (lane >= k) s += u;
        }
        sums[t] = s;
    }
    __syncthreads();
    out[i] = v + (t >= 32 ? sums[t / 32 - 1] : 0);
}

extern "C" __global__ void blelloch(const float* x, float* out)
{
    __shared__ float s[256];
    int t = threadIdx.x, base = blockIdx.x * 256;
    s[2 * t] = x[base + 2 * t];
    s[2 * t + 1] = x[base + 2 * t + 1];
    int step = 1;
    for (int d = 128; d; d >>= 1, step *= 2) {
        __syncthreads();
        if (t < d) s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1];
    }
    if (t == 0) s[255] = 0;
    for (int d = 1; d < 256; d *= 2) {
        step >>= 1;
        __syncthreads();
        if (t < d) {
            int a = step * (2 * t + 1) - 1, b = step * (2 * t + 2) - 1;
            float v = s[a];
            s[a] = s[b];
            s[b] += v;
        }
    }
    __syncthreads();
    out[base + 2 * t] = s[2 * t];
    out[base + 2 * t + 1] = s[2 * t + 1];
}

extern "C" __global__ void segmented(const int* x, const unsigned char* head, int* out)
{
    int i = blockIdx.x * 32 + threadIdx.x, lane = threadIdx.x;
    int v = x[i];
    unsigned heads = __ballot_sync(~0u, head[i]) | 1;
    int start = 31 - __clz(heads & (0xffffffffu >> (31 - lane)));
    for (int k = 1; k < 32; k *= 2) {
        int u = __shfl_up_sync(~0u, v, k);
        if (lane - k >= start) v += u;
    }
    out[i] = v;
}

// Single-pass scan: every block waits for the sums of those before it.
struct Status { unsigned long long word; };

extern "C" __global__ void lookback(const unsigned* x, unsigned* out, unsigned long long* status, unsigned* ticket, int n)
{
    __shared__ unsigned s[128], tile, before;
    int t = threadIdx.x;
    if (t == 0) tile = atomicAdd(ticket, 1);
    __syncthreads();
    int i = tile * 128 + t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int k = 1; k < 128; k *= 2) {
        unsigned u = t >= k ? s[t - k] : 0;
        __syncthreads();
        s[t] += u;
        __syncthreads();
    }
    if (t == 0) {
        unsigned total = s[127], sum = 0;
        atomicExch(&status[tile], (tile == 0 ? 2ull : 1ull) << 32 | total);
        for (int k = (int)tile - 1; k >= 0;) {
            unsigned long long w = atomicAdd(&status[k], 0ull);
            if (w >> 32 == 0) continue;
            sum += (unsigned)w;
            if (w >> 32 == 2) break;
            k--;
        }
        __threadfence();
        if (tile) atomicExch(&status[tile], 2ull << 32 | (sum + total));
        before = sum;
    }
    __syncthreads();
    if (i < n) out[i] = s[t] + before;
}
