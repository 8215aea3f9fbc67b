// Tensor maps and the instructions that use them, for the programs tensor_*.cu.
//
// A load: one thread announces the bytes of the box at a barrier and starts the copy; all threads wait for the
// barrier's phase. A box that reaches beyond the tensor counts with all its bytes, zeros included.
// A store: all threads fence their writes for the async proxy, meet, and one thread starts the copy and waits.
#pragma once
#include "feature.cuh"

#include <cstdint>
#include <cudaTypedefs.h>

// The encoders, found by name: no program needs -lcuda.
template <class F>
inline F driver_entry(const char *name) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult how = cudaDriverEntryPointSymbolNotFound;
  CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how));
  if (how != cudaDriverEntryPointSuccess || !found) fail("the driver has no %s (result %d)", name, (int)how);
  return reinterpret_cast<F>(found);
}

inline void encoded(const char *name, CUresult code) {
  if (code == CUDA_SUCCESS) return;
  const char *text = nullptr;
  driver_entry<PFN_cuGetErrorName_v6000>("cuGetErrorName")(code, &text);
  fail("%s: %s", name, text ? text : "an unknown error");
}

// What describes a tiled map of up to three dimensions. Strides are bytes, of all dimensions but the first.
struct Tiled {
  CUtensorMapDataType type;
  cuuint32_t rank;
  cuuint64_t dims[3], strides[2];
  cuuint32_t box[3];
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill outside;
};

inline CUtensorMap encode_tiled(const Tiled &it, void *address) {
  static auto encode = driver_entry<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled");
  CUtensorMap map;
  const cuuint32_t steps[3] = {1, 1, 1};
  encoded("cuTensorMapEncodeTiled",
          encode(&map, it.type, it.rank, address, it.dims, it.strides, it.box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                 it.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, it.outside));
  return map;
}

#if HOPPER
__device__ inline uint32_t shared_address(const void *at) { return (uint32_t)__cvta_generic_to_shared(at); }

// Makes a barrier of one arrival, which the copy engine sees too. All threads must meet before its first use.
__device__ inline void barrier_init(uint64_t *barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Arrives, and lets the phase end only after so many bytes.
__device__ inline void barrier_expect(uint64_t *barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// Waits until the phase of this parity has ended: 0 for the first phase. Gives up after three seconds.
__device__ inline bool barrier_wait(uint64_t *barrier, uint32_t parity) {
  unsigned long long begun = device_ns();
  do {
    uint32_t ended;
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(ended)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    if (ended) return true;
  } while (device_ns() - begun < 3000000000ull);
  return false;
}

template <int RANK>
__device__ inline void load_box(void *to, const CUtensorMap *map, int3 at, uint64_t *barrier) {
  if constexpr (RANK == 2)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(at.x), "r"(at.y)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(at.x), "r"(at.y), "r"(at.z)
        : "memory");
}

// Starts the store and waits until its writes are done. The caller has fenced and met before.
template <int RANK>
__device__ inline void store_box(const CUtensorMap *map, int3 at, const void *from) {
  if constexpr (RANK == 2)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(shared_address(from)), "r"(at.x), "r"(at.y)
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(shared_address(from)), "r"(at.x), "r"(at.y), "r"(at.z)
                 : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Lets the async proxy see this thread's writes to shared memory.
__device__ inline void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif
