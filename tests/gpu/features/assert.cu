// nvcc:
// assert in a kernel: the program that did it gets cudaErrorAssert and a message, and a program after it works.
#undef NDEBUG
#include "feature.cuh"

#include <cassert>
#include <fcntl.h>
#include <string>
#include <sys/wait.h>

__global__ void verify(int limit, int *out) {
  assert((int)threadIdx.x < limit);
  out[threadIdx.x] = threadIdx.x + 1;
}

static void holds() {
  int *out = device_array<int>(32), seen[32];
  verify<<<1, 32>>>(32, out);
  RAN();
  to_host(seen, out, 32);
  for (int i = 0; i < 32; i++)
    if (seen[i] != i + 1) fail("thread %d left %d, not %d", i, seen[i], i + 1);
}

// The child: one assertion holds, one fails.
[[noreturn]] static void child() {
  feature_begin("assert");
  need(5);
  holds();
  int *out = device_array<int>(32);
  verify<<<1, 32>>>(31, out);
  cudaError_t launched = cudaGetLastError(), done = cudaDeviceSynchronize();
  if (launched != cudaSuccess) fail("the launch gives %s", cudaGetErrorName(launched));
  if (done != cudaErrorAssert) fail("a failed assertion gives %s, not cudaErrorAssert", cudaGetErrorName(done));
  void *more = nullptr;
  cudaError_t later = cudaMalloc(&more, 100);
  if (later != cudaErrorAssert) fail("a call after it gives %s, not cudaErrorAssert", cudaGetErrorName(later));
  fflush(stderr);
  _exit(0);
}

int main() {
  feature_begin("assert");
  int ends[2];
  if (pipe(ends)) fail("no pipe");
  pid_t pid = fork();
  if (pid < 0) fail("no child");
  if (pid == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    child();
  }
  close(ends[1]);
  std::string all;
  char part[4096];
  for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;) all.append(part, got);
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) fail("the child was lost");
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code) {
    while (!all.empty() && all.back() == '\n') all.pop_back();
    // From behind the last line break, or from the start.
    std::string last = all.substr(all.rfind('\n') + 1);
    if (code == 77) skip("%s", last.c_str());
    fail("the child ended with %d: %s", code, last.c_str());
  }
  need(5);
  holds();
  bool told = all.find("Assertion `(int)threadIdx.x < limit` failed") != std::string::npos;
  return well(told ? "with its message" : "without its message");
}
