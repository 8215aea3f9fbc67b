// What the language has beyond arithmetic: calls, tables, objects, memory spaces.

#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x;

__device__ __noinline__ int ackermann(int m, int n)
{
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ bool odd(int n);
__device__ __noinline__ bool even(int n) { return n == 0 || odd(n - 1); }
__device__ __noinline__ bool odd(int n) { return n != 0 && even(n - 1); }

extern "C" __global__ void recursion(int* out)
{
    INDEX
    out[2 * i] = ackermann(i % 3, i % 5);
    out[2 * i + 1] = even(i) * 2 + odd(i + 3);
}

typedef float (*Function)(float, float);
__device__ float plus(float a, float b) { return a + b; }
__device__ float minus(float a, float b) { return a - b; }
__device__ float times(float a, float b) { return a * b; }
__device__ float greater(float a, float b) { return a > b ? a : b; }
__device__ Function table[4] = {plus, minus, times, greater};

extern "C" __global__ void pointers(const float* a, const float* b, const int* which, float* out, int n)
{
    INDEX
    if (i < n) {
        Function f = table[which[i] & 3];
        out[i] = f(f(a[i], b[i]), 2.0f);
    }
}

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual int sides() const { return 0; }
};
struct Circle : Shape {
    float r;
    __device__ Circle(float r) : r(r) {}
    __device__ float area() const override { return 3.0f * r * r; }
};
struct Box : Shape {
    float w, h;
    __device__ Box(float w, float h) : w(w), h(h) {}
    __device__ float area() const override { return w * h; }
    __device__ int sides() const override { return 4; }
};

extern "C" __global__ void virtuals(const float* x, float* out, int n)
{
    INDEX
    if (i >= n) return;
    Circle c(x[i]);
    Box b(x[i], x[i] + 1);
    const Shape* s = i % 3 == 0 ? (const Shape*)&c : (const Shape*)&b;
    out[i] = s->area() + s->sides();
}

extern "C" __global__ void machine(const unsigned char* code, int* out, int length)
{
    INDEX
    int a = i, b = 1, pc = 0, steps = 0;
    while (pc < length && steps++ < 200) {
        switch (code[pc]) {
        case 0: a += b; break;
        case 1: a -= b * 2; break;
        case 2: a ^= b; break;
        case 3: b = a & 7; break;
        case 4: if (a & 1) pc += 2; break;
        case 5: a = a * 3 + 1; break;
        case 6: b = -b; break;
        case 7: a >>= 1; break;
        case 8: if (b < 0) pc = steps & 3; break;
        case 9: { int t = a; a = b; b = t; } break;
        case 10: a = ~a; break;
        case 11: b++; break;
        case 12: a %= 1000; break;
        default: b += pc;
        }
        pc++;
    }
    out[2 * i] = a;
    out[2 * i + 1] = b;
}

struct Inner { short a; char b; double c; };
struct Big { Inner parts[3]; float weights[5]; int* where; unsigned char flags; };

extern "C" __global__ void structures(Big big, long long scale, char tag, float4 v, const Inner* in, Inner* out)
{
    INDEX
    Inner x = in[i];
    x.a += big.parts[i % 3].a;
    x.b ^= big.flags + tag;
    x.c = x.c * big.parts[(i + 1) % 3].c + scale + v.z * big.weights[i % 5];
    out[i] = x;
    big.where[i] = (int)(v.x + v.y * big.weights[(i * 3) % 5]);
}

__constant__ float coefficients[8];
__constant__ int primes[10] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29};
__device__ int counter = 100;
__device__ const char message[] = "warp and weft";
__device__ int* indirect = &counter;

extern "C" __global__ void memories(const float* x, float* out, int* letters)
{
    INDEX
    float r = 0;
    for (int k = 7; k >= 0; k--) r = r * x[i] + coefficients[k];
    out[i] = r * primes[i % 10];
    letters[i] = message[i % 13] + atomicAdd(indirect, 0);
    if (i == 0) atomicAdd(&counter, 5);
}

