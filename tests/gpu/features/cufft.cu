// nvcc: -ldl
// cuFFT: transforms of 4,096 complex values, forward and back, and of a plane, against sums made on the host.
// The library is opened at run time: where it is missing, the program says so and the others still compile.
#include "feature.cuh"

#include <cmath>
#include <complex>
#include <dlfcn.h>
#include <glob.h>
#include <vector>

typedef std::complex<double> Value;

constexpr int C2C = 0x29, FORWARD = -1, BACK = 1, LENGTH = 4096, HIGH = 48, WIDE = 80;

static void *library;

template <class F>
static F function(const char *name) {
  void *found = dlsym(library, name);
  if (!found) fail("libcufft has no %s", name);
  return reinterpret_cast<F>(found);
}

#define CUFFT(name, type, ...)                                                  \
  do {                                                                          \
    int code_ = function<int (*) type>(#name)(__VA_ARGS__);                     \
    if (code_) fail("line %d: %s: cufftResult %d", __LINE__, #name, code_);     \
  } while (0)

// Opens the library by its name, or where toolkits and Python packages keep it.
static void open_library() {
  for (const char *name : {"libcufft.so.12", "libcufft.so.11", "libcufft.so"})
    if ((library = dlopen(name, RTLD_NOW))) return;
  for (const char *pattern :
       {"/usr/local/cuda*/lib64/libcufft.so.1*", "/usr/local/cuda*/targets/*/lib/libcufft.so.1*",
        "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcufft.so.1*",
        "/usr/lib/python3*/*-packages/nvidia/*/lib/libcufft.so.1*",
        "/opt/*/lib/python3*/*-packages/nvidia/*/lib/libcufft.so.1*"}) {
    glob_t found;
    if (glob(pattern, 0, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc && !library; i++) library = dlopen(found.gl_pathv[i], RTLD_NOW);
    globfree(&found);
    if (library) return;
  }
  skip("no libcufft: %s", dlerror());
}

static void execute(int plan, float2 *from, float2 *to, int direction) {
  CUFFT(cufftExecC2C, (int, float2 *, float2 *, int), plan, from, to, direction);
}

static float2 value_of(int i) { return make_float2((i * 7 % 101) / 50.0f - 1, (i * 13 % 89) / 44.0f - 1); }

static Value turn(double part) { return std::polar(1.0, -2 * M_PI * part); }

// Compares transformed values with their sums at some places; the error may be this large.
static void compare(const char *what, Value is, Value right, double size) {
  if (std::abs(is - right) > size * 1e-4)
    fail("%s: %g%+gi, not %g%+gi", what, is.real(), is.imag(), right.real(), right.imag());
}

static std::vector<float2> transformed(int plan, const std::vector<float2> &in, const char *what) {
  float2 *from = to_device(in.data(), in.size()), *to = device_array<float2>(in.size());
  std::vector<float2> out(in.size()), back(in.size());
  execute(plan, from, to, FORWARD);
  to_host(out.data(), to, out.size());
  execute(plan, to, to, BACK);
  to_host(back.data(), to, back.size());
  for (size_t i = 0; i < in.size(); i++) {
    float n = in.size();
    if (std::hypot(back[i].x / n - in[i].x, back[i].y / n - in[i].y) > 1e-4)
      fail("%s: value %zu is %g%+gi after forward and back, not %g%+gi", what, i, back[i].x / n, back[i].y / n,
           in[i].x, in[i].y);
  }
  CHECK(cudaFree(from));
  CHECK(cudaFree(to));
  return out;
}

static Value of(float2 it) { return Value(it.x, it.y); }

static void line() {
  int plan = 0;
  CUFFT(cufftPlan1d, (int *, int, int, int), &plan, LENGTH, C2C, 1);
  std::vector<float2> in(LENGTH);
  for (int i = 0; i < LENGTH; i++) in[i] = value_of(i);
  std::vector<float2> out = transformed(plan, in, "1D");
  for (int k = 0; k < LENGTH; k += 97) {
    Value right = 0;
    for (int i = 0; i < LENGTH; i++) right += of(in[i]) * turn((double)((long)i * k % LENGTH) / LENGTH);
    compare("1D", of(out[k]), right, LENGTH);
  }
  CUFFT(cufftDestroy, (int), plan);
}

static void plane() {
  int plan = 0;
  CUFFT(cufftPlan2d, (int *, int, int, int), &plan, HIGH, WIDE, C2C);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CUFFT(cufftSetStream, (int, cudaStream_t), plan, stream);
  std::vector<float2> in(HIGH * WIDE);
  for (int i = 0; i < HIGH * WIDE; i++) in[i] = value_of(i);
  std::vector<float2> out = transformed(plan, in, "2D");
  for (int k = 0; k < HIGH * WIDE; k += 131) {
    Value right = 0;
    for (int i = 0; i < HIGH * WIDE; i++)
      right += of(in[i]) * turn((double)(i / WIDE * (k / WIDE)) / HIGH + (double)(i % WIDE * (k % WIDE)) / WIDE);
    compare("2D", of(out[k]), right, HIGH * WIDE);
  }
  CUFFT(cufftDestroy, (int), plan);
}

int main() {
  feature_begin("cufft");
  open_library();
  need(5);
  line();
  plane();
  int version = 0;
  CUFFT(cufftGetVersion, (int *), &version);
  return well("version %d", version);
}
