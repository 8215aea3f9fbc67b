// The calls that `probe` measures.
#ifndef WARPLOOM_PROBE_CALLS_H
#define WARPLOOM_PROBE_CALLS_H

#include "probe_measure.h"

static CUdeviceptr addresses[SLOTS], scratch, second_scratch;
static CUhandle objects[SLOTS];
static char *hosts[SLOTS], *pageable, *pinned;
static CUhandle an_event, elsewhere, hundred, hundred_exec;
static volatile int host_functions;

#define CALL(name) static void name(const struct call *it, int slot)
#define UNUSED (void)it, (void)slot

// --- launches, events, streams

// "Not ready" is an answer.
static void query(const char *name, int code) {
    if (code && code != 600) call_refused(name, code);
}

CALL(launch) { UNUSED; start(nothing, 1, 1, here, NULL); }
CALL(event_create) { DO(cuEventCreate, &objects[slot], it->kind ? 0u : 2u); }
CALL(event_destroy) { UNUSED; DO(cuEventDestroy_v2, objects[slot]); }
CALL(event_record) { UNUSED; DO(cuEventRecord, objects[slot], here); }
CALL(event_query) { UNUSED; query("cuEventQuery", CODE(cuEventQuery, an_event)); }
CALL(stream_create) { UNUSED; DO(cuStreamCreate, &objects[slot], 1u); }
CALL(stream_destroy) { UNUSED; DO(cuStreamDestroy_v2, objects[slot]); }
CALL(stream_synchronize) { UNUSED; DO(cuStreamSynchronize, here); }
CALL(stream_query) { UNUSED; query("cuStreamQuery", CODE(cuStreamQuery, here)); }
CALL(stream_wait) { UNUSED; DO(cuStreamWaitEvent, here, elsewhere, 0u); }
CALL(write_value) { UNUSED; DO(cuStreamWriteValue32_v2, here, it->kind ? (CUdeviceptr)pinned : word, 7u, 0u); }
CALL(context_synchronize) { UNUSED; DO(cuCtxSynchronize); }
CALL(context_set) { UNUSED; DO(cuCtxSetCurrent, context); }

static void count_host_function(void *unused) { (void)unused, host_functions++; }
CALL(host_function) { UNUSED; DO(cuLaunchHostFunc, here, count_host_function, NULL); }

// --- memory

CALL(memory_alloc) { DO(cuMemAlloc_v2, &addresses[slot], it->bytes); }
CALL(memory_free) { UNUSED; DO(cuMemFree_v2, addresses[slot]); }
CALL(pool_alloc) { DO(cuMemAllocAsync, &addresses[slot], it->bytes, here); }
CALL(pool_free) { UNUSED; DO(cuMemFreeAsync, addresses[slot], here); }
CALL(host_alloc) { DO(cuMemHostAlloc, (void **)&hosts[slot], it->bytes, 0u); }
CALL(host_free) { UNUSED; DO(cuMemFreeHost, (void *)hosts[slot]); }
CALL(host_pages) { hosts[slot] = pages(it->bytes); }
CALL(host_unmap) { munmap(hosts[slot], it->bytes); }
CALL(host_register) { DO(cuMemHostRegister_v2, (void *)hosts[slot], it->bytes, 0u); }
CALL(host_unregister) { UNUSED; DO(cuMemHostUnregister, (void *)hosts[slot]); }
CALL(host_pages_registered) { host_pages(it, slot), host_register(it, slot); }
CALL(host_unregister_unmap) { host_unregister(it, slot), host_unmap(it, slot); }
CALL(memory_info) {
    UNUSED;
    size_t left, all;
    DO(cuMemGetInfo_v2, &left, &all);
}
CALL(pointer_attribute) {
    UNUSED;
    unsigned type;
    DO(cuPointerGetAttribute, (void *)&type, 2, scratch);
}

// Mapping by hand: create, map, access, unmap, release; `kind` is the step that is measured.
static CUdeviceptr range;
static const struct {
    int type, handles, location, device;
    void *unused;
    uint64_t flags;
} OF_DEVICE = {1, 0, 1, 0, NULL, 0};
static const struct {
    int location, device, flags;
} READ_WRITE = {1, 0, 3};

