// Managed memory: host and device take turns on the same pointers, with a list and a __managed__ variable.
#include "check.h"

struct Node {
  int value;
  Node *next;
};
__managed__ int total = 5;
__managed__ float table[100] = {1.5f, 2.5f};

__global__ void sum(const Node *n) {
  for (; n; n = n->next) total += n->value;
}
__global__ void bump(float *p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += 1.0f, table[i % 100] = (float)(i % 100);
}

int main() {
  Node *head = nullptr;
  for (int i = 1; i <= 100; i++) {
    Node *n;
    CHECK(cudaMallocManaged(&n, sizeof(Node)));
    n->value = i;
    n->next = head;
    head = n;
  }
  EXPECT(total == 5 && table[1] == 2.5f && table[2] == 0);
  total = 10;
  sum<<<1, 1>>>(head);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  EXPECT(total == 5060);
  head->value = 1000000;
  total = 0;
  sum<<<1, 1>>>(head);
  CHECK(cudaDeviceSynchronize());
  EXPECT(total == 5050 - 100 + 1000000);
  const int n = 100000;
  float *p;
  CHECK(cudaMallocManaged(&p, n * sizeof(float)));
  for (int round = 0; round < 5; round++) {
    for (int i = 0; i < n; i++) p[i] = (float)(i + round);
    bump<<<(n + 255) / 256, 256>>>(p, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) EXPECT(p[i] == (float)(i + round) + 1.0f);
  }
  EXPECT(table[42] == 42.0f);
  int concurrent = 0;
  CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
  if (concurrent) {
    cudaMemLocation dev = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
    CHECK(cudaMemAdvise(p, n * sizeof(float), cudaMemAdviseSetPreferredLocation, dev));
    CHECK(cudaMemPrefetchAsync(p, n * sizeof(float), dev, 0, 0));
    bump<<<(n + 255) / 256, 256>>>(p, n);
    CHECK(cudaMemPrefetchAsync(p, n * sizeof(float), host, 0, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(p[7] == 7 + 4 + 2);
  }
  CHECK(cudaMemset(p, 0, n * sizeof(float)));
  CHECK(cudaDeviceSynchronize());
  EXPECT(p[0] == 0 && p[n - 1] == 0);
  cudaStream_t s;
  CHECK(cudaStreamCreate(&s));
  CHECK(cudaStreamAttachMemAsync(s, p, 0, cudaMemAttachSingle));
  CHECK(cudaStreamSynchronize(s));
  bump<<<(n + 255) / 256, 256, 0, s>>>(p, n);
  CHECK(cudaStreamSynchronize(s));
  EXPECT(p[3] == 1.0f);
  cudaPointerAttributes at;
  CHECK(cudaPointerGetAttributes(&at, p));
  EXPECT(at.type == cudaMemoryTypeManaged && at.devicePointer == p && at.hostPointer == p);
  CHECK(cudaFree(p));
  printf("managed: well\n");
}
