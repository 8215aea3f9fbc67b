// nvcc:
// Tensor maps of tiles: boxes of two and three dimensions are loaded, changed and stored; with swizzle, and with
// parts outside the tensor.
#include "tensor.cuh"

#include <cmath>
#include <cuda_fp16.h>

constexpr int BYTES = 8192;

// Loads a box, tells its bytes, adds one to each value, stores the box.
template <int RANK, class T>
__global__ void through(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, int3 at,
                        int bytes, unsigned char *seen, int *late) {
#if HOPPER
  __shared__ alignas(1024) unsigned char box[BYTES];
  __shared__ alignas(8) uint64_t barrier;
  if (threadIdx.x == 0) barrier_init(&barrier);
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_expect(&barrier, bytes);
    load_box<RANK>(box, &from, at, &barrier);
  }
  if (!barrier_wait(&barrier, 0)) {
    *late = 1;
    return;
  }
  T *values = reinterpret_cast<T *>(box);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) seen[i] = box[i];
  __syncthreads();
  for (int i = threadIdx.x; i < bytes / (int)sizeof(T); i += blockDim.x) values[i] = (T)((float)values[i] + 1.0f);
  fence_async();
  __syncthreads();
  if (threadIdx.x == 0) store_box<RANK>(&to, at, box);
#endif
}

// A value that the float types here have exactly.
static float value_of(long index) { return (float)(index * 7 % 1021 + 1); }

// The place of a value in the box: 128-byte swizzle exchanges chunks of 16 bytes by the row's lowest three bits.
template <class T>
static int place(const Tiled &it, int x, int row) {
  int byte = (row * (int)it.box[0] + x) * (int)sizeof(T);
  if (it.swizzle == CU_TENSOR_MAP_SWIZZLE_128B) byte ^= (byte >> 7 & 7) << 4;
  return byte / (int)sizeof(T);
}

template <int RANK, class T>
static void test(const char *what, const Tiled &it, int3 at) {
  const int wide = it.dims[0], high = it.dims[1], deep = RANK == 3 ? it.dims[2] : 1;
  const int pitch = it.strides[0] / sizeof(T), plane = RANK == 3 ? it.strides[1] / sizeof(T) : pitch * high;
  const int rows = it.box[1], planes = RANK == 3 ? it.box[2] : 1, inner = it.box[0];
  const int bytes = inner * rows * planes * (int)sizeof(T), all = plane * deep;
  if (bytes > BYTES) fail("%s: the box has %d bytes", what, bytes);
  T *host = new T[all], *back = new T[all];
  for (int i = 0; i < all; i++) host[i] = (T)value_of(i);
  T *from = to_device(host, all), *to = to_device(host, all);
  unsigned char *seen = device_array<unsigned char>(bytes);
  int *late = device_array<int>(1), was_late;
  // A fill is for loads: a store through a map that has one is an illegal instruction.
  Tiled plain = it;
  plain.outside = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  through<RANK, T><<<1, 128>>>(encode_tiled(it, from), encode_tiled(plain, to), at, bytes, seen, late);
  RAN();
  to_host(&was_late, late, 1);
  if (was_late) fail("%s: the load did not end within 3 s", what);
  T *box = (T *)malloc(bytes);
  to_host((unsigned char *)box, seen, bytes);
  to_host(back, to, all);
  for (int p = 0; p < planes; p++)
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < inner; i++) {
        int x = at.x + i, y = at.y + r, z = at.z + p;
        bool inside = x >= 0 && x < wide && y >= 0 && y < high && z >= 0 && z < deep;
        float is = (float)box[place<T>(it, i, p * rows + r)];
        if (!inside && it.outside != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) {
          if (!std::isnan(is)) fail("%s: (%d, %d, %d) outside is %g, not a NaN", what, x, y, z, is);
          continue;
        }
        float right = inside ? value_of((long)z * plane + y * pitch + x) : 0;
        if (is != right) fail("%s: (%d, %d, %d) was loaded as %g, not %g", what, x, y, z, is, right);
        if (inside) host[z * plane + y * pitch + x] = (T)(right + 1);
      }
  for (int i = 0; i < all; i++)
    if ((float)back[i] != (float)host[i])
      fail("%s: value %d is %g after the store, not %g", what, i, (float)back[i], (float)host[i]);
  printf("tensor_tiled: %s: well\n", what);
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));
  CHECK(cudaFree(seen));
  CHECK(cudaFree(late));
  delete[] host;
  delete[] back;
  free(box);
}

int main() {
  feature_begin("tensor_tiled");
  need(9);
  const auto half_ = CU_TENSOR_MAP_DATA_TYPE_FLOAT16, single = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const auto flat = CU_TENSOR_MAP_SWIZZLE_NONE, twisted = CU_TENSOR_MAP_SWIZZLE_128B;
  const auto zeros = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, nans = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  // Rows of 100 values lie 104 apart: the padding must stay as it is.
  const Tiled two = {half_, 2, {100, 50, 1}, {208, 0}, {64, 8, 1}, flat, zeros};
  test<2, __half>("f16 inside", two, make_int3(8, 16, 0));
  test<2, __half>("f16 beyond the end", two, make_int3(60, 45, 0));
  test<2, __half>("f16 before the start", two, make_int3(-5, -3, 0));
  Tiled swizzled = two;
  swizzled.box[1] = 32;
  swizzled.swizzle = twisted;
  test<2, __half>("f16, swizzle of 128 bytes", swizzled, make_int3(24, 8, 0));
  test<2, __half>("f16, swizzle of 128 bytes, beyond the end", swizzled, make_int3(72, 30, 0));
  Tiled marked = two;
  marked.outside = nans;
  test<2, __half>("f16, NaN outside", marked, make_int3(60, 45, 0));
  const Tiled words = {single, 2, {300, 40, 1}, {1200, 0}, {32, 16, 1}, twisted, zeros};
  test<2, float>("f32, swizzle of 128 bytes", words, make_int3(280, 10, 0));
  const Tiled three = {single, 3, {20, 12, 6}, {80, 960}, {8, 4, 2}, flat, zeros};
  test<3, float>("f32 in three dimensions", three, make_int3(4, 3, 2));
  test<3, float>("f32 in three dimensions, beyond the end", three, make_int3(16, 10, 5));
  const Tiled cube = {half_, 3, {64, 24, 10}, {128, 3072}, {64, 8, 4}, twisted, zeros};
  test<3, __half>("f16 in three dimensions, swizzle of 128 bytes", cube, make_int3(0, 20, 8));
  return well();
}