extern "C" __global__ void generic(int* g, int which)
{
    __shared__ int s[64];
    int l[4] = {1, 2, 3, 4};
    int t = threadIdx.x;
    s[t] = t * t;
    __syncthreads();
    int* p = which == 0 ? g : which == 1 ? s : l;
    p[t % 4] += 10;
    __syncthreads();
    int* q = (t + which) % 3 == 0 ? &g[64 + t] : (t + which) % 3 == 1 ? &s[t] : &l[t % 4];
    g[128 + t] = *q + (__isShared(q) ? 1000 : 0) + (__isLocal(q) ? 2000 : 0) + (__isGlobal(q) ? 4000 : 0);
}

template <int N> struct Power { static __device__ long long of(long long x) { return x * Power<N - 1>::of(x); } };
template <> struct Power<0> { static __device__ long long of(long long) { return 1; } };

template <typename T, typename F> __device__ T fold(const T* x, int n, T start, F f)
{
    for (int k = 0; k < n; k++) start = f(start, x[k]);
    return start;
}

extern "C" __global__ void templates(const int* x, long long* out)
{
    INDEX
    int bias = i;
    long long a = Power<5>::of(x[i]);
    int b = fold(x, 16, bias, [=](int s, int v) { return s * 31 + v + bias; });
    union { double d; long long l; int w[2]; } u;
    u.d = x[i] * 0.5;
    out[3 * i] = a;
    out[3 * i + 1] = b;
    out[3 * i + 2] = u.l ^ u.w[1];
}

extern "C" __global__ void locals(const int* x, int* out)
{
    INDEX
    int stack[32], top = 0, seen[16] = {};
    char text[24];
    for (int k = 0; k < 24; k++) text[k] = 'a' + (x[i] + k * k) % 26;
    stack[top++] = x[i] & 15;
    int visited = 0;
    while (top) {
        int v = stack[--top];
        if (seen[v]++) continue;
        visited += v * (top + 1);
        stack[top++] = (v * 5 + 3) & 15;
        stack[top++] = (v ^ 9) & 15;
    }
    int hash = 5381;
    for (int k = 0; k < 24; k++) hash = hash * 33 + text[(k * 7) % 24];
    out[2 * i] = visited;
    out[2 * i + 1] = hash;
}

extern "C" __global__ void __launch_bounds__(64, 2) caches(const int* __restrict__ a, int* b, int* c)
{
    INDEX
    int v = __ldg(&a[i]) + __ldcg(&a[i + 1]) + __ldca(&a[i + 2]) + __ldcs(&a[i + 3]) + __ldlu(&b[i]) + __ldcv(&b[i]);
    __stwb(&c[i], v);
    __stcg(&c[64 + i], v * 2);
    __stcs(&c[128 + i], v * 3);
    __stwt(&c[192 + i], v * 4);
    asm volatile("prefetch.global.L2 [%0];" :: "l"(a));
    *(int4*)&c[256 + 4 * i] = make_int4(v, i, ~v, __ldg((const int2*)a + i).y);
}

extern "C" __global__ void named_barriers(const int* x, int* out)
{
    __shared__ int s[96];
    int t = threadIdx.x, half = t / 32;
    s[t] = x[t];
    if (half < 2) {
        asm volatile("bar.sync 1, 64;");
        out[t] = s[t ^ 32];
        asm volatile("bar.arrive 2, 96;");
    } else {
        asm volatile("bar.sync 2, 96;");
        out[t] = s[t - 32] + s[t - 64];
    }
    __syncwarp(0xffffffff);
    int p;
    asm volatile("{ .reg .pred p, q; setp.gt.s32 p, %1, 0; barrier.red.or.pred q, 3, p; selp.s32 %0, 1, 0, q; }" : "=r"(p) : "r"(x[t]));
    out[96 + t] = p;
}

extern "C" __global__ void specials(unsigned* out)
{
    int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned lane, warp, lt, ge, eq, size, dynamic;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%warpid;" : "=r"(warp));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
    asm("mov.u32 %0, %%lanemask_eq;" : "=r"(eq));
    asm("mov.u32 %0, %%total_smem_size;" : "=r"(size));
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(dynamic));
    long long start = clock64();
    unsigned ok = lane == (t & 31) && warp == t / 32 && lt == (1u << (t & 31)) - 1 && ge == ~lt && eq == 1u << (t & 31);
    ok += 2 * (dynamic == 64) + 4 * (size >= 64) + 8 * (clock64() >= start) + 16 * (warpSize == 32);
    out[b * blockDim.x * blockDim.y * blockDim.z + t] = ok;
}
