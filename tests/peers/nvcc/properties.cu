// Device properties and attributes agree with each other; versions, limits and identifiers are sane.
#include "check.h"

static int attr(cudaDeviceAttr a) {
  int v = -1;
  CHECK(cudaDeviceGetAttribute(&v, a, 0));
  return v;
}

int main() {
  int count, driver, runtime, dev, same;
  CHECK(cudaGetDeviceCount(&count));
  CHECK(cudaDriverGetVersion(&driver));
  CHECK(cudaRuntimeGetVersion(&runtime));
  EXPECT(count >= 1 && driver >= 12000 && runtime >= 13000);
  cudaDeviceProp p;
  CHECK(cudaGetDeviceProperties(&p, 0));
  EXPECT(p.name[0] && p.warpSize == 32 && p.major >= 7);
  EXPECT(p.major == attr(cudaDevAttrComputeCapabilityMajor) && p.minor == attr(cudaDevAttrComputeCapabilityMinor));
  EXPECT(p.multiProcessorCount == attr(cudaDevAttrMultiProcessorCount) && p.multiProcessorCount > 0);
  EXPECT(p.maxThreadsPerBlock == 1024 && attr(cudaDevAttrMaxThreadsPerBlock) == 1024);
  EXPECT(p.maxThreadsDim[0] == 1024 && p.maxThreadsDim[1] == 1024 && p.maxThreadsDim[2] == 64);
  EXPECT(p.maxGridSize[0] == 2147483647 && p.maxGridSize[1] == 65535 && p.maxGridSize[2] == 65535);
  EXPECT(p.sharedMemPerBlock == 49152 && attr(cudaDevAttrMaxSharedMemoryPerBlock) == 49152);
  EXPECT(p.sharedMemPerBlockOptin >= 65536 && (int)p.sharedMemPerBlockOptin == attr(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  EXPECT(p.totalConstMem == 65536 && p.regsPerBlock >= 32768 && p.maxThreadsPerMultiProcessor >= 1024);
  EXPECT(p.unifiedAddressing == 1 && p.canMapHostMemory == 1 && p.managedMemory == 1 && p.concurrentKernels == 1);
  EXPECT(p.cooperativeLaunch == 1 && p.streamPrioritiesSupported == 1 && p.memoryPoolsSupported == 1);
  EXPECT(p.asyncEngineCount >= 1 && p.l2CacheSize > 0 && p.memoryBusWidth > 0 && p.textureAlignment >= 32);
  EXPECT(attr(cudaDevAttrClockRate) > 0 && attr(cudaDevAttrMemoryClockRate) > 0);
  EXPECT(attr(cudaDevAttrMaxPitch) == (int)p.memPitch && attr(cudaDevAttrWarpSize) == 32);
  EXPECT(p.maxTexture1D >= 65536 && p.maxTexture2D[0] >= 65536 && p.maxTexture3D[2] >= 4096);
  EXPECT(attr(cudaDevAttrComputeMode) == cudaComputeModeDefault || attr(cudaDevAttrComputeMode) > 0);
  size_t total, freeb, limit;
  CHECK(cudaMemGetInfo(&freeb, &total));
  EXPECT(freeb <= total && total <= p.totalGlobalMem && freeb > 0);
  char bus[32];
  CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  CHECK(cudaDeviceGetByPCIBusId(&same, bus));
  EXPECT(same == 0);
  CHECK(cudaChooseDevice(&dev, &p));
  EXPECT(dev >= 0 && dev < count);
  CHECK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
  EXPECT(limit >= 1024);
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
  CHECK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
  EXPECT(limit >= 8192);
  CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
  EXPECT(limit >= 8 << 20);
  unsigned flags;
  CHECK(cudaGetDeviceFlags(&flags));
  CHECK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  CHECK(cudaGetDeviceFlags(&flags));
  EXPECT((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
  cudaFuncCache cache;
  CHECK(cudaDeviceGetCacheConfig(&cache));
  CHECK(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
  bool any = false;
  for (int i = 0; i < 16; i++) any |= p.uuid.bytes[i] != 0;
  EXPECT(any);
  printf("properties: well\n");
}
