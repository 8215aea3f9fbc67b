// Recursion in kernels: Fibonacci, mutual recursion, quicksort with local arrays, and a deeper stack by limit.
#include "check.h"

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ bool odd(int n);
__device__ __noinline__ bool even(int n) { return n == 0 ? true : odd(n - 1); }
__device__ __noinline__ bool odd(int n) { return n == 0 ? false : even(n - 1); }
__device__ void quicksort(int *a, int lo, int hi) {
  if (lo >= hi) return;
  int p = a[(lo + hi) / 2], i = lo, j = hi;
  while (i <= j) {
    while (a[i] < p) i++;
    while (a[j] > p) j--;
    if (i <= j) {
      int t = a[i];
      a[i++] = a[j];
      a[j--] = t;
    }
  }
  quicksort(a, lo, j);
  quicksort(a, i, hi);
}
__device__ __noinline__ int deep(int n) {
  volatile int pad[16];
  for (int i = 0; i < 16; i++) pad[i] = n + i;
  return n == 0 ? 0 : deep(n - 1) + pad[n % 16] - pad[(n + 1) % 16] + 1;
}
__global__ void run(int *out, int n) {
  int t = threadIdx.x, local[40];
  for (int i = 0; i < 40; i++) local[i] = (i * 37 + t * 11) % 101;
  quicksort(local, 0, 39);
  int sorted = 1;
  for (int i = 1; i < 40; i++) sorted &= local[i - 1] <= local[i];
  out[t * 4] = fib(t % 16);
  out[t * 4 + 1] = even(t) + 2 * odd(t);
  out[t * 4 + 2] = sorted;
  out[t * 4 + 3] = deep(n);
}

int main() {
  int *d, h[256];
  size_t stack;
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 32768));
  CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
  EXPECT(stack >= 32768);
  CHECK(cudaMalloc(&d, sizeof h));
  run<<<1, 64>>>(d, 100);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  const int fibs[16] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610};
  int want = 0;
  for (int n = 1; n <= 100; n++) want += (n % 16 - (n + 1) % 16) + 1;
  for (int t = 0; t < 64; t++) {
    EXPECT(h[t * 4] == fibs[t % 16] && h[t * 4 + 1] == (t % 2 ? 2 : 1));
    EXPECT(h[t * 4 + 2] == 1 && h[t * 4 + 3] == want);
  }
  printf("recursion: well\n");
}
