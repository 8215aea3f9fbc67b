// Pointer attributes of all kinds of memory, cudaMemGetInfo, and copies with cudaMemcpyDefault between them.
#include "check.h"

int main() {
  size_t free0, free1, free2, total;
  CHECK(cudaFree(0));
  CHECK(cudaMemGetInfo(&free0, &total));
  EXPECT(free0 > 0 && free0 <= total);
  const size_t n = 64 << 20;
  char *d, *h, *m, *plain = (char *)malloc(4096);
  CHECK(cudaMalloc(&d, n));
  CHECK(cudaMemGetInfo(&free1, &total));
  EXPECT(free1 < free0);
  CHECK(cudaMallocHost(&h, 4096));
  CHECK(cudaMallocManaged(&m, 4096));
  cudaPointerAttributes a;
  CHECK(cudaPointerGetAttributes(&a, d + 12345));
  EXPECT(a.type == cudaMemoryTypeDevice && a.device == 0 && a.devicePointer == d + 12345 && a.hostPointer == nullptr);
  CHECK(cudaPointerGetAttributes(&a, h + 5));
  EXPECT(a.type == cudaMemoryTypeHost && a.hostPointer == h + 5 && a.devicePointer != nullptr);
  CHECK(cudaPointerGetAttributes(&a, m));
  EXPECT(a.type == cudaMemoryTypeManaged && a.hostPointer == m && a.devicePointer == m);
  CHECK(cudaPointerGetAttributes(&a, plain));
  EXPECT(a.type == cudaMemoryTypeUnregistered && a.devicePointer == nullptr);
  CHECK(cudaHostRegister(plain, 4096, cudaHostRegisterDefault));
  CHECK(cudaPointerGetAttributes(&a, plain + 4095));
  EXPECT(a.type == cudaMemoryTypeHost && a.hostPointer == plain + 4095);
  CHECK(cudaHostUnregister(plain));
  char *places[4] = {plain, d, h, m};  // every pair, the direction found from the pointers
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 4; k++) {
      char in[64], out[64] = {};
      for (int c = 0; c < 64; c++) in[c] = (char)(i * 4 + k + c);
      CHECK(cudaMemcpy(places[i], in, 64, cudaMemcpyDefault));
      CHECK(cudaMemcpy(places[k] + 100, places[i], 64, cudaMemcpyDefault));
      CHECK(cudaMemcpy(out, places[k] + 100, 64, cudaMemcpyDefault));
      EXPECT(!memcmp(in, out, 64));
    }
  CHECK(cudaFree(d));
  CHECK(cudaMemGetInfo(&free2, &total));
  EXPECT(free2 > free1);
  CHECK(cudaFreeHost(h));
  CHECK(cudaFree(m));
  free(plain);
  printf("pointer_attrs: well\n");
}
