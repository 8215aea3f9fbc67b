// What the feature programs share. A program ends in one of three ways:
//
//     exit 0    the feature works; the last line on stdout is `NAME: well[; note]`
//     exit 77   this host cannot try it; a line on stderr says why
//     exit 1    it does not work; one line on stderr says what was seen
//
// No program runs for more than 20 seconds.
#pragma once
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <time.h>
#include <unistd.h>

// True where a kernel may use instructions of sm_90: code for older devices is left empty.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define HOPPER 1
#else
#define HOPPER 0
#endif

static const char *feature_name = "?";

[[noreturn]] inline void feature_end(int code, const char *format, va_list with) {
  fflush(stdout);
  fprintf(stderr, "%s: ", feature_name);
  vfprintf(stderr, format, with);
  fprintf(stderr, "\n");
  // Destructors of a device in trouble may wait: skip them.
  _exit(code);
}

[[noreturn, gnu::format(printf, 1, 2)]] inline void fail(const char *format, ...) {
  va_list with;
  va_start(with, format);
  feature_end(1, format, with);
}

[[noreturn, gnu::format(printf, 1, 2)]] inline void skip(const char *format, ...) {
  va_list with;
  va_start(with, format);
  feature_end(77, format, with);
}

// Says that the feature works; a note may follow.
[[gnu::format(printf, 1, 2)]] inline int well(const char *format = nullptr, ...) {
  printf("%s: well", feature_name);
  if (format) {
    va_list with;
    va_start(with, format);
    printf("; ");
    vprintf(format, with);
    va_end(with);
  }
  printf("\n");
  fflush(stdout);
  return 0;
}

inline void feature_late(int) {
  static const char text[] = ": not done within 20 s\n";
  ssize_t ignored = write(2, feature_name, strlen(feature_name));
  ignored = write(2, text, sizeof text - 1);
  (void)ignored;
  _exit(1);
}

// Names the program and starts its 20 seconds. A forked child calls it again: it inherits no alarm.
inline void feature_begin(const char *name) {
  feature_name = name;
  signal(SIGALRM, feature_late);
  alarm(20);
}

// A call must succeed. The call may contain commas.
#define CHECK(...)                                                                                     \
  do {                                                                                                 \
    cudaError_t check_ = (__VA_ARGS__);                                                                \
    if (check_ != cudaSuccess) fail("line %d: %s: %s", __LINE__, #__VA_ARGS__, cudaGetErrorName(check_)); \
  } while (0)

// A launch must succeed, and the work before it.
#define RAN()                       \
  do {                              \
    CHECK(cudaGetLastError());      \
    CHECK(cudaDeviceSynchronize()); \
  } while (0)

// An attribute of device 0.
inline int attribute(cudaDeviceAttr which) {
  int value = 0;
  CHECK(cudaDeviceGetAttribute(&value, which, 0));
  return value;
}

// Skips the program on a device older than this capability; makes the device's context.
inline void need(int major, int minor = 0) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 1) skip("no device");
  int have = attribute(cudaDevAttrComputeCapabilityMajor) * 10 + attribute(cudaDevAttrComputeCapabilityMinor);
  if (have < major * 10 + minor) skip("the device is sm_%d, this needs sm_%d%d", have, major, minor);
  CHECK(cudaFree(0));
}

// Allocates zeroed device memory.
template <class T>
inline T *device_array(size_t count) {
  T *at = nullptr;
  CHECK(cudaMalloc(&at, count * sizeof(T)));
  CHECK(cudaMemset(at, 0, count * sizeof(T)));
  return at;
}

// Copies an array to new device memory.
template <class T>
inline T *to_device(const T *from, size_t count) {
  T *at = device_array<T>(count);
  CHECK(cudaMemcpy(at, from, count * sizeof(T), cudaMemcpyHostToDevice));
  return at;
}

// Copies device memory back, after all work.
template <class T>
inline void to_host(T *to, const T *from, size_t count) {
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(to, from, count * sizeof(T), cudaMemcpyDeviceToHost));
}

// Seconds of the monotonic clock.
inline double now() {
  timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec + at.tv_nsec * 1e-9;
}

// Nanoseconds of the device's clock.
__device__ inline unsigned long long device_ns() {
  unsigned long long at;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(at)::"memory");
  return at;
}

// Keeps a thread busy for some milliseconds.
__device__ inline void device_spin(int ms) {
  unsigned long long begun = device_ns();
  while (device_ns() - begun < ms * 1000000ull) {
  }
}
