// Sorting in registers, warps, blocks and grids; searching and selecting.

extern "C" __global__ void bitonic_block(unsigned* x)
{
    __shared__ unsigned s[256];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    for (int k = 2; k <= 256; k *= 2)
        for (int j = k / 2; j; j >>= 1) {
            __syncthreads();
            int o = t ^ j;
            if (o > t && (s[t] > s[o]) == ((t & k) == 0)) {
                unsigned v = s[t];
                s[t] = s[o];
                s[o] = v;
            }
        }
    __syncthreads();
    x[blockIdx.x * 256 + t] = s[t];
}

extern "C" __global__ void bitonic_step(long long* x, int j, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, o = i ^ j;
    if (o <= i) return;
    long long a = x[i], b = x[o];
    if ((a > b) == ((i & k) == 0)) x[i] = b, x[o] = a;
}

extern "C" __global__ void bitonic_warp(float* x)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    float v = x[i];
    for (int k = 2; k <= 32; k *= 2)
        for (int j = k / 2; j; j >>= 1) {
            float o = __shfl_xor_sync(~0u, v, j);
            bool up = (lane & k) == 0, low = (lane & j) == 0;
            v = up == low ? fminf(v, o) : fmaxf(v, o);
        }
    x[i] = v;
}

extern "C" __global__ void radix(unsigned* keys, unsigned* values)
{
    __shared__ unsigned k[128], v[128], flags[128];
    int t = threadIdx.x;
    k[t] = keys[blockIdx.x * 128 + t];
    v[t] = values[blockIdx.x * 128 + t];
    __syncthreads();
    for (int bit = 0; bit < 16; bit++) {
        unsigned key = k[t], value = v[t], one = key >> bit & 1;
        flags[t] = !one;
        __syncthreads();
        for (int d = 1; d < 128; d *= 2) {
            unsigned u = t >= d ? flags[t - d] : 0;
            __syncthreads();
            flags[t] += u;
            __syncthreads();
        }
        unsigned zeros = flags[127], before = flags[t] - !one;
        unsigned to = one ? zeros + t - before : before;
        k[to] = key;
        v[to] = value;
        __syncthreads();
    }
    keys[blockIdx.x * 128 + t] = k[t];
    values[blockIdx.x * 128 + t] = v[t];
}

extern "C" __global__ void odd_even(int* x, int n)
{
    extern __shared__ int d[];
    int t = threadIdx.x;
    for (int i = t; i < n; i += blockDim.x) d[i] = x[i];
    for (int round = 0; round < n; round++) {
        __syncthreads();
        int i = 2 * t + (round & 1);
        if (i + 1 < n && d[i] > d[i + 1]) {
            int v = d[i];
            d[i] = d[i + 1];
            d[i + 1] = v;
        }
    }
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x) x[i] = d[i];
}

// Each element finds its rank in the other half by binary search.
extern "C" __global__ void merge(const int* x, int* out, int half)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 2 * half) return;
    bool right = i >= half;
    const int* other = right ? x : x + half;
    int v = x[i], low = 0, high = half;
    while (low < high) {
        int middle = (low + high) / 2;
        if (other[middle] < v || (right && other[middle] == v)) low = middle + 1; else high = middle;
    }
    out[(right ? i - half : i) + low] = v;
}

__device__ void quick(int* x, int low, int high)
{
    if (low >= high) return;
    int pivot = x[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (x[i] < pivot) i++;
        while (x[j] > pivot) j--;
        if (i <= j) {
            int v = x[i];
            x[i++] = x[j];
            x[j--] = v;
        }
    }
    quick(x, low, j);
    quick(x, i, high);
}

extern "C" __global__ void recursive(int* x, int each)
{
    quick(x + (blockIdx.x * blockDim.x + threadIdx.x) * each, 0, each - 1);
}

extern "C" __global__ void compact(const int* x, int* out, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && x[i] % 3 == 0;
    unsigned active = __activemask(), mask = __ballot_sync(active, keep);
    int lane = threadIdx.x & 31, leader = __ffs(active) - 1, base = 0;
    if (lane == leader) base = atomicAdd(count, __popc(mask));
    base = __shfl_sync(active, base, leader);
    if (keep) out[base + __popc(mask & ((1u << lane) - 1))] = x[i];
}

extern "C" __global__ void top_k(const float* x, float* out, int columns)
{
    float best[8];
    for (int k = 0; k < 8; k++) best[k] = -3e38f;
    const float* row = x + (blockIdx.x * blockDim.x + threadIdx.x) * columns;
    for (int i = 0; i < columns; i++) {
        float v = row[i];
        for (int k = 0; k < 8; k++)
            if (v > best[k]) {
                float u = best[k];
                best[k] = v;
                v = u;
            }
    }
    for (int k = 0; k < 8; k++) out[(blockIdx.x * blockDim.x + threadIdx.x) * 8 + k] = best[k];
}
