// Sections of `micro` that measure calls: waits, launches, kernels, events, allocations, modules, graphs.
#ifndef WARPLOOM_MICRO_CALLS_H
#define WARPLOOM_MICRO_CALLS_H

#include "micro.h"

// --- waits

static double one_wait(const struct figure *it) {
    int rounds = counted(200, 4), back;
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        if (it->a < 2) start_nothing(NULL);
        if (it->a == 0) DO(cuCtxSynchronize);
        if (it->a == 1) DO(cuStreamSynchronize, (CUhandle)NULL);
        if (it->a == 2) DO(cuMemcpyDtoH_v2, &back, word, (size_t)4);
    }
    return (now() - begun) / rounds * 1e6;
}

// --- launches

static pthread_barrier_t gate;
static int launcher_count, launcher_code;

// One thread of several. It does not give up by itself: the first failure is told to all.
static void *launcher(void *unused) {
    CUhandle stream = NULL;
    int code = CODE(cuCtxSetCurrent, context);
    if (!code) code = CODE(cuStreamCreate, &stream, 1u);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < launcher_count && !code; i++)
        code = CODE(cuLaunchKernel, nothing, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, NULL, NULL);
    if (!code) code = CODE(cuStreamSynchronize, stream);
    pthread_barrier_wait(&gate);
    if (code) launcher_code = code;
    CODE(cuStreamDestroy_v2, stream);
    return unused;
}

static double launch_rate(const struct figure *it) {
    pthread_t all[8];
    launcher_count = counted(10000, 160) / (int)it->a;
    launcher_code = 0;
    pthread_barrier_init(&gate, NULL, it->a + 1);
    for (int i = 0; i < it->a; i++) pthread_create(&all[i], NULL, launcher, NULL);
    pthread_barrier_wait(&gate);
    double begun = now();
    pthread_barrier_wait(&gate);
    double took = now() - begun;
    for (int i = 0; i < it->a; i++) pthread_join(all[i], NULL);
    pthread_barrier_destroy(&gate);
    if (launcher_code) call_refused("cuLaunchKernel", launcher_code);
    return it->a * launcher_count / took;
}

// The call alone: fewer launches than the driver's queue holds.
static double launch_call(const struct figure *it) {
    int rounds = counted((int)it->a, 20);
    double begun = now();
    for (int i = 0; i < rounds; i++) start_nothing(NULL);
    double took = now() - begun;
    DO(cuCtxSynchronize);
    return took / rounds * 1e9;
}

// --- kernels in a row: a kernels of b multiply-adds

static double kernels_in_row(const struct figure *it) {
    int count = counted((int)it->a, 4);
    double begun = now();
    for (int i = 0; i < count; i++) start_busy((int)it->b, NULL);
    DO(cuCtxSynchronize);
    return (now() - begun) * 1e3;
}

// --- events

static CUhandle events[2];

static void make_events(const struct figure *it) {
    (void)it;
    for (int i = 0; i < 2; i++)
        if (!events[i]) DO(cuEventCreate, &events[i], 0u);
}

static double event_record(const struct figure *it) {
    (void)it;
    int rounds = counted(500, 20);
    double begun = now();
    for (int i = 0; i < rounds; i++) DO(cuEventRecord, events[0], (CUhandle)NULL);
    double took = now() - begun;
    DO(cuCtxSynchronize);
    return took / rounds * 1e9;
}

static double event_elapsed(const struct figure *it) {
    (void)it;
    int rounds = counted(100, 4);
    float between;
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        DO(cuEventRecord, events[0], (CUhandle)NULL);
        start_nothing(NULL);
        DO(cuEventRecord, events[1], (CUhandle)NULL);
        DO(cuEventSynchronize, events[1]);
        DO(cuEventElapsedTime, &between, events[0], events[1]);
    }
    return (now() - begun) / rounds * 1e6;
}

// The time from a kernel's launch until a loop of queries sees its end.
static double event_query(const struct figure *it) {
    (void)it;
    int rounds = counted(100, 4), code;
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        start_nothing(NULL);
        DO(cuEventRecord, events[0], (CUhandle)NULL);
        while ((code = CODE(cuEventQuery, events[0])) == 600) {
        }
        if (code) call_refused("cuEventQuery", code);
    }
    return (now() - begun) / rounds * 1e6;
}

// --- allocations of 1 MiB

static double allocation(const struct figure *it) {
    int rounds = counted(40, 3);
    CUdeviceptr device;
    void *host;
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        if (it->a == 0) {
            DO(cuMemAlloc_v2, &device, (size_t)1 << 20);
            DO(cuMemFree_v2, device);
        } else if (it->a == 1) {
            DO(cuMemAllocAsync, &device, (size_t)1 << 20, (CUhandle)NULL);
            DO(cuMemFreeAsync, device, (CUhandle)NULL);
        } else {
            DO(cuMemHostAlloc, &host, (size_t)1 << 20, 0u);
            DO(cuMemFreeHost, host);
        }
    }
    DO(cuCtxSynchronize);
    return (now() - begun) / rounds * 1e6;
}

// --- modules: PTX of a functions, with constants that no cache has seen; load, first launch, wait

static double module_load(const struct figure *it) {
    char *text = fresh_ptx(counted((int)it->a, it->a > 1 ? 6 : 1));
    void *arguments[] = {&word};
    double begun = now();
    CUhandle module = loaded(text);
    start(function_of(module, "f0"), 1, 1, NULL, arguments);
    DO(cuCtxSynchronize);
    double took = now() - begun;
    DO(cuModuleUnload, module);
    free(text);
    return took * 1e3;
}

// --- graphs of a empty kernels

static CUhandle replayed, replay_stream;

static void capture(const struct figure *it) {
    CUhandle graph;
    replay_stream = new_stream();
    DO(cuStreamBeginCapture_v2, replay_stream, 2u);
    for (int i = 0; i < it->a; i++) start_nothing(replay_stream);
    DO(cuStreamEndCapture, replay_stream, &graph);
    DO(cuGraphInstantiateWithFlags, &replayed, graph, (unsigned long long)0);
    DO(cuGraphDestroy, graph);
    DO(cuGraphLaunch, replayed, replay_stream);
    DO(cuStreamSynchronize, replay_stream);
}

static double replay(const struct figure *it) {
    (void)it;
    int rounds = counted(20, 2);
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        DO(cuGraphLaunch, replayed, replay_stream);
        DO(cuStreamSynchronize, replay_stream);
    }
    return (now() - begun) / rounds * 1e6;
}

static void drop_graph(const struct figure *it) {
    (void)it;
    DO(cuGraphExecDestroy, replayed);
    DO(cuStreamDestroy_v2, replay_stream);
}

#endif
