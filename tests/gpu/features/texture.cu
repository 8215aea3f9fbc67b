// nvcc:
// Texture and surface objects of an array: a kernel writes through the surface, another reads through textures with
// the linear filter, with wrapping coordinates, and as normalized bytes.
#include "feature.cuh"

#include <cmath>

constexpr int WIDE = 64, HIGH = 48, POINTS = 256;

__global__ void paint(cudaSurfaceObject_t surface) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < WIDE && y < HIGH) surf2Dwrite(x * 2.0f + y * 100.0f, surface, x * (int)sizeof(float), y);
}

__global__ void look(cudaTextureObject_t texture, const float2 *points, float *out) {
  int i = threadIdx.x;
  out[i] = tex2D<float>(texture, points[i].x, points[i].y);
}

static cudaResourceDesc resource(cudaArray_t array) {
  cudaResourceDesc it = {};
  it.resType = cudaResourceTypeArray;
  it.res.array.array = array;
  return it;
}

static cudaTextureObject_t texture(cudaArray_t array, cudaTextureFilterMode filter, cudaTextureAddressMode beyond,
                                   bool normalized, cudaTextureReadMode mode) {
  cudaResourceDesc from = resource(array);
  cudaTextureDesc how = {};
  how.filterMode = filter;
  how.addressMode[0] = how.addressMode[1] = beyond;
  how.normalizedCoords = normalized;
  how.readMode = mode;
  cudaTextureObject_t made = 0;
  CHECK(cudaCreateTextureObject(&made, &from, &how, nullptr));
  return made;
}

// Reads a texture at all points.
static void read(cudaTextureObject_t texture, const float2 *points, float *seen) {
  float2 *at = to_device(points, POINTS);
  float *out = device_array<float>(POINTS);
  look<<<1, POINTS>>>(texture, at, out);
  RAN();
  to_host(seen, out, POINTS);
  CHECK(cudaFree(at));
  CHECK(cudaFree(out));
  CHECK(cudaDestroyTextureObject(texture));
}

static void floats() {
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CHECK(cudaMallocArray(&array, &format, WIDE, HIGH, cudaArraySurfaceLoadStore));
  cudaResourceDesc to = resource(array);
  cudaSurfaceObject_t surface;
  CHECK(cudaCreateSurfaceObject(&surface, &to));
  paint<<<dim3(2, 6), dim3(32, 8)>>>(surface);
  RAN();
  CHECK(cudaDestroySurfaceObject(surface));
  float2 points[POINTS];
  float seen[POINTS];
  // The picture is a plane, so the filter's values are known; weights have 8 bits.
  for (int i = 0; i < POINTS; i++) points[i] = make_float2(1 + i * 37 % 61 + 0.3125f, 1 + i * 11 % 45 + 0.6875f);
  read(texture(array, cudaFilterModeLinear, cudaAddressModeClamp, false, cudaReadModeElementType), points, seen);
  for (int i = 0; i < POINTS; i++) {
    float right = (points[i].x - 0.5f) * 2 + (points[i].y - 0.5f) * 100;
    if (std::fabs(seen[i] - right) > 0.5f)
      fail("linear filter at (%g, %g): %g, not %g", points[i].x, points[i].y, seen[i], right);
  }
  // Once around in both directions.
  for (int i = 0; i < POINTS; i++)
    points[i] = make_float2(1 + (i % WIDE + 0.5f) / WIDE, (i % HIGH + 0.5f) / HIGH - 1);
  read(texture(array, cudaFilterModePoint, cudaAddressModeWrap, true, cudaReadModeElementType), points, seen);
  for (int i = 0; i < POINTS; i++) {
    float right = i % WIDE * 2.0f + i % HIGH * 100.0f;
    if (seen[i] != right) fail("wrapped at (%g, %g): %g, not %g", points[i].x, points[i].y, seen[i], right);
  }
  CHECK(cudaFreeArray(array));
}

static void bytes() {
  static unsigned char picture[HIGH][WIDE];
  for (int i = 0; i < WIDE * HIGH; i++) picture[i / WIDE][i % WIDE] = (unsigned char)(i * 7);
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned char>();
  CHECK(cudaMallocArray(&array, &format, WIDE, HIGH));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, picture, WIDE, WIDE, HIGH, cudaMemcpyHostToDevice));
  float2 points[POINTS];
  float seen[POINTS];
  for (int i = 0; i < POINTS; i++) points[i] = make_float2(i % WIDE + 0.5f, i % HIGH + 0.5f);
  read(texture(array, cudaFilterModePoint, cudaAddressModeClamp, false, cudaReadModeNormalizedFloat), points, seen);
  for (int i = 0; i < POINTS; i++) {
    float right = picture[i % HIGH][i % WIDE] / 255.0f;
    if (std::fabs(seen[i] - right) > 1e-6f) fail("byte %d as a float: %g, not %g", i, seen[i], right);
  }
  CHECK(cudaFreeArray(array));
}

int main() {
  feature_begin("texture");
  need(5);
  floats();
  bytes();
  return well();
}
