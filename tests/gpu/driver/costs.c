// What the driver's calls cost, and what the driver says of itself: for the tests that run without a GPU.
//
//     costs calls [SCALE]    {"call", "config", "ns", "waits", "beside_ns"} a line
//     costs driver           one object: attributes, limits, occupancies, errors
//
// `ns` is the median time of the call on an idle device. `waits` says that the call returned only when a kernel
// on another stream had ended. `beside_ns` is the median time of cuLaunchKernel in another thread of the context
// while the first thread makes the call again and again.
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>

static const char *PTX =
    ".version 7.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 room[];\n"
    ".visible .entry nothing() { ret; }\n"
    ".visible .entry roomy(.param .u64 out) { .reg .u64 %o; .reg .u32 %x; ld.param.u64 %o, [out];\n"
    "  ld.shared.u32 %x, [room]; st.global.u32 [%o], %x; ret; }\n"
    ".visible .entry busy(.param .u64 out, .param .u32 count) {\n"
    "  .reg .u64 %o; .reg .u32 %n, %i; .reg .f32 %x; .reg .pred %p;\n"
    "  ld.param.u64 %o, [out]; ld.param.u32 %n, [count]; mov.u32 %i, 0; mov.f32 %x, 0f3F800000;\n"
    "again: setp.ge.u32 %p, %i, %n; @%p bra done;\n"
    "  fma.rn.f32 %x, %x, 0f3F7FBE77, 0f3F800000; add.u32 %i, %i, 1; bra again;\n"
    "done: st.global.f32 [%o], %x; ret;\n}\n";

static double scale = 1;
static CUhandle context, module, nothing, roomy, busy, stream, other, event, timed_event, graph_exec;
static CUdeviceptr word, there;
static char *pinned, *pageable;
static const size_t MEGABYTE = 1 << 20;

// What the halves of a call hand one another.
static CUdeviceptr made;
static CUhandle made_handle;
static void *made_host;

static void launch(void) { driver_launch(nothing, 1, 1, stream, NULL); }
static void record(void) { CU(cuEventRecord, event, stream); }
static void record_timed(void) { CU(cuEventRecord, timed_event, stream); }
static void event_create(void) { CU(cuEventCreate, &made_handle, 0u); }
static void event_destroy(void) { CU(cuEventDestroy_v2, made_handle); }
static void event_query(void) { (void)TRY(cuEventQuery, event); }
static void stream_create(void) { CU(cuStreamCreate, &made_handle, 1u); }
static void stream_destroy(void) { CU(cuStreamDestroy_v2, made_handle); }
static void stream_sync(void) { CU(cuStreamSynchronize, stream); }
static void stream_wait(void) { CU(cuStreamWaitEvent, stream, event, 0u); }
static void alloc_small(void) { CU(cuMemAlloc_v2, &made, MEGABYTE); }
static void alloc_large(void) { CU(cuMemAlloc_v2, &made, (size_t)(256 * scale + 1) * MEGABYTE); }
static void free_it(void) { CU(cuMemFree_v2, made); }
static void alloc_async(void) { CU(cuMemAllocAsync, &made, MEGABYTE, stream); }
static void free_async(void) { CU(cuMemFreeAsync, made, stream); }
static void host_alloc(void) { CU(cuMemHostAlloc, &made_host, MEGABYTE, 0u); }
static void host_free(void) { CU(cuMemFreeHost, made_host); }
static void in_pageable(void) { CU(cuMemcpyHtoD_v2, there, pageable, (size_t)1 << 16); }
static void in_pinned(void) { CU(cuMemcpyHtoDAsync_v2, there, pinned, MEGABYTE, stream); }
static void out_pageable(void) { CU(cuMemcpyDtoH_v2, pageable, there, (size_t)1 << 16); }
static void out_pinned(void) { CU(cuMemcpyDtoHAsync_v2, pinned, there, MEGABYTE, stream); }
static void set_async(void) { CU(cuMemsetD8Async, there, (unsigned char)1, MEGABYTE, stream); }
static void load(void) {
    static unsigned fresh;
    char text[400];
    snprintf(text, sizeof text,
             ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f() { .reg .u32 %%x; mov.u32 %%x, %u; ret; }\n",
             ++fresh + (unsigned)getpid() * 4096);
    CU(cuModuleLoadData, &made_handle, text);
}
static void unload(void) { CU(cuModuleUnload, made_handle); }
static void get_function(void) {
    CUhandle found;
    CU(cuModuleGetFunction, &found, module, "busy");
}
static void memory_info(void) {
    size_t unused, total;
    CU(cuMemGetInfo_v2, &unused, &total);
}
static void occupancy(void) {
    int blocks;
    CU(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, busy, 256, (size_t)0);
}
static void pointer_type(void) {
    unsigned type;
    CU(cuPointerGetAttribute, &type, 2, there);
}
static void reserve(void) { CU(cuMemAddressReserve, &made, 2 * MEGABYTE, (size_t)0, (CUdeviceptr)0, 0ull); }
static void unreserve(void) { CU(cuMemAddressFree, made, 2 * MEGABYTE); }
static void replay(void) { CU(cuGraphLaunch, graph_exec, stream); }
static void drain(void) { CU(cuCtxSynchronize); }
static void none(void) {}

