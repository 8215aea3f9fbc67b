// Wrong calls that a driver answers with a code. None passes an invented handle, and none lets a kernel fault: an
// error that stays would end the context.
#ifndef WARPLOOM_PROBE_ERRORS_H
#define WARPLOOM_PROBE_ERRORS_H

#include "probe.h"

// A call while no context is current.
#define NOWHERE(...)                                  \
    ({                                                \
        CODE(cuCtxSetCurrent, (CUhandle)NULL);        \
        int code_ = CODE(__VA_ARGS__);                \
        CODE(cuCtxSetCurrent, context);               \
        code_;                                        \
    })

// A call while the stream `other` has work.
#define BUSY(...)                                     \
    ({                                                \
        start_busy(1, LONG_COUNT, other);             \
        DO(cuEventRecord, plain, other);              \
        int code_ = CODE(__VA_ARGS__);                \
        DO(cuStreamSynchronize, other);               \
        code_;                                        \
    })

// A call while the stream `here` is captured.
#define CAPTURED(...)                                                 \
    ({                                                                \
        CUhandle unused_ = NULL;                                      \
        DO(cuStreamBeginCapture_v2, here, 1u);                        \
        int code_ = CODE(__VA_ARGS__);                                \
        CODE(cuStreamEndCapture, here, &unused_);                     \
        code_;                                                        \
    })

#define LAUNCH(gx, gy, gz, bx, by, bz, shared) \
    CODE(cuLaunchKernel, nothing, gx, gy, gz, bx, by, bz, shared, here, NULL, NULL)

#define UNKNOWN ((CUdeviceptr)0x1230)

static CUhandle plain, timed[2];
static CUdeviceptr held;
static char *paged;

static void prepare_errors(void) {
    DO(cuEventCreate, &plain, 2u);
    for (int i = 0; i < 2; i++) DO(cuEventCreate, &timed[i], 0u);
    DO(cuMemAlloc_v2, &held, (size_t)4096);
    paged = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (paged == MAP_FAILED) give_up("no memory on the host");
}

static int free_twice(void) {
    CUdeviceptr at;
    DO(cuMemAlloc_v2, &at, (size_t)4096);
    DO(cuMemFree_v2, at);
    return CODE(cuMemFree_v2, at);
}

static int register_twice(void) {
    DO(cuMemHostRegister_v2, (void *)paged, (size_t)4096, 0u);
    int code = CODE(cuMemHostRegister_v2, (void *)paged, (size_t)4096, 0u);
    CODE(cuMemHostUnregister, (void *)paged);
    return code;
}

static int capture_of_mode(unsigned mode) {
    CUhandle graph;
    int code = CODE(cuStreamBeginCapture_v2, here, mode);
    if (!code) CODE(cuStreamEndCapture, here, &graph);
    return code;
}

// Ends a capture that another stream has joined and not left.
static int end_unjoined(void) {
    CUhandle graph = NULL;
    DO(cuStreamBeginCapture_v2, here, 2u);
    DO(cuEventRecord, plain, here);
    DO(cuStreamWaitEvent, other, plain, 0u);
    start(nothing, 1, 1, other, NULL);
    return CODE(cuStreamEndCapture, here, &graph);
}

// Ends a capture that a wait for its stream has spoiled.
static int end_spoiled(void) {
    CUhandle graph = NULL;
    DO(cuStreamBeginCapture_v2, here, 2u);
    CODE(cuStreamSynchronize, here);
    return CODE(cuStreamEndCapture, here, &graph);
}

// Wrong calls have numbers. A function of them sets the text of the call, makes it and returns its code; for a number
// that it lacks the text is null, and it returns how many it has. Without a driver only texts can be had.
static int only_texts;

#define WRONG(words, ...)             \
    if (at == number++) {             \
        *text = words;                \
        if (only_texts) return 0;     \
        return __VA_ARGS__;           \
    }

