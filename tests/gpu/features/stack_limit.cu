// nvcc: -Xptxas -suppress-stack-size-warning
// cudaLimitStackSize: a recursion needs more stack than a thread gets by default, and finds it.
#include "feature.cuh"

constexpr int DEPTH = 24, THREADS = 128, LIMIT = 8192;

// Keeps 96 bytes of its own in each call, and reads them after the inner call. With what the compiler adds, a call
// takes up to 220 bytes.
__device__ __noinline__ int deep(int left, int salt) {
  volatile int own[24];
  for (int i = 0; i < 24; i++) own[i] = left * 31 + i * salt;
  if (left == 0) return salt;
  int inner = deep(left - 1, salt + 1);
  for (int i = 0; i < 24; i++)
    if (own[i] != left * 31 + i * salt) return -1000000;
  return inner + own[left % 24];
}

__global__ void run(int *out, int depth) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = deep(depth, i % 7);
}

static int right(int left, int salt) {
  return left == 0 ? salt : right(left - 1, salt + 1) + left * 31 + left % 24 * salt;
}

int main() {
  feature_begin("stack_limit");
  need(5);
  size_t before = 0, after = 0;
  CHECK(cudaDeviceGetLimit(&before, cudaLimitStackSize));
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, LIMIT));
  CHECK(cudaDeviceGetLimit(&after, cudaLimitStackSize));
  if (after < LIMIT) fail("the limit is %zu after it was set to %d", after, LIMIT);
  static int seen[4 * THREADS];
  int *out = device_array<int>(4 * THREADS);
  run<<<4, THREADS>>>(out, DEPTH);
  RAN();
  to_host(seen, out, 4 * THREADS);
  for (int i = 0; i < 4 * THREADS; i++)
    if (seen[i] != right(DEPTH, i % 7)) fail("thread %d has %d, not %d", i, seen[i], right(DEPTH, i % 7));
  return well("%zu bytes before, %zu after", before, after);
}