static const struct call {
    const char *name, *config;
    void (*before)(void), (*timed)(void), (*after)(void);
} CALLS[] = {
    {"cuLaunchKernel", "empty", none, launch, none},
    {"cuEventRecord", "without timing", none, record, none},
    {"cuEventRecord", "with timing", none, record_timed, none},
    {"cuEventCreate", "with timing", none, event_create, event_destroy},
    {"cuEventDestroy_v2", "with timing", event_create, event_destroy, none},
    {"cuEventQuery", "ended", none, event_query, none},
    {"cuStreamCreate", "non-blocking", none, stream_create, stream_destroy},
    {"cuStreamDestroy_v2", "idle", stream_create, stream_destroy, none},
    {"cuStreamSynchronize", "idle", none, stream_sync, none},
    {"cuStreamWaitEvent", "ended", none, stream_wait, none},
    {"cuMemAlloc_v2", "1 MiB", none, alloc_small, free_it},
    {"cuMemFree_v2", "1 MiB", alloc_small, free_it, none},
    {"cuMemAlloc_v2", "256 MiB", none, alloc_large, free_it},
    {"cuMemFree_v2", "256 MiB", alloc_large, free_it, none},
    {"cuMemAllocAsync", "1 MiB", none, alloc_async, free_async},
    {"cuMemFreeAsync", "1 MiB", alloc_async, free_async, none},
    {"cuMemHostAlloc", "1 MiB", none, host_alloc, host_free},
    {"cuMemFreeHost", "1 MiB", host_alloc, host_free, none},
    {"cuMemcpyHtoD_v2", "64 KiB pageable", none, in_pageable, none},
    {"cuMemcpyHtoDAsync_v2", "1 MiB pinned", none, in_pinned, none},
    {"cuMemcpyDtoH_v2", "64 KiB pageable", none, out_pageable, none},
    {"cuMemcpyDtoHAsync_v2", "1 MiB pinned", none, out_pinned, none},
    {"cuMemsetD8Async", "1 MiB", none, set_async, none},
    {"cuModuleLoadData", "PTX, one function, compiled", none, load, unload},
    {"cuModuleUnload", "one function", load, unload, none},
    {"cuModuleGetFunction", "", none, get_function, none},
    {"cuMemGetInfo_v2", "", none, memory_info, none},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", "", none, occupancy, none},
    {"cuPointerGetAttribute", "memory type", none, pointer_type, none},
    {"cuMemAddressReserve", "2 MiB", none, reserve, unreserve},
    {"cuMemAddressFree", "2 MiB", reserve, unreserve, none},
    {"cuGraphLaunch", "100 empty kernels", none, replay, drain},
    {"cuCtxSynchronize", "idle", none, drain, none},
};

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double once(const struct call *call) {
    call->before();
    CU(cuCtxSynchronize);
    double begun = now();
    call->timed();
    double took = now() - begun;
    call->after();
    return took;
}

static double alone(const struct call *call) {
    double all[15];
    for (int i = 0; i < 15; i++) all[i] = once(call);
    CU(cuCtxSynchronize);
    qsort(all, 15, sizeof *all, ascending);
    return all[7];
}

// True if the call ends only when a kernel of another stream has ended.
static int waits(const struct call *call) {
    uint32_t trips = (uint32_t)(6000000 * scale);
    void *arguments[] = {&word, &trips};
    call->before();
    CU(cuCtxSynchronize);
    driver_launch(busy, 1, 1, other, arguments);
    CU(cuEventRecord, timed_event, other);
    call->timed();
    // The kernel has ended: the call has waited for it, or took longer than the kernel.
    int ended = TRY(cuEventQuery, timed_event) == 0;
    CU(cuCtxSynchronize);
    call->after();
    CU(cuCtxSynchronize);
    return ended;
}

