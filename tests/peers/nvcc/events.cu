// Events: recording, waiting, elapsed time, query, and the errors for events without timing.
#include "check.h"

__global__ void work(float *p, int rounds) {
  float x = p[threadIdx.x];
  for (int i = 0; i < rounds; i++) x = x * 0.999f + 1.0f;
  p[threadIdx.x] = x;
}

int main() {
  float *d, ms = -1;
  cudaEvent_t a, b, c, plain;
  cudaStream_t s;
  CHECK(cudaMalloc(&d, 256 * sizeof(float)));
  CHECK(cudaMemset(d, 0, 256 * sizeof(float)));
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaEventCreate(&a));
  CHECK(cudaEventCreate(&b));
  CHECK(cudaEventCreateWithFlags(&c, cudaEventBlockingSync));
  CHECK(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
  CHECK(cudaEventQuery(a));  // never recorded: counts as complete
  CHECK(cudaEventSynchronize(a));
  CHECK(cudaEventRecord(a, s));
  work<<<1, 256, 0, s>>>(d, 20000);
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(b, s));
  work<<<1, 256, 0, s>>>(d, 10);
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecordWithFlags(c, s, cudaEventRecordDefault));
  CHECK(cudaEventSynchronize(c));
  CHECK(cudaEventQuery(b));
  CHECK(cudaEventElapsedTime(&ms, a, b));
  EXPECT(ms > 0 && ms < 60000);
  float whole;
  CHECK(cudaEventElapsedTime(&whole, a, c));
  EXPECT(whole >= ms);
  float back;
  CHECK(cudaEventElapsedTime(&back, b, a));
  EXPECT(back <= 0);
  CHECK(cudaEventRecord(plain, s));
  CHECK(cudaEventSynchronize(plain));
  WANT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, plain));
  WANT(cudaErrorInvalidResourceHandle, cudaGetLastError());
  CHECK(cudaGetLastError());
  cudaEvent_t never;
  CHECK(cudaEventCreate(&never));
  WANT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, never));
  cudaGetLastError();
  CHECK(cudaEventRecord(never));  // the default stream
  CHECK(cudaStreamWaitEvent(s, never));
  CHECK(cudaStreamSynchronize(s));
  CHECK(cudaEventDestroy(a));
  CHECK(cudaEventDestroy(b));
  CHECK(cudaEventDestroy(c));
  CHECK(cudaEventDestroy(plain));
  CHECK(cudaEventDestroy(never));
  CHECK(cudaStreamDestroy(s));
  CHECK(cudaFree(d));
  printf("events: well\n");
}
