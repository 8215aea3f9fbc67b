// nvcc:
// 8-bit floats: conversions on the device, to e4m3 and e5m2 and back, give the host's bits.
#include "feature.cuh"

#include <cmath>
#include <cuda_fp8.h>

constexpr int COUNT = 4096;

template <class F>
__global__ void convert(const float *from, unsigned char *bits, float *back) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  F small(from[i]);
  bits[i] = small.__x;
  // The first 256 threads tell what each pattern of bits means.
  F pattern;
  pattern.__x = (unsigned char)i;
  back[i] = (float)pattern;
}

// Values over all of a format's range, between its values too, and beyond it.
static float value_of(int i) {
  if (i == 0) return 0;
  if (i == 1) return -0.0f;
  if (i == 2) return NAN;
  float size = std::ldexp(1.0f + (i * 37 % 64) / 64.0f, i / 2 % 36 - 18);
  return i & 1 ? -size : size;
}

template <class F>
static void test(const char *what, float largest) {
  static float from[COUNT], back[COUNT];
  static unsigned char bits[COUNT];
  for (int i = 0; i < COUNT; i++) from[i] = value_of(i);
  from[3] = largest * 2;
  from[4] = -INFINITY;
  float *to = device_array<float>(COUNT);
  unsigned char *small = device_array<unsigned char>(COUNT);
  convert<F><<<COUNT / 128, 128>>>(to_device(from, COUNT), small, to);
  RAN();
  to_host(bits, small, COUNT);
  to_host(back, to, COUNT);
  for (int i = 0; i < COUNT; i++) {
    F right(from[i]);
    if (bits[i] != right.__x) fail("%s of %g is 0x%02x, not 0x%02x", what, from[i], bits[i], right.__x);
  }
  for (int i = 0; i < 256; i++) {
    F pattern;
    pattern.__x = (unsigned char)i;
    float right = (float)pattern;
    if (!(back[i] == right || (std::isnan(back[i]) && std::isnan(right))))
      fail("%s 0x%02x is %g, not %g", what, i, back[i], right);
  }
  F limit(largest), beyond(largest * 2);
  if (bits[3] != limit.__x || beyond.__x != limit.__x || (float)limit != largest)
    fail("%s of %g is 0x%02x, not the largest value", what, largest * 2, bits[3]);
}

int main() {
  feature_begin("fp8");
  need(8, 9);
  test<__nv_fp8_e4m3>("e4m3", 448);
  test<__nv_fp8_e5m2>("e5m2", 57344);
  return well();
}
