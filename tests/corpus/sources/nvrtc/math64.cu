// CUDA's double precision functions; each kernel writes a row per function.

#define ROW(f) out[(f) * n + i]
#define KERNEL(name) \
    extern "C" __global__ void name(const double* a, const double* b, double* out, int n)
#define INDEX \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= n) return; \
    double x = a[i], y = b[i];

KERNEL(trigonometry)
{
    INDEX
    ROW(0) = sin(x); ROW(1) = cos(x); ROW(2) = tan(y); ROW(3) = atan(x); ROW(4) = atan2(x, y);
    ROW(5) = asin(y); ROW(6) = acos(y);
    double s, c;
    sincos(x, &s, &c);
    ROW(7) = s; ROW(8) = c;
    ROW(9) = sinpi(y); ROW(10) = cospi(y);
}

KERNEL(hyperbolic)
{
    INDEX
    ROW(0) = sinh(x); ROW(1) = cosh(x); ROW(2) = tanh(x); ROW(3) = asinh(x);
    ROW(4) = acosh(1.0 + fabs(x)); ROW(5) = atanh(y);
}

KERNEL(exponential)
{
    INDEX
    ROW(0) = exp(x); ROW(1) = exp2(x); ROW(2) = exp10(x); ROW(3) = expm1(x);
    ROW(4) = log(y); ROW(5) = log2(y); ROW(6) = log10(y); ROW(7) = log1p(y);
    ROW(8) = pow(y, x); ROW(9) = cbrt(x); ROW(10) = rcbrt(y); ROW(11) = hypot(x, y);
    ROW(12) = sqrt(y); ROW(13) = rsqrt(y); ROW(14) = norm3d(x, y, 1.0);
}

KERNEL(special)
{
    INDEX
    ROW(0) = erf(x); ROW(1) = erfc(x); ROW(2) = tgamma(y); ROW(3) = lgamma(y);
    ROW(4) = erfinv(x * 0.33); ROW(5) = normcdf(x); ROW(6) = j0(y); ROW(7) = j1(y);
    ROW(8) = jn(3, y); ROW(9) = cyl_bessel_i0(x); ROW(10) = erfcx(y);
    ROW(11) = erfcinv(0.5 + x * 0.16); ROW(12) = normcdfinv(0.5 + x * 0.16);
}

KERNEL(parts)
{
    INDEX
    ROW(0) = floor(x); ROW(1) = ceil(x); ROW(2) = trunc(x); ROW(3) = rint(x);
    ROW(4) = round(x); ROW(5) = nearbyint(x); ROW(6) = fmod(x, y); ROW(7) = remainder(x, y);
    ROW(8) = ldexp(x, i % 40 - 20); ROW(9) = nextafter(x, y); ROW(10) = copysign(x, y);
    ROW(11) = fdim(x, y); ROW(12) = logb(x);
    int e;
    ROW(13) = frexp(x, &e); ROW(14) = (double)e;
    double whole;
    ROW(15) = modf(x, &whole); ROW(16) = whole;
    ROW(17) = (double)ilogb(y); ROW(18) = scalbn(y, i % 300 - 150); ROW(19) = fabs(y);
    ROW(20) = fmax(x, y); ROW(21) = fmin(x, y); ROW(22) = (double)lrint(x);
    ROW(23) = (double)llround(x); ROW(24) = (double)(isnan(x) + 2 * isinf(y) + 4 * signbit(x));
}