static void mapping_step(int step, int slot) {
    CUdeviceptr at = range + slot * 2 * MIB;
    if (step == 1) DO(cuMemCreate, &addresses[slot], 2 * MIB, &OF_DEVICE, (unsigned long long)0);
    if (step == 2) DO(cuMemMap, at, 2 * MIB, (size_t)0, addresses[slot], (unsigned long long)0);
    if (step == 3) DO(cuMemSetAccess, at, 2 * MIB, &READ_WRITE, (size_t)1);
    if (step == 4) DO(cuMemUnmap, at, 2 * MIB);
    if (step == 5) DO(cuMemRelease, addresses[slot]);
}

CALL(mapping_before) {
    if (!range) DO(cuMemAddressReserve, &range, SLOTS * 2 * MIB, (size_t)0, (CUdeviceptr)0, (unsigned long long)0);
    // What is released was not mapped.
    for (int step = 1; step < it->kind && !(it->kind == 5 && step > 1); step++) mapping_step(step, slot);
}
CALL(mapping_run) { mapping_step(it->kind, slot); }
CALL(mapping_after) {
    if (it->kind == 2 || it->kind == 3) mapping_step(4, slot);
    if (it->kind < 5) mapping_step(5, slot);
}
CALL(range_reserve) {
    DO(cuMemAddressReserve, &addresses[slot], it->bytes, (size_t)0, (CUdeviceptr)0, (unsigned long long)0);
}
CALL(range_free) { DO(cuMemAddressFree, addresses[slot], it->bytes); }

// --- copies

CALL(copy_in) { UNUSED; DO(cuMemcpyHtoD_v2, scratch, (void *)pageable, it->bytes); }
CALL(copy_out) { UNUSED; DO(cuMemcpyDtoH_v2, (void *)pageable, scratch, it->bytes); }
CALL(copy_in_async) { UNUSED; DO(cuMemcpyHtoDAsync_v2, scratch, (void *)pinned, it->bytes, here); }
CALL(copy_out_async) { UNUSED; DO(cuMemcpyDtoHAsync_v2, (void *)pinned, scratch, it->bytes, here); }
CALL(copy_device) { UNUSED; DO(cuMemcpyDtoDAsync_v2, second_scratch, scratch, it->bytes, here); }
CALL(fill_device) { UNUSED; DO(cuMemsetD8Async, scratch, (unsigned char)3, it->bytes, here); }

// --- modules and graphs

CALL(module_text) { UNUSED; hosts[slot] = fresh_ptx(1); }
CALL(module_load) { UNUSED; objects[slot] = loaded(hosts[slot]); }
CALL(module_unload) { UNUSED; DO(cuModuleUnload, objects[slot]); }
CALL(module_text_load) { module_text(it, slot), module_load(it, slot); }
CALL(module_drop_text) { UNUSED; free(hosts[slot]); }
CALL(module_drop) { module_unload(it, slot), module_drop_text(it, slot); }
CALL(module_function) { UNUSED; function_of(probe_module, "busy"); }
CALL(function_attribute) {
    UNUSED;
    int value;
    DO(cuFuncGetAttribute, &value, 4, busy);
}
CALL(occupancy) {
    UNUSED;
    int blocks;
    DO(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, busy, 256, (size_t)0);
}

static void capture_hundred(void) {
    if (hundred) return;
    DO(cuStreamBeginCapture_v2, here, 2u);
    for (int i = 0; i < 100; i++) start(nothing, 1, 1, here, NULL);
    DO(cuStreamEndCapture, here, &hundred);
}
CALL(graph_before) { UNUSED; capture_hundred(); }
CALL(graph_instantiate) {
    UNUSED;
    capture_hundred();
    DO(cuGraphInstantiateWithFlags, &objects[slot], hundred, (unsigned long long)0);
}
CALL(graph_destroy) { UNUSED; DO(cuGraphExecDestroy, objects[slot]); }
CALL(graph_launch) {
    if (!hundred_exec) {
        graph_instantiate(it, slot);
        hundred_exec = objects[slot];
    }
    DO(cuGraphLaunch, hundred_exec, here);
}

