// CUDA's single precision functions; each kernel writes a row per function.

#define ROW(f) out[(f) * n + i]
#define KERNEL(name) \
    extern "C" __global__ void name(const float* a, const float* b, float* out, int n)
#define INDEX \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= n) return; \
    float x = a[i], y = b[i];

KERNEL(trigonometry)
{
    INDEX
    ROW(0) = sinf(x); ROW(1) = cosf(x); ROW(2) = tanf(y); ROW(3) = atanf(x); ROW(4) = atan2f(x, y);
    ROW(5) = asinf(y); ROW(6) = acosf(y);
    float s, c;
    sincosf(x, &s, &c);
    ROW(7) = s; ROW(8) = c;
    ROW(9) = sinpif(y); ROW(10) = cospif(y);
}

KERNEL(hyperbolic)
{
    INDEX
    ROW(0) = sinhf(x); ROW(1) = coshf(x); ROW(2) = tanhf(x); ROW(3) = asinhf(x);
    ROW(4) = acoshf(1.0f + fabsf(x)); ROW(5) = atanhf(y);
}

KERNEL(exponential)
{
    INDEX
    ROW(0) = expf(x); ROW(1) = exp2f(x); ROW(2) = exp10f(x); ROW(3) = expm1f(x);
    ROW(4) = logf(y); ROW(5) = log2f(y); ROW(6) = log10f(y); ROW(7) = log1pf(y);
    ROW(8) = powf(y, x); ROW(9) = cbrtf(x); ROW(10) = rcbrtf(y); ROW(11) = hypotf(x, y);
    ROW(12) = sqrtf(y); ROW(13) = rsqrtf(y); ROW(14) = norm3df(x, y, 1.0f);
}

KERNEL(special)
{
    INDEX
    ROW(0) = erff(x); ROW(1) = erfcf(x); ROW(2) = tgammaf(y); ROW(3) = lgammaf(y);
    ROW(4) = erfinvf(x * 0.33f); ROW(5) = normcdff(x); ROW(6) = j0f(y); ROW(7) = j1f(y);
    ROW(8) = jnf(3, y); ROW(9) = cyl_bessel_i0f(x); ROW(10) = erfcxf(y);
    ROW(11) = erfcinvf(0.5f + x * 0.16f); ROW(12) = normcdfinvf(0.5f + x * 0.16f);
}

KERNEL(parts)
{
    INDEX
    ROW(0) = floorf(x); ROW(1) = ceilf(x); ROW(2) = truncf(x); ROW(3) = rintf(x);
    ROW(4) = roundf(x); ROW(5) = nearbyintf(x); ROW(6) = fmodf(x, y); ROW(7) = remainderf(x, y);
    ROW(8) = ldexpf(x, i % 40 - 20); ROW(9) = nextafterf(x, y); ROW(10) = copysignf(x, y);
    ROW(11) = fdimf(x, y); ROW(12) = logbf(x);
    int e;
    ROW(13) = frexpf(x, &e); ROW(14) = (float)e;
    float whole;
    ROW(15) = modff(x, &whole); ROW(16) = whole;
    ROW(17) = (float)ilogbf(y); ROW(18) = scalbnf(y, i % 300 - 150); ROW(19) = fabsf(y);
    ROW(20) = fmaxf(x, y); ROW(21) = fminf(x, y); ROW(22) = (float)lrintf(x);
    ROW(23) = (float)llroundf(x); ROW(24) = (float)(isnan(x) + 2 * isinf(y) + 4 * signbit(x));
}
