// What all parts of `probe` use: kernels, streams, pages, and the lines it prints.
#ifndef WARPLOOM_PROBE_H
#define WARPLOOM_PROBE_H

#include "calls.h"
#include "children.h"

#include <math.h>
#include <pthread.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

// Multiply-adds of a kernel that takes about 5 ms on one multiprocessor.
#define LONG_COUNT 2200000

static CUhandle context, nothing, busy, probe_module;
static CUdeviceptr word;
// Streams that do not wait for the legacy one: for what is measured, and for the long kernel beside it.
static CUhandle here, other;
// The seconds that the long kernel takes.
static double long_s;

// Starts a kernel of so many multiply-adds a thread.
static inline void start_busy(unsigned blocks, int count, CUhandle stream) {
    uint32_t shortened = counted(count, 8);
    void *arguments[] = {&word, &shortened};
    start(busy, blocks, blocks > 1 ? 256 : 32, stream, arguments);
}

static inline void open_probe(void) {
    context = driver_open();
    if (ATTEMPT()) {
        fprintf(stderr, "probe: %s\n", reason);
        exit(1);
    }
    probe_module = loaded(KERNELS);
    nothing = function_of(probe_module, "nothing");
    busy = function_of(probe_module, "busy");
    DO(cuMemAlloc_v2, &word, (size_t)256);
    here = new_stream();
    other = new_stream();
    start(nothing, 1, 1, here, NULL);
    start_busy(1, 8, other);
    DO(cuCtxSynchronize);
    double begun = now();
    start_busy(1, LONG_COUNT, other);
    DO(cuCtxSynchronize);
    long_s = now() - begun;
}

// Pages of the program's own, each written once.
static inline char *pages(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) give_up("no memory on the host");
    memset(at, 1, bytes);
    return at;
}

// Spins for so many seconds.
static inline void spin(double seconds) {
    for (double until = now() + seconds; now() < until;) {
    }
}

#endif