static int wrong_device_call(int at, const char *volatile *text) {
    int number = 0, value;
    size_t bytes;
    static char name[64];
    void *found;
    WRONG("cuInit of flags 1", CODE(cuInit, 1u));
    WRONG("cuDriverGetVersion into null", CODE(cuDriverGetVersion, NULL));
    WRONG("cuDeviceGetCount into null", CODE(cuDeviceGetCount, NULL));
    WRONG("cuDeviceGet into null", CODE(cuDeviceGet, NULL, 0));
    WRONG("cuDeviceGet of -1", CODE(cuDeviceGet, &value, -1));
    WRONG("cuDeviceGet of 9999", CODE(cuDeviceGet, &value, 9999));
    WRONG("cuDeviceGetName into null", CODE(cuDeviceGetName, NULL, 64, 0));
    WRONG("cuDeviceGetName of device 9999", CODE(cuDeviceGetName, name, 64, 9999));
    WRONG("cuDeviceGetAttribute into null", CODE(cuDeviceGetAttribute, NULL, 1, 0));
    WRONG("cuDeviceGetAttribute of attribute 0", CODE(cuDeviceGetAttribute, &value, 0, 0));
    WRONG("cuDeviceGetAttribute of attribute 100000", CODE(cuDeviceGetAttribute, &value, 100000, 0));
    WRONG("cuDeviceGetAttribute of device 9999", CODE(cuDeviceGetAttribute, &value, 1, 9999));
    WRONG("cuDeviceTotalMem_v2 into null", CODE(cuDeviceTotalMem_v2, NULL, 0));
    WRONG("cuDeviceTotalMem_v2 of device 9999", CODE(cuDeviceTotalMem_v2, &bytes, 9999));
    WRONG("cuDeviceGetUuid_v2 into null", CODE(cuDeviceGetUuid_v2, NULL, 0));
    WRONG("cuDevicePrimaryCtxRetain into null", CODE(cuDevicePrimaryCtxRetain, NULL, 0));
    WRONG("cuDevicePrimaryCtxRetain of device 9999", CODE(cuDevicePrimaryCtxRetain, &found, 9999));
    WRONG("cuDeviceGetP2PAttribute of a device with itself", CODE(cuDeviceGetP2PAttribute, &value, 1, 0, 0));
    WRONG("cuCtxGetLimit into null", CODE(cuCtxGetLimit, NULL, 0));
    WRONG("cuCtxGetLimit of limit 1000", CODE(cuCtxGetLimit, &bytes, 1000));
    WRONG("cuCtxSetLimit of limit 1000", CODE(cuCtxSetLimit, 1000, (size_t)1));
    WRONG("cuCtxSetCacheConfig of 99", CODE(cuCtxSetCacheConfig, 99));
    WRONG("cuCtxGetDevice without a context", NOWHERE(cuCtxGetDevice, &value));
    WRONG("cuCtxSynchronize without a context", NOWHERE(cuCtxSynchronize));
    WRONG("cuCtxPopCurrent_v2 without a context", NOWHERE(cuCtxPopCurrent_v2, &found));
    WRONG("cuGetErrorName of 123456", ({ const char *said; CODE(cuGetErrorName, 123456, &said); }));
    WRONG("cuGetProcAddress_v2 of an unknown name",
          CODE(cuGetProcAddress_v2, "cuNoSuchFunction", &found, 12000, (uint64_t)0, NULL));
    *text = NULL;
    return number;
}

