// The occupancy functions agree with each other and with the limits of the device.
#include "check.h"

__global__ void plain(float *p) { p[threadIdx.x] *= 2; }
__global__ void sharing(float *p) {
  extern __shared__ float s[];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
__global__ void __launch_bounds__(128, 2) bounded(float *p) { p[threadIdx.x] += 1; }

static __host__ __device__ size_t bytes(int threads) { return threads * 4; }

int main() {
  cudaDeviceProp prop;
  CHECK(cudaGetDeviceProperties(&prop, 0));
  int last = 1 << 30;
  for (int threads = 32; threads <= 1024; threads *= 2) {
    int blocks = -1;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plain, threads, 0));
    EXPECT(blocks >= 1 && blocks <= last && blocks * threads <= prop.maxThreadsPerMultiProcessor);
    last = blocks;
  }
  int some, few;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&some, sharing, 128, 1024));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&few, sharing, 128, 40000));
  EXPECT(few >= 1 && few <= some && (size_t)few * 40000 <= prop.sharedMemPerMultiprocessor);
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&some, plain, 256, 0, cudaOccupancyDefault));
  EXPECT(some >= 1);
  int grid = 0, block = 0;
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, plain, 0, 0));
  EXPECT(block >= 32 && block <= 1024 && block % 32 == 0 && grid >= prop.multiProcessorCount);
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded, 0, 0));
  EXPECT(block >= 32 && block <= 128);
  CHECK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, sharing, bytes, 512));
  EXPECT(block >= 32 && block <= 512 && grid >= prop.multiProcessorCount);
  size_t dyn = 0;
  CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&dyn, sharing, 2, 128));
  EXPECT(dyn > 0 && dyn <= prop.sharedMemPerMultiprocessor / 2);
  cudaFuncAttributes a;
  CHECK(cudaFuncGetAttributes(&a, bounded));
  EXPECT(a.maxThreadsPerBlock == 128 && a.numRegs > 0 && a.binaryVersion >= 70 && a.ptxVersion >= 70);
  float *p;
  CHECK(cudaMalloc(&p, 1024 * sizeof(float)));
  bounded<<<1, 256>>>(p);  // more than the launch bounds allow
  EXPECT(cudaGetLastError() != cudaSuccess);
  bounded<<<1, 128>>>(p);
  CHECK(cudaGetLastError());
  CHECK(cudaFuncSetCacheConfig(sharing, cudaFuncCachePreferShared));
  CHECK(cudaFuncSetAttribute(sharing, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  CHECK(cudaDeviceSynchronize());
  printf("occupancy: well\n");
}
