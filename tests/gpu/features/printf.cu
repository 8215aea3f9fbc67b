// nvcc:
// printf in a kernel: its text reaches the program's standard output, with all conversions.
#include "feature.cuh"

#include <fcntl.h>
#include <string>

__global__ void say() {
  if (threadIdx.x == 0) printf("int %d %5d|%-5d|%05d %u %x %c %%\n", -5, 42, 42, 42, 4000000000u, 0xbeef, 'z');
  if (threadIdx.x == 0) printf("long %lld real %.3f %e text %s|\n", -1234567890123ll, 3.14159, 12345.678, "warp");
  printf("thread %d of block %d\n", threadIdx.x, blockIdx.x);
}

static int times(const std::string &all, const std::string &what) {
  int count = 0;
  for (size_t at = 0; (at = all.find(what, at)) != std::string::npos; at++) count++;
  return count;
}

int main() {
  feature_begin("printf");
  need(5);
  // Standard output is a pipe for the time of the launch; it holds 64 KiB, more than the text.
  int ends[2], keep = dup(1);
  if (keep < 0 || pipe(ends)) fail("no pipe");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  fflush(stdout);
  dup2(ends[1], 1);
  say<<<3, 40>>>();
  cudaError_t launched = cudaGetLastError(), done = cudaDeviceSynchronize();
  fflush(stdout);
  dup2(keep, 1);
  close(ends[1]);
  CHECK(launched);
  CHECK(done);
  std::string all;
  char part[4096];
  for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;) all.append(part, got);
  if (all.empty()) fail("nothing was printed");
  for (const char *line : {"int -5    42|42   |00042 4000000000 beef z %\n",
                           "long -1234567890123 real 3.142 1.234568e+04 text warp|\n"})
    if (times(all, line) != 3) fail("printed %d times, not 3: %.*s", times(all, line), (int)strlen(line) - 1, line);
  for (int block = 0; block < 3; block++)
    for (int thread = 0; thread < 40; thread++) {
      std::string line = "thread " + std::to_string(thread) + " of block " + std::to_string(block) + "\n";
      if (times(all, line) != 1) fail("thread %d of block %d printed %d times", thread, block, times(all, line));
    }
  return well("%zu bytes", all.size());
}
