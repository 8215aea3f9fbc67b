// Math functions of the device against those of the host, within the errors the CUDA guide gives.
#include "check.h"
#include <cmath>

#define LIST(F)                                                                                                 \
  F(sin, 2) F(cos, 2) F(tan, 5) F(exp, 2) F(exp2, 2) F(expm1, 2) F(log, 2) F(log2, 2) F(log10, 3) F(log1p, 2)   \
  F(sqrt, 1) F(cbrt, 2) F(asin, 4) F(acos, 4) F(atan, 3) F(sinh, 4) F(cosh, 3) F(tanh, 3) F(asinh, 4)           \
  F(erf, 4) F(erfc, 8) F(tgamma, 14) F(lgamma, 12) F(floor, 0) F(ceil, 0) F(trunc, 0) F(round, 0) F(rint, 0)
#define LIST2(F) F(pow, 9) F(atan2, 4) F(fmod, 0) F(hypot, 4) F(fmax, 0) F(fmin, 0) F(copysign, 0) F(remainder, 0) F(fdim, 0)
#define COUNT(f, u) +1
constexpr int n1 = 0 LIST(COUNT), n2 = 0 LIST2(COUNT), N = n1 + n2;

template <class T> __host__ __device__ void all(T x, T y, T *o) {
#define ONE(f, u) *o++ = f(x);
#define TWO(f, u) *o++ = f(x, y);
  LIST(ONE) LIST2(TWO)
}
template <class T> __global__ void run(const T *x, const T *y, T *o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) all(x[i], y[i], o + i * N);
}
static const char *names[] = {
#define NAME(f, u) #f,
    LIST(NAME) LIST2(NAME)};
static const int ulps[] = {
#define ULP(f, u) u,
    LIST(ULP) LIST2(ULP)};

template <class T> static void test(T tiny) {
  const int n = 300;
  static T x[n], y[n], h[n * N], want[N];
  for (int i = 0; i < n; i++) x[i] = (T)(0.003 + 0.00331 * i), y[i] = (T)(2.5 - 0.0161 * i);
  T *dx, *dy, *d;
  CHECK(cudaMalloc(&dx, sizeof x));
  CHECK(cudaMalloc(&dy, sizeof y));
  CHECK(cudaMalloc(&d, sizeof h));
  CHECK(cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dy, y, sizeof y, cudaMemcpyHostToDevice));
  run<T><<<3, 128>>>(dx, dy, d, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  int bad = 0;
  for (int i = 0; i < n; i++) {
    all(x[i], y[i], want);
    for (int k = 0; k < N; k++) {
      // The host's own error counts too; lgamma has a root at 1 and needs an absolute bound.
      double err = fabs((double)h[i * N + k] - want[k]), ulp = tiny * fmax(fabs((double)want[k]), strcmp(names[k], "lgamma") ? 0 : 1);
      if (!(err <= (ulps[k] ? ulps[k] + 1 : 0) * ulp) && bad++ < 10)
        fprintf(stderr, "%s(%.17g, %.17g) = %.17g, host %.17g\n", names[k], (double)x[i], (double)y[i], (double)h[i * N + k], (double)want[k]);
    }
  }
  EXPECT(bad == 0);
}

int main() {
  test<double>(2.3e-16);
  test<float>(1.2e-7f);
  printf("math_host: well\n");
}