static const struct call CALLS[] = {
    {"cuLaunchKernel", "empty", 64, 0, 0, NULL, launch, NULL},
    {"cuEventCreate", "timing", 64, 1, 0, NULL, event_create, event_destroy},
    {"cuEventCreate", "no timing", 64, 0, 0, NULL, event_create, event_destroy},
    {"cuEventRecord", "timing", 64, 1, 0, event_create, event_record, event_destroy},
    {"cuEventRecord", "no timing", 64, 0, 0, event_create, event_record, event_destroy},
    {"cuEventDestroy_v2", "timing", 64, 1, 0, event_create, event_destroy, NULL},
    {"cuEventQuery", "over", 64, 0, 0, NULL, event_query, NULL},
    {"cuStreamCreate", "non-blocking", 8, 0, 0, NULL, stream_create, stream_destroy},
    {"cuStreamDestroy_v2", "idle", 8, 0, 0, stream_create, stream_destroy, NULL},
    {"cuStreamSynchronize", "idle", 64, 0, 0, NULL, stream_synchronize, NULL},
    {"cuStreamQuery", "idle", 64, 0, 0, NULL, stream_query, NULL},
    {"cuStreamWaitEvent", "event of another stream", 64, 0, 0, NULL, stream_wait, NULL},
    {"cuStreamWriteValue32_v2", "device memory", 64, 0, 0, NULL, write_value, NULL},
    {"cuStreamWriteValue32_v2", "pinned memory", 64, 1, 0, NULL, write_value, NULL},
    {"cuMemAlloc_v2", "64 KiB", 32, 0, 64 * KIB, NULL, memory_alloc, memory_free},
    {"cuMemAlloc_v2", "1 MiB", 32, 0, MIB, NULL, memory_alloc, memory_free},
    {"cuMemAlloc_v2", "256 MiB", 4, 0, 256 * MIB, NULL, memory_alloc, memory_free},
    {"cuMemFree_v2", "64 KiB", 32, 0, 64 * KIB, memory_alloc, memory_free, NULL},
    {"cuMemFree_v2", "1 MiB", 32, 0, MIB, memory_alloc, memory_free, NULL},
    {"cuMemFree_v2", "256 MiB", 4, 0, 256 * MIB, memory_alloc, memory_free, NULL},
    {"cuMemAllocAsync", "1 MiB", 32, 0, MIB, NULL, pool_alloc, pool_free},
    {"cuMemFreeAsync", "1 MiB", 32, 0, MIB, pool_alloc, pool_free, NULL},
    {"cuMemHostAlloc", "1 MiB", 8, 0, MIB, NULL, host_alloc, host_free},
    {"cuMemHostAlloc", "64 MiB", 2, 0, 64 * MIB, NULL, host_alloc, host_free},
    {"cuMemFreeHost", "1 MiB", 8, 0, MIB, host_alloc, host_free, NULL},
    {"cuMemFreeHost", "64 MiB", 2, 0, 64 * MIB, host_alloc, host_free, NULL},
    {"cuMemHostRegister_v2", "1 MiB", 8, 0, MIB, host_pages, host_register, host_unregister_unmap},
    {"cuMemHostRegister_v2", "64 MiB", 2, 0, 64 * MIB, host_pages, host_register, host_unregister_unmap},
    {"cuMemHostUnregister", "1 MiB", 8, 0, MIB, host_pages_registered, host_unregister, host_unmap},
    {"cuMemHostUnregister", "64 MiB", 2, 0, 64 * MIB, host_pages_registered, host_unregister, host_unmap},
    {"cuMemAddressReserve", "256 MiB", 4, 0, 256 * MIB, NULL, range_reserve, range_free},
    {"cuMemAddressFree", "256 MiB", 4, 0, 256 * MIB, range_reserve, range_free, NULL},
    {"cuMemCreate", "2 MiB", 32, 1, 0, mapping_before, mapping_run, mapping_after},
    {"cuMemMap", "2 MiB", 32, 2, 0, mapping_before, mapping_run, mapping_after},
    {"cuMemSetAccess", "2 MiB", 32, 3, 0, mapping_before, mapping_run, mapping_after},
    {"cuMemUnmap", "2 MiB", 32, 4, 0, mapping_before, mapping_run, mapping_after},
    {"cuMemRelease", "2 MiB", 32, 5, 0, mapping_before, mapping_run, mapping_after},
    {"cuMemcpyHtoD_v2", "pageable, 64 KiB", 16, 0, 64 * KIB, NULL, copy_in, NULL},
    {"cuMemcpyHtoD_v2", "pageable, 16 MiB", 2, 0, 16 * MIB, NULL, copy_in, NULL},
    {"cuMemcpyHtoDAsync_v2", "pinned, 64 KiB", 16, 0, 64 * KIB, NULL, copy_in_async, NULL},
    {"cuMemcpyHtoDAsync_v2", "pinned, 16 MiB", 4, 0, 16 * MIB, NULL, copy_in_async, NULL},
    {"cuMemcpyDtoH_v2", "pageable, 64 KiB", 16, 0, 64 * KIB, NULL, copy_out, NULL},
    {"cuMemcpyDtoH_v2", "pageable, 16 MiB", 2, 0, 16 * MIB, NULL, copy_out, NULL},
    {"cuMemcpyDtoHAsync_v2", "pinned, 64 KiB", 16, 0, 64 * KIB, NULL, copy_out_async, NULL},
    {"cuMemcpyDtoHAsync_v2", "pinned, 16 MiB", 4, 0, 16 * MIB, NULL, copy_out_async, NULL},
    {"cuMemcpyDtoDAsync_v2", "16 MiB", 16, 0, 16 * MIB, NULL, copy_device, NULL},
    {"cuMemsetD8Async", "1 MiB", 64, 0, MIB, NULL, fill_device, NULL},
    {"cuModuleLoadData", "PTX, 1 function", 2, 0, 0, module_text, module_load, module_drop},
    {"cuModuleUnload", "PTX, 1 function", 2, 0, 0, module_text_load, module_unload, module_drop_text},
    {"cuModuleGetFunction", "", 64, 0, 0, NULL, module_function, NULL},
    {"cuFuncGetAttribute", "registers", 64, 0, 0, NULL, function_attribute, NULL},
    {"cuMemGetInfo_v2", "", 16, 0, 0, NULL, memory_info, NULL},
    {"cuCtxSynchronize", "idle", 64, 0, 0, NULL, context_synchronize, NULL},
    {"cuCtxSetCurrent", "", 64, 0, 0, NULL, context_set, NULL},
    {"cuGraphInstantiateWithFlags", "100 nodes", 4, 0, 0, graph_before, graph_instantiate, graph_destroy},
    {"cuGraphLaunch", "100 nodes", 4, 0, 0, NULL, graph_launch, NULL},
    {"cuGraphExecDestroy", "100 nodes", 4, 0, 0, graph_instantiate, graph_destroy, NULL},
    {"cuLaunchHostFunc", "", 16, 0, 0, NULL, host_function, NULL},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", "", 64, 0, 0, NULL, occupancy, NULL},
    {"cuPointerGetAttribute", "memory type", 64, 0, 0, NULL, pointer_attribute, NULL},
};
#define CALL_COUNT ((int)(sizeof CALLS / sizeof CALLS[0]))

