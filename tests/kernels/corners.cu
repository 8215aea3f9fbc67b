// Corners of the instruction set that the tenants' kernels do not reach.

#define FULL 0xffffffffu

__constant__ float coefficients[4] = {1.0f, -0.5f, 0.25f, -0.125f};
__device__ unsigned launches = 40;

// Polynomial with coefficients in constant memory, indexed at run time.
extern "C" __global__ void corners_constant(const float *__restrict__ x, float *__restrict__ out,
                                            unsigned terms) {
    float v = x[threadIdx.x], power = 1.0f, sum = 0.0f;
    for (unsigned t = 0; t < terms; t++) {
        sum = fmaf(coefficients[t % 4], power, sum);
        power *= v;
    }
    out[threadIdx.x] = sum;
}

// A variable of the module: it keeps its value between launches of one session.
extern "C" __global__ void corners_global(unsigned *out) {
    if (threadIdx.x == 0) {
        launches += 1;
        *out = launches;
    }
}

// Sorts 8 keys per thread in local memory (insertion sort: divergent loops).
extern "C" __global__ void corners_local(const unsigned *__restrict__ in,
                                         unsigned *__restrict__ out) {
    unsigned keys[8];
    unsigned base = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    for (unsigned i = 0; i < 8; i++) {
        keys[i] = in[base + i];
    }
#pragma unroll 1
    for (int i = 1; i < 8; i++) {
        unsigned key = keys[i];
        int j = i - 1;
#pragma unroll 1
        while (j >= 0 && keys[j] > key) {
            keys[j + 1] = keys[j];
            j--;
        }
        keys[j + 1] = key;
    }
    for (unsigned i = 0; i < 8; i++) {
        out[base + i] = keys[i];
    }
}

// Directed rounding: out[i] = {add, mul, fma, div, sqrt} x {nearest, zero, down, up}.
extern "C" __global__ void corners_rounding(const float *__restrict__ a,
                                            const float *__restrict__ b,
                                            const float *__restrict__ c, float *__restrict__ out) {
    unsigned i = threadIdx.x;
    float x = a[i], y = b[i], z = c[i];
    float *o = out + i * 20;
    o[0] = __fadd_rn(x, y);
    o[1] = __fadd_rz(x, y);
    o[2] = __fadd_rd(x, y);
    o[3] = __fadd_ru(x, y);
    o[4] = __fmul_rn(x, y);
    o[5] = __fmul_rz(x, y);
    o[6] = __fmul_rd(x, y);
    o[7] = __fmul_ru(x, y);
    o[8] = __fmaf_rn(x, y, z);
    o[9] = __fmaf_rz(x, y, z);
    o[10] = __fmaf_rd(x, y, z);
    o[11] = __fmaf_ru(x, y, z);
    o[12] = __fdiv_rn(x, y);
    o[13] = __fdiv_rz(x, y);
    o[14] = __fdiv_rd(x, y);
    o[15] = __fdiv_ru(x, y);
    o[16] = __fsqrt_rn(fabsf(x));
    o[17] = __fsqrt_rz(fabsf(x));
    o[18] = __fsqrt_rd(fabsf(x));
    o[19] = __fsqrt_ru(fabsf(x));
}

// Votes and shuffles of one warp: {ballot, any, all, up, down, xor, indexed, in groups of 8}.
extern "C" __global__ void corners_warp(const unsigned *__restrict__ in,
                                        unsigned *__restrict__ out) {
    unsigned lane = threadIdx.x % 32, v = in[threadIdx.x];
    unsigned *o = out + threadIdx.x * 8;
    o[0] = __ballot_sync(FULL, v & 1);
    o[1] = (unsigned)__any_sync(FULL, v > 250);
    o[2] = (unsigned)__all_sync(FULL, v < 256);
    o[3] = __shfl_up_sync(FULL, v, 3);
    o[4] = __shfl_down_sync(FULL, v, 5);
    o[5] = __shfl_xor_sync(FULL, v, 9);
    o[6] = __shfl_sync(FULL, v, (int)((lane * 7 + 3) % 32));
    o[7] = __shfl_sync(FULL, v, 2, 8);
}

// Length of the Collatz sequence: every lane leaves the loop at its own time.
extern "C" __global__ void corners_divergence(unsigned *__restrict__ out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    unsigned v = i + 1, steps = 0;
    while (v != 1) {
        if (v % 2 == 0) {
            v /= 2;
        } else {
            v = 3 * v + 1;
        }
        steps++;
    }
    out[i] = steps;
}

__device__ __noinline__ double horner(double x, int degree) {
    double sum = 0.0;
    for (int i = degree; i > 0; i--) {
        sum = fma(sum, x, 1.0 / (double)i);
    }
    return sum;
}

// Double precision through a real function call.
extern "C" __global__ void corners_double(const double *__restrict__ x, double *__restrict__ out,
                                          int degree) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = sqrt(fabs(horner(x[i], degree))) / (1.0 + x[i] * x[i]);
}

// Integers: {quotient, remainder, high product, population, leading zeros, reversed,
// signed quotient, signed shift} as 64-bit words; b is never 0.
extern "C" __global__ void corners_integer(const unsigned long long *__restrict__ a,
                                           const unsigned long long *__restrict__ b,
                                           unsigned long long *__restrict__ out) {
    unsigned long long x = a[threadIdx.x], y = b[threadIdx.x];
    unsigned long long *o = out + threadIdx.x * 8;
    o[0] = x / y;
    o[1] = x % y;
    o[2] = __umul64hi(x, y);
    o[3] = (unsigned long long)__popcll(x);
    o[4] = (unsigned long long)__clzll((long long)x);
    o[5] = __brevll(x);
    o[6] = (unsigned long long)((int)x / ((int)(y & 0xffff) + 1));
    o[7] = (unsigned long long)((long long)x >> (y & 63));
}

// Reverses each block's words through dynamic shared memory.
extern "C" __global__ void corners_dynamic(unsigned *__restrict__ words) {
    extern __shared__ unsigned mirror[];
    unsigned base = blockIdx.x * blockDim.x;
    mirror[threadIdx.x] = words[base + threadIdx.x];
    __syncthreads();
    words[base + threadIdx.x] = mirror[blockDim.x - 1 - threadIdx.x];
}

// Narrow types: bytes and half-words widened, saturated, and stored narrow again.
extern "C" __global__ void corners_narrow(const signed char *__restrict__ a,
                                          const unsigned short *__restrict__ b,
                                          short *__restrict__ out, unsigned char *__restrict__ low) {
    unsigned i = threadIdx.x;
    int sum = (int)a[i] * 300 + (int)b[i];
    out[i] = (short)min(max(sum, -32768), 32767);
    low[i] = (unsigned char)sum;
}

// f32 conversions: {to s32, to u32, to s64, from s32 bits, nearest-even, floor}.
extern "C" __global__ void corners_convert(const float *__restrict__ x, long long *__restrict__ out) {
    float v = x[threadIdx.x];
    long long *o = out + threadIdx.x * 6;
    o[0] = (int)v;
    o[1] = (unsigned)v;
    o[2] = (long long)v;
    o[3] = __float_as_int((float)__float_as_int(v));
    o[4] = __float2int_rn(v);
    o[5] = (int)floorf(v);
}
