// CHECK(call): the call must succeed. WANT(error, call): it must return that error. EXPECT(condition).
// With CHECK_GO_ON in the environment a failed check is told and the program goes on (for looking closer).
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

inline void check_end() {
  if (!getenv("CHECK_GO_ON")) exit(1);
}
inline void check_fail(const char *file, int line, const char *what, cudaError_t e, const char *more) {
  fprintf(stderr, "%s:%d: %s: %s (%s)%s\n", file, line, what, cudaGetErrorName(e), cudaGetErrorString(e), more);
  check_end();
}
#define CHECK(...)                                                                   \
  do {                                                                               \
    cudaError_t check_e = (__VA_ARGS__);                                             \
    if (check_e != cudaSuccess) check_fail(__FILE__, __LINE__, #__VA_ARGS__, check_e, ""); \
  } while (0)
#define WANT(error, ...)                                                             \
  do {                                                                               \
    cudaError_t check_e = (__VA_ARGS__);                                             \
    if (check_e != (error))                                                          \
      check_fail(__FILE__, __LINE__, #__VA_ARGS__, check_e, ", wanted " #error);     \
  } while (0)
#define EXPECT(...)                                                                  \
  do {                                                                               \
    if (!(__VA_ARGS__)) {                                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #__VA_ARGS__);    \
      check_end();                                                                      \
    }                                                                                \
  } while (0)