// Makes what several calls use.
static void prepare_calls(void) {
    if (ATTEMPT()) {
        fprintf(stderr, "probe: %s\n", reason);
        exit(1);
    }
    DO(cuMemAlloc_v2, &scratch, 16 * MIB);
    DO(cuMemAlloc_v2, &second_scratch, 16 * MIB);
    DO(cuMemHostAlloc, (void **)&pinned, 16 * MIB, 0u);
    pageable = pages(16 * MIB);
    DO(cuEventCreate, &an_event, 0u);
    DO(cuEventRecord, an_event, here);
    DO(cuEventCreate, &elsewhere, 2u);
    DO(cuEventRecord, elsewhere, other);
    DO(cuCtxSynchronize);
}

static void call_failed(int at, const char *why) {
    printf("{\"call\": \"%s\", \"config\": \"%s\", \"ns\": null, \"waits\": null, \"beside_ns\": null, "
           "\"beside_max_ns\": null, \"reason\": \"%s\"}\n",
           CALLS[at].call, CALLS[at].config, why);
    fflush(stdout);
}

static void measure_call(int at) {
    const struct call *it = &CALLS[at];
    double call_s = alone(it), median, largest;
    int waits = waits_for_others(it, call_s);
    printf("{\"call\": \"%s\", \"config\": \"%s\", \"ns\": %.0f, \"waits\": %s, ", it->call, it->config, call_s * 1e9,
           waits ? "true" : "false");
    // From here on the line must be ended.
    volatile int printed = 0;
    if (!ATTEMPT() && launches_during(it, &median, &largest)) {
        printf("\"beside_ns\": %.0f, \"beside_max_ns\": %.0f}\n", median * 1e9, largest * 1e9);
        printed = 1;
    }
    stop_beside();
    if (!printed) printf("\"beside_ns\": null, \"beside_max_ns\": null}\n");
    fflush(stdout);
}

#endif
