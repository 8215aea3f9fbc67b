// Atomic operations of every kind; locks, queues and tables built on them.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void kinds(const unsigned* x, unsigned* a, unsigned long long* b, float* f, double* d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = x[i];
    atomicAdd(&a[0], v); atomicSub(&a[1], v); atomicMin(&a[2], v); atomicMax(&a[3], v);
    atomicMin((int*)&a[4], (int)v); atomicMax((int*)&a[5], (int)v);
    atomicAnd(&a[6], v | 0xf0f); atomicOr(&a[7], v & 0xff00ff); atomicXor(&a[8], v);
    atomicInc(&a[9], 12); atomicDec(&a[10], 9);
    atomicAdd(&b[0], (unsigned long long)v << 20); atomicMax(&b[1], (unsigned long long)v * v);
    atomicMin(&b[2], (unsigned long long)v * 3); atomicXor(&b[3], (unsigned long long)v << 31);
    atomicMax((long long*)&b[4], -(long long)v);
    atomicAdd(&f[0], 0.25f); atomicAdd(&d[0], 0.125);
}

extern "C" __global__ void floats(const float* x, float* most, float* least, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int* p = (int*)most;
    int old = *p;
    while (__int_as_float(old) < x[i]) {
        int seen = atomicCAS(p, old, __float_as_int(x[i]));
        if (seen == old) break;
        old = seen;
    }
    if (x[i] >= 0) atomicMin((int*)least, __float_as_int(x[i]));
    else atomicMax((unsigned*)least, __float_as_uint(x[i]));
}

extern "C" __global__ void halves(__half2* a, __nv_bfloat162* b, __half* c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&a[i % 4], __floats2half2_rn(0.5f, 1.0f));
    atomicAdd(&b[i % 2], __floats2bfloat162_rn(1.0f, 2.0f));
    atomicAdd(&c[i % 3], __float2half(1.0f));
}

extern "C" __global__ void histogram(const unsigned char* x, unsigned* bins, int n)
{
    __shared__ unsigned s[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[x[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) if (s[i]) atomicAdd(&bins[i], s[i]);
}

// Equal keys of a warp are counted by one lane.
extern "C" __global__ void matched(const unsigned char* x, unsigned* bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned peers = __match_any_sync(__activemask(), x[i]);
    if (__ffs(peers) - 1 == (threadIdx.x & 31)) atomicAdd(&bins[x[i]], __popc(peers));
}

extern "C" __global__ void table_insert(const unsigned* keys, unsigned* slots, unsigned* counts, int n, unsigned mask)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = keys[i], at = key * 2654435761u & mask;
    for (;;) {
        unsigned old = atomicCAS(&slots[at], 0u, key);
        if (old == 0 || old == key) break;
        at = (at + 1) & mask;
    }
    atomicAdd(&counts[at], 1);
}

extern "C" __global__ void table_find(const unsigned* keys, const unsigned* slots, const unsigned* counts, unsigned* out, int n, unsigned mask)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned at = keys[i] * 2654435761u & mask;
    while (slots[at] && slots[at] != keys[i]) at = (at + 1) & mask;
    out[i] = slots[at] ? counts[at] : 0;
}

// A linked list per bucket; nodes are pushed with atomicExch.
extern "C" __global__ void lists(const int* x, int* head, int* next, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) next[i] = atomicExch(&head[x[i] & 7], i);
}

extern "C" __global__ void walk(const int* head, const int* next, int* length, long long* sum)
{
    int count = 0;
    long long total = 0;
    for (int i = head[threadIdx.x]; i >= 0; i = next[i]) count++, total += i;
    length[threadIdx.x] = count;
    sum[threadIdx.x] = total;
}

// Every thread of a warp takes the same lock in turn.
extern "C" __global__ void lock(int* flag, unsigned* value)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(flag, 0, 1) == 0) {
            __threadfence();
            *(volatile unsigned*)value = *(volatile unsigned*)value * 5 + 3;
            __threadfence();
            atomicExch(flag, 0);
            done = true;
        }
    }
}

extern "C" __global__ void queue(unsigned* cursor, const unsigned* work, unsigned long long* done, int n)
{
    for (;;) {
        __shared__ unsigned item;
        __syncthreads();
        if (threadIdx.x == 0) item = atomicAdd(cursor, 1);
        __syncthreads();
        if (item >= n) return;
        unsigned v = work[item], r = 0;
        for (unsigned k = threadIdx.x; k < v; k += blockDim.x) r += k * k;
        atomicAdd(&done[item], (unsigned long long)r);
    }
}

// All blocks wait for one another, several times.
__device__ unsigned arrived, generation;

__device__ void grid_barrier()
{
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned now = *(volatile unsigned*)&generation;
        __threadfence();
        if (atomicAdd(&arrived, 1) == gridDim.x - 1) {
            arrived = 0;
            __threadfence();
            atomicAdd(&generation, 1);
        } else {
            while (*(volatile unsigned*)&generation == now) __nanosleep(20);
        }
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void barrier(int* a, int* b, int rounds)
{
    int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < rounds; k++) {
        b[i] = a[(i + n - 1) % n] + k;
        grid_barrier();
        a[i] = b[(i + 37) % n] * 3 - k;
        grid_barrier();
    }
}

extern "C" __global__ void pipeline(volatile int* flags, volatile int* values)
{
    int b = blockIdx.x;
    if (threadIdx.x == 0) {
        if (b > 0) while (flags[b - 1] == 0) ;
        __threadfence();
        values[b] = b ? values[b - 1] * 2 + b : 1;
        __threadfence();
        flags[b] = 1;
    }
}