struct beside {
    atomic_int over, count;
    double all[4096];
};

static void *launching(void *with) {
    struct beside *it = with;
    CUhandle own;
    CU(cuCtxSetCurrent, context);
    CU(cuStreamCreate, &own, 1u);
    while (!it->over) {
        double begun = now();
        driver_launch(nothing, 1, 1, own, NULL);
        if (it->count < 4096) it->all[it->count++] = now() - begun;
        CU(cuStreamSynchronize, own);
    }
    CU(cuStreamDestroy_v2, own);
    return NULL;
}

static double beside(const struct call *call) {
    struct beside *it = calloc(1, sizeof *it);
    pthread_t thread;
    pthread_create(&thread, NULL, launching, it);
    double until = now() + (scale < 1 ? 0.01 : 0.05);
    while (now() < until || !it->count) {
        call->before();
        call->timed();
        call->after();
    }
    it->over = 1;
    pthread_join(thread, NULL);
    qsort(it->all, it->count, sizeof *it->all, ascending);
    double median = it->all[it->count / 2];
    free(it);
    CU(cuCtxSynchronize);
    return median;
}

static void calls(void) {
    CUhandle graph;
    CU(cuStreamCreate, &stream, 1u);
    CU(cuStreamCreate, &other, 1u);
    CU(cuEventCreate, &event, 2u);
    CU(cuEventCreate, &timed_event, 0u);
    CU(cuMemAlloc_v2, &there, MEGABYTE);
    CU(cuMemHostAlloc, (void **)&pinned, MEGABYTE, 0u);
    pageable = calloc(1, MEGABYTE);
    record();
    CU(cuStreamBeginCapture_v2, stream, 2u);
    for (int i = 0; i < 100; i++) launch();
    CU(cuStreamEndCapture, stream, &graph);
    CU(cuGraphInstantiateWithFlags, &graph_exec, graph, 0ull);
    for (unsigned i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        const struct call *it = &CALLS[i];
        once(it);
        double ns = alone(it) * 1e9;
        int waited = waits(it);
        printf("{\"call\": \"%s\", \"config\": \"%s\", \"ns\": %.0f, \"waits\": %s, \"beside_ns\": %.0f}\n", it->name,
               it->config, ns, waited ? "true" : "false", beside(it) * 1e9);
        fflush(stdout);
    }
}

// --- what the driver says of itself

static const char *code_name(int code) {
    const char *text = NULL;
    return TRY(cuGetErrorName, code, &text) == 0 && text ? text : "?";
}

static void error(const char *what, int code) {
    static int some;
    printf("%s{\"call\": \"%s\", \"code\": %d, \"name\": \"%s\"}", some++ ? ", " : "", what, code, code_name(code));
}

