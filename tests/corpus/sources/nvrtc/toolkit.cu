// CUDA's own headers: cooperative groups, libcu++ and CUB.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/std/complex>
#include <cuda/std/array>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_scan.cuh>

namespace cg = cooperative_groups;

extern "C" __global__ void groups(const int* x, int* out)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i], n = gridDim.x * blockDim.x;
    out[i] = cg::reduce(tile, v, cg::plus<int>());
    out[n + i] = cg::reduce(tile, v, cg::greater<int>());
    out[2 * n + i] = cg::inclusive_scan(tile, v);
    out[3 * n + i] = tile.shfl_down(v, 3) + tile.thread_rank() * 1000 + tile.meta_group_rank() * 100000;
    out[4 * n + i] = tile.any(v > 90) + 2 * tile.all(v > -95) + 4 * tile.ballot(v & 1);
    if (v & 1) {
        cg::coalesced_group some = cg::coalesced_threads();
        out[5 * n + i] = some.size() * 100 + some.thread_rank();
    } else {
        out[5 * n + i] = -1;
    }
    block.sync();
}

extern "C" __global__ void labelled(const int* x, int* out)
{
    cg::coalesced_group same = cg::labeled_partition(cg::coalesced_threads(), x[threadIdx.x] & 3);
    out[threadIdx.x] = cg::reduce(same, x[threadIdx.x], cg::plus<int>()) + same.thread_rank() * 100000;
}

extern "C" __global__ void ordered(const int* x, int* data, int* flag, unsigned* sum)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> total(*sum);
    if (blockIdx.x == 0) {
        data[threadIdx.x] = x[threadIdx.x] * 2;
        __syncthreads();
        if (threadIdx.x == 0) ready.store(1, cuda::memory_order_release);
    } else {
        while (ready.load(cuda::memory_order_acquire) == 0) ;
        total.fetch_add(data[threadIdx.x], cuda::memory_order_relaxed);
        unsigned old = total.load(cuda::memory_order_relaxed);
        while (!total.compare_exchange_weak(old, old ^ 0x10000, cuda::memory_order_acq_rel)) ;
    }
}

extern "C" __global__ void complexes(const float* x, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cuda::std::complex<float> z(x[2 * i], x[2 * i + 1]), w = z * z + cuda::std::conj(z) / cuda::std::complex<float>(1.5f, -0.5f);
    cuda::std::array<float, 3> a{cuda::std::abs(z), cuda::std::arg(z), cuda::std::norm(w)};
    for (int k = 0; k < 3; k++) out[5 * i + k] = a[k];
    out[5 * i + 3] = w.real();
    out[5 * i + 4] = w.imag();
}

extern "C" __global__ void block_sort(unsigned* keys, int* values)
{
    typedef cub::BlockRadixSort<unsigned, 64, 4, int> Sort;
    __shared__ typename Sort::TempStorage storage;
    unsigned k[4];
    int v[4];
    for (int j = 0; j < 4; j++) k[j] = keys[blockIdx.x * 256 + threadIdx.x * 4 + j], v[j] = values[blockIdx.x * 256 + threadIdx.x * 4 + j];
    Sort(storage).Sort(k, v);
    for (int j = 0; j < 4; j++) keys[blockIdx.x * 256 + threadIdx.x * 4 + j] = k[j], values[blockIdx.x * 256 + threadIdx.x * 4 + j] = v[j];
}

extern "C" __global__ void block_scan(const int* x, int* out, int* total)
{
    typedef cub::BlockScan<int, 128> Scan;
    typedef cub::BlockReduce<int, 128> Reduce;
    __shared__ union { typename Scan::TempStorage scan; typename Reduce::TempStorage reduce; } storage;
    int i = blockIdx.x * 128 + threadIdx.x, v = x[i], s, all;
    Scan(storage.scan).ExclusiveSum(v, s, all);
    __syncthreads();
    int most = Reduce(storage.reduce).Reduce(v, [](int a, int b) { return a > b ? a : b; });
    out[i] = s;
    if (threadIdx.x == 0) total[2 * blockIdx.x] = all, total[2 * blockIdx.x + 1] = most;
}

extern "C" __global__ void grid_sync(int* a, int* b)
{
    cg::grid_group grid = cg::this_grid();
    unsigned long long i = grid.thread_rank(), n = grid.size();
    b[i] = a[(i + 1) % n] + (int)grid.num_blocks();
}
