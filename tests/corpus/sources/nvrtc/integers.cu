// Integer intrinsics, bit tricks, long arithmetic and carries.

#define ROW(f) out[(f) * n + i]
#define INDEX int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;

extern "C" __global__ void bits(const unsigned* a, const unsigned* b, unsigned* out, int n)
{
    INDEX
    unsigned x = a[i], y = b[i];
    ROW(0) = __brev(x); ROW(1) = __clz(x); ROW(2) = __ffs(x); ROW(3) = __popc(x);
    ROW(4) = __byte_perm(x, y, 0x5241); ROW(5) = __byte_perm(x, y, y);
    ROW(6) = __funnelshift_l(x, y, i); ROW(7) = __funnelshift_r(x, y, i);
    ROW(8) = __funnelshift_lc(x, y, i); ROW(9) = __funnelshift_rc(x, y, i);
    ROW(10) = x << (y & 31) | x >> (-y & 31); ROW(11) = (int)x >> (y & 31);
    unsigned r;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y & 63), "r"(y >> 8 & 63)); ROW(12) = r;
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y & 31), "r"(y >> 8 & 31)); ROW(13) = r;
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(x), "r"(y), "r"(y & 31), "r"(x & 31)); ROW(14) = r;
    asm("bfind.u32 %0, %1;" : "=r"(r) : "r"(x >> (y & 31))); ROW(15) = r;
    asm("bfind.shiftamt.s32 %0, %1;" : "=r"(r) : "r"((int)x >> (y & 31))); ROW(16) = r;
    asm("lop3.b32 %0, %1, %2, %3, 0xd8;" : "=r"(r) : "r"(x), "r"(y), "r"(i)); ROW(17) = r;
    asm("shl.b32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y & 63)); ROW(18) = r;
}

