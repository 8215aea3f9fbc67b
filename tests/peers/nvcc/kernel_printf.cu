// printf in a kernel: every conversion arrives, as the host's printf would write it.
#include "check.h"
#include <string>
#include <unistd.h>

__global__ void say() {
  if (threadIdx.x == 0) {
    printf("int %d %5d|%-5d|%05d %u %x %X %o %c %%\n", -5, 42, 42, 42, 4000000000u, 0xbeef, 0xbeef, 8, 'z');
    printf("long %lld %llu %llx\n", -1234567890123ll, 18446744073709551615ull, 0xfeedfacecafell);
    printf("real %f %.3f %e %g %10.2f|\n", 1.5, 3.14159, 12345.678, 0.0001, 2.5f);
    printf("text %s and %s|%.2s|%6s|\n", "one", "two", "three", "ab");
  }
  int n = printf("thread %d of block %d\n", threadIdx.x, blockIdx.x);
  if (n < 0 || n > 2) printf("odd count %d\n", n);
  if (printf("nothing\n") < 0) printf("negative\n");
}

int main() {
  size_t fifo = 0;
  CHECK(cudaDeviceGetLimit(&fifo, cudaLimitPrintfFifoSize));
  EXPECT(fifo >= 65536);
  CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
  CHECK(cudaDeviceGetLimit(&fifo, cudaLimitPrintfFifoSize));
  EXPECT(fifo >= 2 << 20);
  // Standard output goes to a file for the time of the launch.
  FILE *f = tmpfile();
  fflush(stdout);
  int keep = dup(1);
  dup2(fileno(f), 1);
  say<<<3, 40>>>();
  cudaError_t e = cudaGetLastError(), e2 = cudaDeviceSynchronize();
  fflush(stdout);
  dup2(keep, 1);
  CHECK(e);
  CHECK(e2);
  std::string all;
  rewind(f);
  for (int c; (c = fgetc(f)) != EOF;) all += (char)c;
  auto times = [&](const std::string &what) {
    int n = 0;
    for (size_t p = 0; (p = all.find(what, p)) != std::string::npos; p++) n++;
    if (!n) fprintf(stderr, "not printed: %s", what.c_str());
    return n;
  };
  EXPECT(times("int -5    42|42   |00042 4000000000 beef BEEF 10 z %\n") == 3);
  EXPECT(times("long -1234567890123 18446744073709551615 feedfacecafe\n") == 3);
  EXPECT(times("real 1.500000 3.142 1.234568e+04 0.0001       2.50|\n") == 3);
  EXPECT(times("text one and two|th|    ab|\n") == 3);
  for (int b = 0; b < 3; b++)
    for (int t = 0; t < 40; t++) EXPECT(times("thread " + std::to_string(t) + " of block " + std::to_string(b) + "\n") == 1);
  EXPECT(times("nothing\n") == 120);
  EXPECT(all.find("negative") == std::string::npos && all.find("odd count") == std::string::npos);
  printf("kernel_printf: well\n");
}