static int wrong_memory_call(int at, const char *volatile *text) {
    int number = 0, value;
    size_t bytes;
    CUdeviceptr address;
    void *host;
    WRONG("cuMemAlloc_v2 of 0 bytes", CODE(cuMemAlloc_v2, &address, (size_t)0));
    WRONG("cuMemAlloc_v2 into null", CODE(cuMemAlloc_v2, NULL, (size_t)16));
    WRONG("cuMemAlloc_v2 of 2^60 bytes", CODE(cuMemAlloc_v2, &address, (size_t)1 << 60));
    WRONG("cuMemAlloc_v2 without a context", NOWHERE(cuMemAlloc_v2, &address, (size_t)16));
    WRONG("cuMemAllocPitch_v2 of elements of 3 bytes",
          CODE(cuMemAllocPitch_v2, &address, &bytes, (size_t)64, (size_t)4, 3u));
    WRONG("cuMemAllocPitch_v2 of width 0", CODE(cuMemAllocPitch_v2, &address, &bytes, (size_t)0, (size_t)4, 4u));
    WRONG("cuMemAllocManaged of 0 bytes", CODE(cuMemAllocManaged, &address, (size_t)0, 1u));
    WRONG("cuMemAllocManaged of flags 0", CODE(cuMemAllocManaged, &address, (size_t)16, 0u));
    WRONG("cuMemAllocAsync of 0 bytes", CODE(cuMemAllocAsync, &address, (size_t)0, here));
    WRONG("cuMemAllocAsync into null", CODE(cuMemAllocAsync, NULL, (size_t)16, here));
    WRONG("cuMemHostAlloc of 0 bytes", CODE(cuMemHostAlloc, &host, (size_t)0, 0u));
    WRONG("cuMemHostAlloc into null", CODE(cuMemHostAlloc, NULL, (size_t)16, 0u));
    WRONG("cuMemHostAlloc of flags 0xff00", CODE(cuMemHostAlloc, &host, (size_t)16, 0xff00u));
    WRONG("cuMemFree_v2 of address 0", CODE(cuMemFree_v2, (CUdeviceptr)0));
    WRONG("cuMemFree_v2 of an unknown address", CODE(cuMemFree_v2, UNKNOWN));
    WRONG("cuMemFree_v2 of the middle of an allocation", CODE(cuMemFree_v2, held + 256));
    WRONG("cuMemFree_v2 for the second time", free_twice());
    WRONG("cuMemFreeAsync of an unknown address", CODE(cuMemFreeAsync, UNKNOWN, here));
    WRONG("cuMemFreeHost of memory that is not pinned", CODE(cuMemFreeHost, (void *)paged));
    WRONG("cuMemHostRegister_v2 of null", CODE(cuMemHostRegister_v2, NULL, (size_t)4096, 0u));
    WRONG("cuMemHostRegister_v2 of 0 bytes", CODE(cuMemHostRegister_v2, (void *)paged, (size_t)0, 0u));
    WRONG("cuMemHostRegister_v2 for the second time", register_twice());
    WRONG("cuMemHostUnregister of memory that is not registered", CODE(cuMemHostUnregister, (void *)paged));
    WRONG("cuMemHostGetDevicePointer_v2 of memory that is not pinned",
          CODE(cuMemHostGetDevicePointer_v2, &address, (void *)paged, 0u));
    WRONG("cuMemHostGetFlags of memory that is not pinned", CODE(cuMemHostGetFlags, (unsigned *)&value, (void *)paged));
    WRONG("cuMemcpyHtoD_v2 of 0 bytes", CODE(cuMemcpyHtoD_v2, held, (void *)paged, (size_t)0));
    WRONG("cuMemGetInfo_v2 without a context", NOWHERE(cuMemGetInfo_v2, &bytes, &bytes));
    WRONG("cuMemGetAddressRange_v2 of an unknown address",
          CODE(cuMemGetAddressRange_v2, &address, &bytes, UNKNOWN));
    WRONG("cuPointerGetAttribute of an unknown address", CODE(cuPointerGetAttribute, (void *)&value, 2, UNKNOWN));
    WRONG("cuPointerGetAttribute of attribute 1000", CODE(cuPointerGetAttribute, (void *)&value, 1000, held));
    WRONG("cuMemAddressReserve of 0 bytes",
          CODE(cuMemAddressReserve, &address, (size_t)0, (size_t)0, (CUdeviceptr)0, (unsigned long long)0));
    WRONG("cuMemAddressReserve of 4097 bytes",
          CODE(cuMemAddressReserve, &address, (size_t)4097, (size_t)0, (CUdeviceptr)0, (unsigned long long)0));
    WRONG("cuMemAddressFree of an unknown range", CODE(cuMemAddressFree, (CUdeviceptr)1 << 40, (size_t)2 << 20));
    WRONG("cuMemUnmap of an unknown range", CODE(cuMemUnmap, (CUdeviceptr)1 << 40, (size_t)2 << 20));
    *text = NULL;
    return number;
}