static void errors(void) {
    CUdeviceptr p;
    CUhandle h;
    int n;
    size_t size;
    void *host;
    error("cuMemAlloc_v2 of 0 bytes", TRY(cuMemAlloc_v2, &p, (size_t)0));
    error("cuMemAlloc_v2 of 1 << 60 bytes", TRY(cuMemAlloc_v2, &p, (size_t)1 << 60));
    error("cuMemFree_v2 of address 16", TRY(cuMemFree_v2, (CUdeviceptr)16));
    error("cuMemFree_v2 of address 0", TRY(cuMemFree_v2, (CUdeviceptr)0));
    error("cuMemHostAlloc of 0 bytes", TRY(cuMemHostAlloc, &host, (size_t)0, 0u));
    error("cuMemHostAlloc with flags 0x100", TRY(cuMemHostAlloc, &host, (size_t)4096, 0x100u));
    error("cuDeviceGet of device 999", TRY(cuDeviceGet, &n, 999));
    error("cuDeviceGet of device -1", TRY(cuDeviceGet, &n, -1));
    error("cuDeviceGetAttribute 0", TRY(cuDeviceGetAttribute, &n, 0, 0));
    error("cuDeviceGetAttribute 99999", TRY(cuDeviceGetAttribute, &n, 99999, 0));
    error("cuInit with flags 1", TRY(cuInit, 1u));
    error("cuModuleLoadData of text that is no PTX", TRY(cuModuleLoadData, &h, "this is no PTX"));
    error("cuModuleGetFunction of a name that is not there", TRY(cuModuleGetFunction, &h, module, "nowhere"));
    error("cuModuleGetGlobal_v2 of a name that is not there", TRY(cuModuleGetGlobal_v2, &p, &size, module, "nowhere"));
    error("cuLaunchKernel with a grid of 0", TRY(cuLaunchKernel, nothing, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    error("cuLaunchKernel with 1025 threads", TRY(cuLaunchKernel, nothing, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL));
    error("cuLaunchKernel with a block of 65 in z", TRY(cuLaunchKernel, nothing, 1, 1, 1, 1, 1, 65, 0, NULL, NULL, NULL));
    error("cuLaunchKernel with a grid of 65536 in y", TRY(cuLaunchKernel, nothing, 1, 65536, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    error("cuLaunchKernel with 1 MiB of shared memory", TRY(cuLaunchKernel, nothing, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, NULL, NULL));
    error("cuStreamCreate with flags 2", TRY(cuStreamCreate, &h, 2u));
    error("cuEventCreate with flags 0x80", TRY(cuEventCreate, &h, 0x80u));
    error("cuCtxSetLimit of limit 99", TRY(cuCtxSetLimit, 99, (size_t)1));
    error("cuFuncSetAttribute of shared memory above the device's",
          TRY(cuFuncSetAttribute, roomy, 8, 1 << 20));
    error("cuMemcpyHtoD_v2 of 0 bytes", TRY(cuMemcpyHtoD_v2, word, &n, (size_t)0));
    error("cuMemcpyHtoD_v2 to address 16", TRY(cuMemcpyHtoD_v2, (CUdeviceptr)16, &n, (size_t)4));
    error("cuMemsetD8_v2 at address 16", TRY(cuMemsetD8_v2, (CUdeviceptr)16, (unsigned char)0, (size_t)4));
    error("cuMemHostUnregister of memory that is not registered", TRY(cuMemHostUnregister, (void *)&n));
    error("cuStreamEndCapture without a capture", TRY(cuStreamEndCapture, (CUhandle)NULL, &h));
    error("cuMemAddressReserve of 1 byte", TRY(cuMemAddressReserve, &p, (size_t)1, (size_t)0, (CUdeviceptr)0, 0ull));
    error("cuOccupancyMaxActiveBlocksPerMultiprocessor of 0 threads",
          TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, &n, nothing, 0, (size_t)0));
}

static void driver(void) {
    int value, version, some = 0;
    char name[128] = "";
    size_t total = 0, limit;
    CU(cuDriverGetVersion, &version);
    CU(cuDeviceGetName, name, (int)sizeof name, 0);
    CU(cuDeviceTotalMem_v2, &total, 0);
    printf("{\"name\": \"%s\", \"driver_version\": %d, \"total_memory\": %zu, \"attributes\": {", name, version, total);
    for (int i = 1; i <= 160; i++)
        if (TRY(cuDeviceGetAttribute, &value, i, 0) == 0) printf("%s\"%d\": %d", some++ ? ", " : "", i, value);
    printf("}, \"limits\": {");
    some = 0;
    for (int i = 0; i <= 6; i++)
        if (TRY(cuCtxGetLimit, &limit, i) == 0) printf("%s\"%d\": %zu", some++ ? ", " : "", i, limit);
    printf("}, \"occupancies\": {");
    some = 0;
    static const int BLOCKS[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
    static const int SHARED[] = {0, 1024, 8192, 16384, 32768, 49152, 65536, 102400, 163840, 232448};
    CU(cuDeviceGetAttribute, &value, 97, 0);
    (void)TRY(cuFuncSetAttribute, roomy, 8, value);
    for (unsigned b = 0; b < 10; b++)
        for (unsigned s = 0; s < 10; s++) {
            int blocks = 0, code = TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, roomy, BLOCKS[b],
                                       (size_t)SHARED[s]);
            printf("%s\"%d threads, %d bytes\": %d", some++ ? ", " : "", BLOCKS[b], SHARED[s], code ? -code : blocks);
        }
    printf("}, \"errors\": [");
    errors();
    printf("]}\n");
}

int main(int count, char **words) {
    if (count < 2) return 2;
    if (count > 2) scale = atof(words[2]);
    context = driver_open();
    CU(cuModuleLoadData, &module, PTX);
    CU(cuModuleGetFunction, &nothing, module, "nothing");
    CU(cuModuleGetFunction, &roomy, module, "roomy");
    CU(cuModuleGetFunction, &busy, module, "busy");
    CU(cuMemAlloc_v2, &word, (size_t)256);
    if (!strcmp(words[1], "calls"))
        calls();
    else if (!strcmp(words[1], "driver"))
        driver();
    else
        return 2;
    return 0;
}
