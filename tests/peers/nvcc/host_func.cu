// cudaLaunchHostFunc and cudaStreamAddCallback: host functions run in stream order, between the kernels.
#include "check.h"
#include <thread>

struct Step {
  volatile int *h;
  int want, seen, order;
  bool other_thread;
  cudaStream_t stream;
  cudaError_t status;
};
static int order_ = 0;
static std::thread::id main_id;

__global__ void inc(int *p) { atomicAdd(p, 1); }
static void look(void *q) {
  Step *s = (Step *)q;
  s->seen = *s->h;
  s->order = ++order_;
  s->other_thread = std::this_thread::get_id() != main_id;
}
static void CUDART_CB back(cudaStream_t st, cudaError_t e, void *q) {
  Step *s = (Step *)q;
  look(q);
  s->stream = st;
  s->status = e;
}

int main() {
  main_id = std::this_thread::get_id();
  int *d, *h;
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaMalloc(&d, sizeof(int)));
  CHECK(cudaMallocHost(&h, sizeof(int)));
  CHECK(cudaMemsetAsync(d, 0, sizeof(int), s));
  static Step steps[20];
  for (int i = 0; i < 20; i++) {
    inc<<<i + 1, 1, 0, s>>>(d);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(h, d, sizeof(int), cudaMemcpyDeviceToHost, s));
    steps[i].h = h;
    steps[i].want = (i + 1) * (i + 2) / 2;
    if (i % 2) CHECK(cudaStreamAddCallback(s, back, &steps[i], 0));
    else CHECK(cudaLaunchHostFunc(s, look, &steps[i]));
  }
  CHECK(cudaStreamSynchronize(s));
  for (int i = 0; i < 20; i++) {
    EXPECT(steps[i].seen == steps[i].want && steps[i].order == i + 1);
    if (i % 2) EXPECT(steps[i].stream == s && steps[i].status == cudaSuccess);
  }
  Step last = {h, 0};
  CHECK(cudaLaunchHostFunc(0, look, &last));
  CHECK(cudaDeviceSynchronize());
  EXPECT(last.order == 21 && last.seen == 210);
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaFree(d));
  CHECK(cudaFreeHost(h));
  printf("host_func: well\n");
}