static int wrong_module_call(int at, const char *volatile *text) {
    int number = 0, value;
    void *found;
    static const char spoiled[] =
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f() { add.f99 %a; }\n";
    static const char newer[] = ".version 99.0\n.target sm_80\n.address_size 64\n.visible .entry f() { ret; }\n";
    static const char elsewhere_[] = ".version 7.0\n.target sm_999\n.address_size 64\n.visible .entry f() { ret; }\n";
    WRONG("cuModuleLoadData into null", CODE(cuModuleLoadData, NULL, KERNELS));
    WRONG("cuModuleLoadData of null", CODE(cuModuleLoadData, &found, NULL));
    WRONG("cuModuleLoadData of text that is no PTX", CODE(cuModuleLoadData, &found, "this is no PTX"));
    WRONG("cuModuleLoadData of PTX with an unknown instruction", CODE(cuModuleLoadData, &found, spoiled));
    WRONG("cuModuleLoadData of PTX of version 99.0", CODE(cuModuleLoadData, &found, newer));
    WRONG("cuModuleLoadData of PTX for sm_999", CODE(cuModuleLoadData, &found, elsewhere_));
    WRONG("cuModuleLoadData without a context", NOWHERE(cuModuleLoadData, &found, KERNELS));
    WRONG("cuModuleLoad of no file", CODE(cuModuleLoad, &found, "/nonexistent/file.ptx"));
    WRONG("cuModuleGetFunction of an unknown name", CODE(cuModuleGetFunction, &found, probe_module, "missing"));
    WRONG("cuModuleGetFunction into null", CODE(cuModuleGetFunction, NULL, probe_module, "busy"));
    WRONG("cuModuleGetFunction of no name", CODE(cuModuleGetFunction, &found, probe_module, NULL));
    WRONG("cuModuleGetGlobal_v2 of an unknown name",
          CODE(cuModuleGetGlobal_v2, (CUdeviceptr *)&found, NULL, probe_module, "missing"));
    WRONG("cuModuleUnload of null", CODE(cuModuleUnload, NULL));
    WRONG("cuFuncGetAttribute into null", CODE(cuFuncGetAttribute, NULL, 4, busy));
    WRONG("cuFuncGetAttribute of attribute 1000", CODE(cuFuncGetAttribute, &value, 1000, busy));
    WRONG("cuFuncSetAttribute of registers", CODE(cuFuncSetAttribute, busy, 4, 8));
    WRONG("cuFuncSetAttribute of 10 MiB of shared memory", CODE(cuFuncSetAttribute, busy, 8, 10 << 20));
    WRONG("cuOccupancyMaxActiveBlocksPerMultiprocessor into null",
          CODE(cuOccupancyMaxActiveBlocksPerMultiprocessor, NULL, busy, 256, (size_t)0));
    WRONG("cuOccupancyMaxActiveBlocksPerMultiprocessor of 0 threads",
          CODE(cuOccupancyMaxActiveBlocksPerMultiprocessor, &value, busy, 0, (size_t)0));
    WRONG("cuLaunchKernel of null", CODE(cuLaunchKernel, NULL, 1u, 1u, 1u, 1u, 1u, 1u, 0u, here, NULL, NULL));
    WRONG("cuLaunchKernel of a grid of 0", LAUNCH(0u, 1u, 1u, 1u, 1u, 1u, 0u));
    WRONG("cuLaunchKernel of a grid of height 65536", LAUNCH(1u, 65536u, 1u, 1u, 1u, 1u, 0u));
    WRONG("cuLaunchKernel of a block of 0", LAUNCH(1u, 1u, 1u, 0u, 1u, 1u, 0u));
    WRONG("cuLaunchKernel of a block of 2048", LAUNCH(1u, 1u, 1u, 2048u, 1u, 1u, 0u));
    WRONG("cuLaunchKernel of a block of depth 65", LAUNCH(1u, 1u, 1u, 1u, 1u, 65u, 0u));
    WRONG("cuLaunchKernel with 100 KiB of shared memory that it has not opted in to",
          LAUNCH(1u, 1u, 1u, 1u, 1u, 1u, 100u << 10));
    WRONG("cuLaunchKernel with 1 MiB of shared memory", LAUNCH(1u, 1u, 1u, 1u, 1u, 1u, 1u << 20));
    WRONG("cuLaunchKernel without a context",
          NOWHERE(cuLaunchKernel, nothing, 1u, 1u, 1u, 1u, 1u, 1u, 0u, NULL, NULL, NULL));
    *text = NULL;
    return number;
}

