// nvcc:
// Tensor maps of convolution windows (im2col): the input values of 64 output pixels in a row, for each place of a
// 3x3 filter with padding 1, are loaded in one copy and compared with the host's.
#include "tensor.cuh"

#include <cuda_fp16.h>

constexpr int CHANNELS = 64, WIDE = 32, HIGH = 32, IMAGES = 2, PIXELS = 64, PAD = 1, FILTER = 3;
constexpr int BYTES = PIXELS * CHANNELS * 2;

struct Window {
  int stride, channels;  // of the convolution; of one load
  CUtensorMapSwizzle swizzle;
};

// Block b loads the column of the filter's place (b % 3, b / 3). `first` is channel, x, y, image.
__global__ void load_columns(const __grid_constant__ CUtensorMap map, int4 first, int bytes, unsigned char *seen,
                             int *late) {
#if HOPPER
  __shared__ alignas(1024) unsigned char column[BYTES];
  __shared__ alignas(8) uint64_t barrier;
  if (threadIdx.x == 0) barrier_init(&barrier);
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned short x = blockIdx.x % FILTER, y = blockIdx.x / FILTER;
    barrier_expect(&barrier, bytes);
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(shared_address(column)),
        "l"(&map), "r"(shared_address(&barrier)), "r"(first.x), "r"(first.y), "r"(first.z), "r"(first.w), "h"(x),
        "h"(y)
        : "memory");
  }
  if (!barrier_wait(&barrier, 0)) {
    *late = 1;
    return;
  }
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) seen[blockIdx.x * BYTES + i] = column[i];
#endif
}

// The box of a window's base pixels: its lower corner counts from the first pixel, its upper one from the last.
static CUtensorMap encode(const Window &it, void *address) {
  static auto call = driver_entry<PFN_cuTensorMapEncodeIm2col_v12000>("cuTensorMapEncodeIm2col");
  const cuuint64_t dims[4] = {CHANNELS, WIDE, HIGH, IMAGES};
  const cuuint64_t strides[3] = {CHANNELS * 2, CHANNELS * 2 * WIDE, CHANNELS * 2 * WIDE * HIGH};
  const int outputs = WIDE / it.stride, upper_corner = (outputs - 1) * it.stride + 1 - WIDE - PAD;
  const int lower[2] = {-PAD, -PAD}, upper[2] = {upper_corner, upper_corner};
  const cuuint32_t steps[4] = {1, (cuuint32_t)it.stride, (cuuint32_t)it.stride, 1};
  CUtensorMap map;
  encoded("cuTensorMapEncodeIm2col",
          call(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, address, dims, strides, lower, upper, it.channels, PIXELS,
               steps, CU_TENSOR_MAP_INTERLEAVE_NONE, it.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

static float value_of(int channel, int x, int y, int image) {
  return (float)((channel + 3 * x + 97 * y + 500 * image) % 2039 + 1);
}

// Loads the columns of 64 outputs from this one on, and compares them.
static void test(const char *what, const Window &it, __half *input, int channel, int x, int y, int image) {
  static __half seen[FILTER * FILTER * PIXELS * CHANNELS];
  unsigned char *out = device_array<unsigned char>(FILTER * FILTER * BYTES);
  int *late = device_array<int>(1), was_late, outputs = WIDE / it.stride, bytes = PIXELS * it.channels * 2;
  int4 first = make_int4(channel, x * it.stride - PAD, y * it.stride - PAD, image);
  load_columns<<<FILTER * FILTER, 128>>>(encode(it, input), first, bytes, out, late);
  RAN();
  to_host(&was_late, late, 1);
  if (was_late) fail("%s: a load did not end within 3 s", what);
  to_host((unsigned char *)seen, out, FILTER * FILTER * BYTES);
  for (int place = 0; place < FILTER * FILTER; place++)
    for (int i = 0; i < PIXELS; i++)
      for (int c = 0; c < it.channels; c++) {
        int at = (image * outputs + y) * outputs + x + i;
        int ix = at % outputs * it.stride - PAD + place % FILTER;
        int iy = at / outputs % outputs * it.stride - PAD + place / FILTER, n = at / outputs / outputs;
        bool inside = ix >= 0 && ix < WIDE && iy >= 0 && iy < HIGH && n < IMAGES;
        float right = inside ? value_of(channel + c, ix, iy, n) : 0;
        int byte = (i * it.channels + c) * 2;
        if (it.swizzle == CU_TENSOR_MAP_SWIZZLE_128B) byte ^= (byte >> 7 & 7) << 4;
        float is = (float)seen[(place * BYTES + byte) / 2];
        if (is != right)
          fail("%s: filter place %d, pixel %d, channel %d is %g, not %g", what, place, i, channel + c, is, right);
      }
  CHECK(cudaFree(out));
  CHECK(cudaFree(late));
}

int main() {
  feature_begin("tensor_im2col");
  need(9);
  static __half host[IMAGES * HIGH * WIDE * CHANNELS];
  for (int i = 0; i < IMAGES * HIGH * WIDE * CHANNELS; i++)
    host[i] = (__half)value_of(i % CHANNELS, i / CHANNELS % WIDE, i / CHANNELS / WIDE % HIGH,
                               i / CHANNELS / WIDE / HIGH);
  __half *input = to_device(host, IMAGES * HIGH * WIDE * CHANNELS);
  const Window half_ = {1, 32, CU_TENSOR_MAP_SWIZZLE_NONE}, all = {1, 64, CU_TENSOR_MAP_SWIZZLE_128B};
  const Window second = {2, 64, CU_TENSOR_MAP_SWIZZLE_128B};
  test("first pixels", half_, input, 0, 0, 0, 0);
  test("over two images", half_, input, 32, 20, 30, 0);
  test("swizzle of 128 bytes", all, input, 0, 7, 12, 1);
  test("stride 2", second, input, 0, 5, 3, 0);
  test("stride 2, over two images", second, input, 0, 9, 14, 0);
  return well();
}
