// What the translation units of `features` share. Each unit opens the driver for itself: driver.h keeps the library
// in a variable of the unit.
#ifndef WARPLOOM_FEATURES_H
#define WARPLOOM_FEATURES_H

#include "driver.h"

#include <signal.h>

// The feature that this process tries.
extern const char *feature_name;

// Each ends the process: a line on stderr, and exit code 1 or 77.
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

// The line of a feature that works; `note` may be NULL.
void well(const char *note);

// Starts the 20 seconds of a process; a forked child has its own.
void feature_alarm(void);

// Says which call the driver refused, and ends the process.
static inline void __attribute__((noreturn)) refused(const char *name, int code) {
    const char *text = NULL;
    TRY(cuGetErrorName, code, &text);
    fprintf(stderr, "refused: %s: %s\n", name, text ? text : "CUDA_ERROR_UNKNOWN");
    _exit(1);
}

// Calls a function that a driver may refuse or lack. Arguments need the manual's widths.
#define ASK(name, ...)                                                 \
    do {                                                               \
        int (*asked_)() = (int (*)())dlsym(driver_library, #name);     \
        if (!asked_) refused(#name, 801 /* not supported */);          \
        int answer_ = asked_(__VA_ARGS__);                             \
        if (answer_) refused(#name, answer_);                          \
    } while (0)

// Loads PTX; the function of that name in it.
static inline CUhandle kernel_of(const char *ptx, const char *name) {
    CUhandle module, function;
    ASK(cuModuleLoadData, &module, ptx);
    ASK(cuModuleGetFunction, &function, module, name);
    return function;
}

static inline void start(CUhandle function, unsigned blocks, unsigned threads, CUhandle stream, void **arguments) {
    ASK(cuLaunchKernel, function, blocks, 1u, 1u, threads, 1u, 1u, 0u, stream, arguments, NULL);
}

static inline void finish(void) { ASK(cuCtxSynchronize); }

// Zeroed device memory.
static inline CUdeviceptr device_bytes(size_t bytes) {
    CUdeviceptr at;
    ASK(cuMemAlloc_v2, &at, bytes);
    ASK(cuMemsetD8_v2, at, (unsigned char)0, bytes);
    return at;
}

static inline CUdeviceptr to_device(const void *from, size_t bytes) {
    CUdeviceptr at = device_bytes(bytes);
    ASK(cuMemcpyHtoD_v2, at, from, bytes);
    return at;
}

// Copies back, after all work.
static inline void to_host(void *to, CUdeviceptr from, size_t bytes) {
    finish();
    ASK(cuMemcpyDtoH_v2, to, from, bytes);
}

// A stream that does not wait for the default one.
static inline CUhandle new_stream(void) {
    CUhandle stream;
    ASK(cuStreamCreate, &stream, 1u);
    return stream;
}

// A launch with one attribute, as cuLaunchKernelEx takes it.
struct attribute {
    int id, padding;
    union {
        char bytes[64];
        unsigned values[3];
    };
};

struct config {
    unsigned grid[3], block[3], shared;
    CUhandle stream;
    struct attribute *attributes;
    unsigned count;
};

// The features, by file.
void cluster(void), tensor_tiled(void), tensor_im2col(void), tensor_memory(void), wgmma(void), pdl(void);
void cooperative(void), mapped(void), host_function(void), overlap(void), async_copy(void), event_step(void);
void capture_alloc(void), graph_update(void);
void stack_limit(void), texture(void), print(void), assertion(void), fp8(void), cufft(void);

#endif