static int wrong_order_call(int at, const char *volatile *text) {
    int number = 0;
    float between;
    void *found;
    WRONG("cuEventCreate into null", CODE(cuEventCreate, NULL, 0u));
    WRONG("cuEventCreate of flags 0x1000", CODE(cuEventCreate, &found, 0x1000u));
    WRONG("cuEventQuery of null", CODE(cuEventQuery, NULL));
    WRONG("cuEventRecord of null", CODE(cuEventRecord, NULL, here));
    WRONG("cuEventQuery before the end", BUSY(cuEventQuery, plain));
    WRONG("cuStreamQuery before the end", BUSY(cuStreamQuery, other));
    WRONG("cuEventElapsedTime of events that are not recorded",
          CODE(cuEventElapsedTime, &between, timed[0], timed[1]));
    WRONG("cuEventElapsedTime of events without timing", CODE(cuEventElapsedTime, &between, plain, plain));
    WRONG("cuStreamCreate into null", CODE(cuStreamCreate, NULL, 0u));
    WRONG("cuStreamCreate of flags 0x100", CODE(cuStreamCreate, &found, 0x100u));
    WRONG("cuStreamCreate without a context", NOWHERE(cuStreamCreate, &found, 0u));
    WRONG("cuStreamWaitEvent of null", CODE(cuStreamWaitEvent, here, NULL, 0u));
    WRONG("cuStreamWaitEvent of flags 0x100", CODE(cuStreamWaitEvent, here, plain, 0x100u));
    WRONG("cuStreamBeginCapture_v2 of mode 9", capture_of_mode(9));
    WRONG("cuStreamBeginCapture_v2 of the legacy stream", CODE(cuStreamBeginCapture_v2, NULL, 2u));
    WRONG("cuStreamEndCapture without a capture", CODE(cuStreamEndCapture, here, &found));
    WRONG("cuStreamBeginCapture_v2 of a stream that is captured", CAPTURED(cuStreamBeginCapture_v2, here, 1u));
    WRONG("cuStreamSynchronize of a stream that is captured", CAPTURED(cuStreamSynchronize, here));
    WRONG("cuStreamQuery of a stream that is captured", CAPTURED(cuStreamQuery, here));
    WRONG("cuStreamEndCapture of a capture that is spoiled", end_spoiled());
    WRONG("cuStreamEndCapture of a capture that another stream has not left", end_unjoined());
    WRONG("cuGraphCreate into null", CODE(cuGraphCreate, NULL, 0u));
    WRONG("cuGraphCreate of flags 1", CODE(cuGraphCreate, &found, 1u));
    *text = NULL;
    return number;
}

#endif
