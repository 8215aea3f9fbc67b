// Function pointers, virtual functions, templates and lambdas in kernels.
// nvcc: --extended-lambda
#include "check.h"

typedef int (*Op)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ int mul(int a, int b) { return a * b; }
__device__ int sub(int a, int b) { return a - b; }
__device__ Op table[3] = {add, mul, sub};
__device__ Op single = mul;

struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual double area() const = 0;
  __device__ virtual int corners() const { return 0; }
};
struct Square : Shape {
  double a;
  __device__ Square(double x) : a(x) {}
  __device__ double area() const override { return a * a; }
  __device__ int corners() const override { return 4; }
};
struct Disc : Shape {
  double r;
  __device__ Disc(double x) : r(x) {}
  __device__ double area() const override { return 3.0 * r * r; }
};
__global__ void pointers(int *out, Op given) {
  int i = threadIdx.x;
  out[i] = table[i % 3](i, 5) + given(i, 2);
}
__global__ void shapes(double *out) {
  int i = threadIdx.x;
  Shape *s = i % 2 ? (Shape *)new Square(i) : (Shape *)new Disc(i);
  out[i] = s->area() + s->corners();
  delete s;
}
template <int N, class T> struct Power {
  __device__ static T of(T x) { return x * Power<N - 1, T>::of(x); }
};
template <class T> struct Power<0, T> {
  __device__ static T of(T) { return T(1); }
};
template <class T, int N, class F> __global__ void apply(T *p, F f) {
  T x = Power<N, T>::of((T)threadIdx.x);
  p[threadIdx.x] = f(x);
}
template <class... A> __device__ int total(A... a) { return (0 + ... + a); }
__global__ void variadic(int *out) {
  auto f = [=](auto x) { return x + (int)threadIdx.x; };
  out[threadIdx.x] = total(1, f(2), f(3), 4);
}

int main() {
  int *d, h[32];
  double *e, g[32];
  Op op;
  CHECK(cudaMalloc(&d, sizeof h));
  CHECK(cudaMalloc(&e, sizeof g));
  CHECK(cudaMemcpyFromSymbol(&op, single, sizeof op));
  pointers<<<1, 32>>>(d, op);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; i++) EXPECT(h[i] == (i % 3 == 0 ? i + 5 : i % 3 == 1 ? i * 5 : i - 5) + i * 2);
  shapes<<<1, 32>>>(e);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(g, e, sizeof g, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; i++) EXPECT(g[i] == (i % 2 ? i * i + 4.0 : 3.0 * i * i));
  int k = 7;
  apply<int, 3><<<1, 32>>>(d, [=] __device__(int x) { return x + k; });
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; i++) EXPECT(h[i] == i * i * i + 7);
  apply<double, 2><<<1, 32>>>(e, [d] __host__ __device__(double x) { return d ? -x : x; });
  CHECK(cudaMemcpy(g, e, sizeof g, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; i++) EXPECT(g[i] == -(double)i * i);
  variadic<<<1, 32>>>(d);
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; i++) EXPECT(h[i] == 10 + 2 * i);
  printf("polymorphic: well\n");
}
