// cudaLaunchKernelEx with attributes, cudaLaunchKernel by hand, function attributes and stream attributes.
#include "check.h"

struct Big {
  int values[500];
  char tag;
};
__global__ void gather(Big b, int *out, int n, double f) {
  extern __shared__ int s[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < 500 ? b.values[i] : 0;
  __syncthreads();
  if (i < n) out[i] = (int)(s[threadIdx.x] * f) + b.tag;
}

int main() {
  Big b;
  for (int i = 0; i < 500; i++) b.values[i] = i * i;
  b.tag = 'x';
  int *d, h[500], low, high, n = 500;
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaMalloc(&d, sizeof h));
  CHECK(cudaDeviceGetStreamPriorityRange(&low, &high));
  cudaLaunchConfig_t cfg = {};
  cudaLaunchAttribute at[2] = {};
  at[0].id = cudaLaunchAttributePriority;
  at[0].val.priority = high;
  at[1].id = cudaLaunchAttributeCooperative;
  at[1].val.cooperative = 0;
  cfg.gridDim = dim3(4);
  cfg.blockDim = dim3(128);
  cfg.dynamicSmemBytes = 128 * sizeof(int);
  cfg.stream = s;
  cfg.attrs = at;
  cfg.numAttrs = 2;
  auto good = [&](double f) {
    CHECK(cudaMemcpyAsync(h, d, sizeof h, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++) EXPECT(h[i] == (int)(i * i * f) + 'x');
  };
  CHECK(cudaLaunchKernelEx(&cfg, gather, b, d, n, 1.5));
  good(1.5);
  double f = 2.0;
  void *args[] = {&b, &d, &n, &f};
  CHECK(cudaLaunchKernelExC(&cfg, (const void *)gather, args));
  good(2.0);
  f = 0.5;
  CHECK(cudaLaunchKernel((const void *)gather, dim3(4), dim3(128), args, 128 * sizeof(int), s));
  good(0.5);
  cfg.numAttrs = 0;
  cfg.blockDim = dim3(2000);
  WANT(cudaErrorInvalidConfiguration, cudaLaunchKernelEx(&cfg, gather, b, d, n, 1.5));
  cudaGetLastError();
  cudaStreamAttrValue v = {}, w = {};
  v.syncPolicy = cudaSyncPolicyYield;
  CHECK(cudaStreamSetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
  CHECK(cudaStreamGetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &w));
  EXPECT(w.syncPolicy == cudaSyncPolicyYield);
  cudaStream_t t;
  CHECK(cudaStreamCreate(&t));
  CHECK(cudaStreamCopyAttributes(t, s));
  memset(&w, 0, sizeof w);
  CHECK(cudaStreamGetAttribute(t, cudaStreamAttributeSynchronizationPolicy, &w));
  EXPECT(w.syncPolicy == cudaSyncPolicyYield);
  cudaFunction_t fun;
  CHECK(cudaGetFuncBySymbol(&fun, (const void *)gather));
  const char *name = nullptr;
  CHECK(cudaFuncGetName(&name, (const void *)gather));
  EXPECT(name && strstr(name, "gather"));
  printf("launch_ex: well\n");
}
