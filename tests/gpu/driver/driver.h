// The CUDA driver API for programs that gcc builds anywhere: the library is opened at run time and its
// functions are found by name, so neither cuda.h nor a GPU is needed to build one.
//
// A program calls `driver_open()`, then functions through `CU(cuMemAlloc_v2, &address, bytes)`, which ends the
// program with a line on stderr if the call fails. `TRY(...)` gives the code instead.
#ifndef WARPLOOM_DRIVER_H
#define WARPLOOM_DRIVER_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t CUdeviceptr;
typedef void *CUhandle;

static void *driver_library;

// Looks a function up; ends the program if the driver lacks it.
static inline void *driver_find(const char *name) {
    void *found = dlsym(driver_library, name);
    if (!found) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    return found;
}

// The address of a function, looked up once at each place.
#define FUNCTION(name)                                     \
    ({                                                     \
        static void *found_;                               \
        if (!found_) found_ = driver_find(#name);          \
        (int (*)())found_;                                 \
    })

// Calls a function; the value is its code. Arguments must have the width that CUDA's manual gives them.
#define TRY(name, ...) FUNCTION(name)(__VA_ARGS__)

#define CU(name, ...)                                                                        \
    do {                                                                                     \
        int code_ = TRY(name, __VA_ARGS__);                                                  \
        if (code_) driver_failed(__FILE__, __LINE__, #name, code_);                          \
    } while (0)

static inline void driver_failed(const char *file, int line, const char *name, int code) {
    const char *text = NULL;
    int (*says)(int, const char **) = (int (*)(int, const char **))dlsym(driver_library, "cuGetErrorName");
    if (says) says(code, &text);
    fprintf(stderr, "%s:%d: %s: %s (%d)\n", file, line, name, text ? text : "?", code);
    exit(1);
}

// Opens the driver and makes a context on device 0 current: the primary one, as the CUDA runtime does.
static inline CUhandle driver_open(void) {
    driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver_library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    int device;
    CUhandle context;
    CU(cuInit, 0);
    CU(cuDeviceGet, &device, 0);
    CU(cuDevicePrimaryCtxRetain, &context, device);
    CU(cuCtxSetCurrent, context);
    return context;
}

// Loads PTX; the function of that name in it.
static inline CUhandle driver_function(const char *ptx, const char *name) {
    CUhandle module, function;
    CU(cuModuleLoadData, &module, ptx);
    CU(cuModuleGetFunction, &function, module, name);
    return function;
}

// Launches a function in one dimension.
static inline void driver_launch(CUhandle function, unsigned grid, unsigned block, CUhandle stream, void **arguments) {
    CU(cuLaunchKernel, function, grid, 1, 1, block, 1, 1, 0, stream, arguments, NULL);
}

// Seconds of the monotonic clock, which all processes of a host share.
static inline double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

#endif
