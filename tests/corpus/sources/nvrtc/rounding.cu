// Every operation in every rounding mode; the reference is exact rational arithmetic.

#define FOUR(type, prefix, row, op, args) \
    out[(row) * n + i] = prefix##op##_rn args; out[(row + 1) * n + i] = prefix##op##_rz args; \
    out[(row + 2) * n + i] = prefix##op##_rd args; out[(row + 3) * n + i] = prefix##op##_ru args;

extern "C" __global__ void single(const float* a, const float* b, const float* c, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i], y = b[i], z = c[i];
    FOUR(float, __f, 0, add, (x, y))
    FOUR(float, __f, 4, sub, (x, y))
    FOUR(float, __f, 8, mul, (x, y))
    FOUR(float, __f, 12, div, (x, y))
    FOUR(float, __, 16, fmaf, (x, y, z))
    FOUR(float, __f, 20, rcp, (x))
    FOUR(float, __f, 24, sqrt, (fabsf(x)))
}

extern "C" __global__ void twice(const double* a, const double* b, const double* c, double* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = a[i], y = b[i], z = c[i];
    FOUR(double, __d, 0, add, (x, y))
    FOUR(double, __d, 4, sub, (x, y))
    FOUR(double, __d, 8, mul, (x, y))
    FOUR(double, __d, 12, div, (x, y))
    FOUR(double, __, 16, fma, (x, y, z))
    FOUR(double, __d, 20, rcp, (x))
    FOUR(double, __d, 24, sqrt, (fabs(x)))
}

#define TO(type, row, name) \
    out[(row) * n + i] = (long long)__##name##_rn(x); out[(row + 1) * n + i] = (long long)__##name##_rz(x); \
    out[(row + 2) * n + i] = (long long)__##name##_rd(x); out[(row + 3) * n + i] = (long long)__##name##_ru(x);

extern "C" __global__ void to_integers(const float* a, const double* b, long long* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    {
        float x = a[i];
        TO(int, 0, float2int) TO(unsigned, 4, float2uint)
        TO(long long, 8, float2ll) TO(unsigned long long, 12, float2ull)
    }
    {
        double x = b[i];
        TO(int, 16, double2int) TO(unsigned, 20, double2uint)
        TO(long long, 24, double2ll) TO(unsigned long long, 28, double2ull)
    }
}

#define FROM(row, name, x) \
    out[(row) * n + i] = __##name##_rn(x); out[(row + 1) * n + i] = __##name##_rz(x); \
    out[(row + 2) * n + i] = __##name##_rd(x); out[(row + 3) * n + i] = __##name##_ru(x);

extern "C" __global__ void from_integers(const int* a, const long long* b, const double* c,
                                         float* out, double* wide, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    FROM(0, int2float, a[i])
    FROM(4, uint2float, (unsigned)a[i])
    FROM(8, ll2float, b[i])
    FROM(12, ull2float, (unsigned long long)b[i])
    FROM(16, double2float, c[i])
    wide[i] = __ll2double_rn(b[i]); wide[n + i] = __ll2double_rd(b[i]);
    wide[2 * n + i] = __ull2double_ru((unsigned long long)b[i]); wide[3 * n + i] = __int2double_rn(a[i]);
}
