// What a program sees of a GPU: one JSON line of medians of seven rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#define CHECK(call)                                                              \
  do {                                                                           \
    cudaError_t error = (call);                                                  \
    if (error != cudaSuccess) {                                                  \
      fprintf(stderr, "%d: %s: %s\n", __LINE__, #call, cudaGetErrorString(error)); \
      exit(1);                                                                   \
    }                                                                            \
  } while (0)

__global__ void nothing() {}
__global__ void busy(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float y = i;
  for (int k = 0; k < n; k++) y = y * 0.999f + 1.0f;
  if (i == 0) *x = y;
}

static double seconds(const std::function<void()> &body) {
  auto begun = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

static double median(const std::function<double()> &one) {
  std::vector<double> all;
  for (int i = 0; i < 7; i++) all.push_back(one());
  std::sort(all.begin(), all.end());
  return all[3];
}

int main() {
  const size_t bytes = 256 << 20;
  char *device, *host = (char *)malloc(bytes);
  float *x;
  for (size_t i = 0; i < bytes; i++) host[i] = i * 31;
  CHECK(cudaMalloc(&device, bytes));
  CHECK(cudaMalloc(&x, 4));
  nothing<<<1, 1>>>();
  busy<<<132, 256>>>(x, 10);
  CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());
  double sync = median([] {
    return seconds([] {
             for (int i = 0; i < 500; i++) {
               nothing<<<1, 1>>>();
               CHECK(cudaDeviceSynchronize());
             }
           }) / 500 * 1e6;
  });
  double launches = median([] {
    const int count = 50000;
    return count / seconds([] {
             for (int i = 0; i < count; i++) nothing<<<1, 1>>>();
             CHECK(cudaDeviceSynchronize());
           });
  });
  double call = median([] {
    double spent = seconds([] {
      for (int i = 0; i < 500; i++) nothing<<<1, 1>>>();
    });
    CHECK(cudaDeviceSynchronize());
    return spent / 500 * 1e9;
  });
  // Kernels of some 20 us each, as small networks have: the time of a thousand in a row.
  double steps = median([x] {
    return seconds([x] {
             for (int i = 0; i < 1000; i++) busy<<<132, 256>>>(x, 5000);
             CHECK(cudaDeviceSynchronize());
           }) * 1e3;
  });
  double in = median([=] {
    return bytes / seconds([=] { CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice)); }) / 1e9;
  });
  double out = median([=] {
    return bytes / seconds([=] { CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost)); }) / 1e9;
  });
  printf("{\"sync_launch_us\": %.2f, \"launches_per_s\": %.0f, \"launch_call_ns\": %.0f, "
         "\"thousand_kernels_ms\": %.2f, \"to_device_gb_per_s\": %.2f, \"to_host_gb_per_s\": %.2f}\n",
         sync, launches, call, steps, in, out);
  return 0;
}