extern "C" __global__ void products(const int* a, const int* b, long long* out, int n)
{
    INDEX
    int x = a[i], y = b[i];
    unsigned ux = x, uy = y;
    ROW(0) = __mulhi(x, y); ROW(1) = __umulhi(ux, uy); ROW(2) = __mul24(x, y);
    ROW(3) = __umul24(ux, uy); ROW(4) = __sad(x, y, ux); ROW(5) = __usad(ux, uy, ux);
    ROW(6) = __hadd(x, y); ROW(7) = __rhadd(x, y); ROW(8) = __uhadd(ux, uy); ROW(9) = __urhadd(ux, uy);
    ROW(10) = (long long)x * y; ROW(11) = (unsigned long long)ux * uy;
    ROW(12) = max(x, y); ROW(13) = min(ux, uy); ROW(14) = abs(x); ROW(15) = x * y + i;
    int r;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); ROW(16) = r;
    asm("sub.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); ROW(17) = r;
    asm("mad.hi.sat.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(x)); ROW(18) = r;
    asm("mul24.hi.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); ROW(19) = r;
    asm("mad24.lo.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(i)); ROW(20) = r;
}

extern "C" __global__ void divisions(const long long* a, const long long* b, long long* out, int n)
{
    INDEX
    long long x = a[i], y = b[i];
    unsigned long long ux = x, uy = y;
    ROW(0) = x / y; ROW(1) = x % y; ROW(2) = ux / uy; ROW(3) = ux % uy;
    ROW(4) = (int)x / (int)(y | 1); ROW(5) = (int)x % (int)(y | 1);
    ROW(6) = (unsigned)x / (unsigned)(y | 1); ROW(7) = (unsigned)x % (unsigned)(y | 1);
    ROW(8) = (short)x / (short)(y | 1); ROW(9) = (unsigned char)x % (unsigned char)(y | 1);
    ROW(10) = x / 1000003; ROW(11) = ux % 10; ROW(12) = (int)x / 7; ROW(13) = (unsigned)x % 641;
    ROW(14) = __mul64hi(x, y); ROW(15) = __umul64hi(ux, uy); ROW(16) = __clzll(x);
    ROW(17) = __ffsll(x); ROW(18) = __popcll(x); ROW(19) = __brevll(x);
    ROW(20) = x << (y & 63); ROW(21) = x >> (y & 63); ROW(22) = ux >> (y & 63);
    ROW(23) = llabs(x); ROW(24) = llmax(x, y); ROW(25) = ullmin(ux, uy);
}

extern "C" __global__ void simd(const unsigned* a, const unsigned* b, unsigned* out, int n)
{
    INDEX
    unsigned x = a[i], y = b[i];
    ROW(0) = __vadd4(x, y); ROW(1) = __vaddss4(x, y); ROW(2) = __vaddus2(x, y); ROW(3) = __vavgu4(x, y);
    ROW(4) = __vmaxu2(x, y); ROW(5) = __vmaxs2(x, y); ROW(6) = __vminu4(x, y);
    ROW(7) = __vcmpgtu4(x, y); ROW(8) = __vhaddu4(x, y); ROW(9) = __vseteq4(x & 0x01010101, y & 0x01010101);
    ROW(10) = __dp4a((int)x, (int)y, i); ROW(11) = __dp4a(x, y, (unsigned)i);
    ROW(12) = __dp2a_lo((int)x, (int)y, i); ROW(13) = __dp2a_hi(x, y, (unsigned)i);
    ROW(14) = __vneg2(x); ROW(15) = __vsubus4(x, y);
}

// 256-bit sums and products: limbs are little-endian words, one number a thread.
extern "C" __global__ void wide(const unsigned* a, const unsigned* b, unsigned* sum, unsigned* difference,
                                unsigned* product, int n)
{
    INDEX
    const unsigned *x = a + 8 * i, *y = b + 8 * i;
    unsigned s[9], d[9];
    asm("add.cc.u32 %0, %1, %2;" : "=r"(s[0]) : "r"(x[0]), "r"(y[0]));
#pragma unroll
    for (int k = 1; k < 8; k++) asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(s[k]) : "r"(x[k]), "r"(y[k]));
    asm volatile("addc.u32 %0, 0, 0;" : "=r"(s[8]));
    asm volatile("sub.cc.u32 %0, %1, %2;" : "=r"(d[0]) : "r"(x[0]), "r"(y[0]));
#pragma unroll
    for (int k = 1; k < 8; k++) asm volatile("subc.cc.u32 %0, %1, %2;" : "=r"(d[k]) : "r"(x[k]), "r"(y[k]));
    asm volatile("subc.u32 %0, 0, 0;" : "=r"(d[8]));
    unsigned p[16] = {};
    for (int k = 0; k < 8; k++) {
        unsigned long long carry = 0;
        for (int j = 0; j < 8; j++) {
            carry += (unsigned long long)x[k] * y[j] + p[k + j];
            p[k + j] = (unsigned)carry;
            carry >>= 32;
        }
        p[k + 8] = (unsigned)carry;
    }
    for (int k = 0; k < 9; k++) sum[9 * i + k] = s[k], difference[9 * i + k] = d[k];
    for (int k = 0; k < 16; k++) product[16 * i + k] = p[k];
}

extern "C" __global__ void wide128(const unsigned long long* a, const unsigned long long* b,
                                   unsigned long long* out, int n)
{
    INDEX
    unsigned __int128 x = (unsigned __int128)a[i] << 64 | b[i];
    unsigned __int128 y = x * x + (x >> 37) - ((unsigned __int128)b[i] << 5);
    unsigned __int128 q = x / (a[i] >> 20 | 1);
    ROW(0) = (unsigned long long)y; ROW(1) = (unsigned long long)(y >> 64);
    ROW(2) = (unsigned long long)q; ROW(3) = (unsigned long long)(q >> 64);
}

__device__ unsigned long long power(unsigned long long base, unsigned long long e, unsigned long long m)
{
    unsigned long long r = 1;
    for (; e; e >>= 1) {
        if (e & 1) r = (unsigned __int128)r * base % m;
        base = (unsigned __int128)base * base % m;
    }
    return r;
}

// Miller-Rabin for all numbers below 2^64.
extern "C" __global__ void primes(const unsigned long long* a, unsigned char* out, int n)
{
    INDEX
    unsigned long long x = a[i], d = x - 1;
    int shifts = __ffsll(d) - 1;
    d >>= shifts;
    bool prime = x > 2 && x & 1;
    const unsigned char witnesses[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
    for (int k = 0; k < 12 && prime; k++) {
        if (x % witnesses[k] == 0) { prime = x == witnesses[k]; break; }
        unsigned long long y = power(witnesses[k], d, x);
        if (y == 1 || y == x - 1) continue;
        int r = 1;
        for (; r < shifts; r++) {
            y = (unsigned __int128)y * y % x;
            if (y == x - 1) break;
        }
        prime = r < shifts;
    }
    out[i] = prime;
}
