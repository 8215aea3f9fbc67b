// How `probe` measures a call: alone, beside a long kernel of another stream, and what it costs another thread.
#ifndef WARPLOOM_PROBE_MEASURE_H
#define WARPLOOM_PROBE_MEASURE_H

#include "probe.h"

#define SLOTS 64
#define SAMPLES 512

// A call: what must be there before it, the call, and what takes its traces away. `kind` is theirs to use.
struct call {
    const char *call, *config;
    int batch, kind;
    size_t bytes;
    void (*before)(const struct call *, int slot), (*run)(const struct call *, int slot),
        (*after)(const struct call *, int slot);
};

// The seconds for one of a call's three measurements.
static double patience(void) { return scale < 1 ? 0.002 : 0.012; }

static void whole_batch(const struct call *it, void (*what)(const struct call *, int)) {
    for (int i = 0; what && i < it->batch; i++) what(it, i);
}

// The median seconds of one call on an idle device.
static double alone(const struct call *it) {
    double all[SAMPLES], begun = 0;
    int count = 0;
    for (int round = 0; round < 3 || (now() - begun < patience() && count + it->batch <= SAMPLES); round++) {
        // The first batch is not counted.
        if (round == 1) begun = now(), count = 0;
        whole_batch(it, it->before);
        DO(cuCtxSynchronize);
        for (int i = 0; i < it->batch; i++) {
            double at = now();
            it->run(it, i);
            all[count++] = now() - at;
        }
        DO(cuCtxSynchronize);
        whole_batch(it, it->after);
        if (round >= 2 && now() - begun > 1) break;
    }
    return median_of(all, count);
}

// Whether the call returns only when the long kernel of another stream has ended.
static int waits_for_others(const struct call *it, double call_s) {
    CUhandle over;
    int kernels = (int)ceil(4 * call_s / long_s);
    if (kernels < 1) kernels = 1;
    if (kernels > 100) kernels = 100;
    DO(cuEventCreate, &over, 2u);
    if (it->before) it->before(it, 0);
    DO(cuCtxSynchronize);
    for (int i = 0; i < kernels; i++) start_busy(1, LONG_COUNT, other);
    DO(cuEventRecord, over, other);
    it->run(it, 0);
    int code = CODE(cuEventQuery, over);
    DO(cuCtxSynchronize);
    if (it->after) it->after(it, 0);
    DO(cuEventDestroy_v2, over);
    if (code && code != 600) call_refused("cuEventQuery", code);
    return code == 0;
}

// --- launches of a second thread, while the first one is in the call

static struct beside {
    volatile int open, quit;
    volatile int count, code;
    int runs;
    pthread_t thread;
    double samples[SAMPLES];
} beside;

static void *launches_beside(void *unused) {
    CUhandle stream = NULL;
    int code = CODE(cuCtxSetCurrent, context);
    if (!code) code = CODE(cuStreamCreate, &stream, 1u);
    while (!beside.quit && !code) {
        if (!beside.open || beside.count == SAMPLES) {
            sched_yield();
            continue;
        }
        double at = now();
        code = CODE(cuLaunchKernel, nothing, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, NULL, NULL);
        beside.samples[beside.count] = now() - at;
        beside.count++;
        // The device stays ahead of the launches.
        spin(15e-6);
    }
    if (stream) {
        CODE(cuStreamSynchronize, stream);
        CODE(cuStreamDestroy_v2, stream);
    }
    beside.code = code;
    return unused;
}

static void stop_beside(void) {
    if (!beside.runs) return;
    beside.open = 0;
    beside.quit = 1;
    pthread_join(beside.thread, NULL);
    beside.runs = 0;
}

// The median and the largest latency of launches beside the call; without a call, of launches alone.
static int launches_during(const struct call *it, double *median, double *largest) {
    beside.open = beside.quit = beside.count = beside.code = 0;
    pthread_create(&beside.thread, NULL, launches_beside, NULL);
    beside.runs = 1;
    double begun = now();
    for (int round = 0; (round < 2 || now() - begun < 2 * patience()) && beside.count < SAMPLES; round++) {
        if (it) whole_batch(it, it->before);
        if (it) DO(cuCtxSynchronize);
        beside.open = 1;
        double at = now();
        if (!it) spin(patience());
        // Calls that leave nothing behind are repeated, so that launches fall among them.
        do
            if (it) whole_batch(it, it->run);
        while (it && !it->before && !it->after && now() - at < patience() / 8);
        beside.open = 0;
        if (it) DO(cuCtxSynchronize);
        if (it) whole_batch(it, it->after);
        if (now() - begun > 1) break;
    }
    stop_beside();
    if (beside.code) call_refused("cuLaunchKernel", beside.code);
    if (!beside.count) return 0;
    *median = median_of(beside.samples, beside.count);
    *largest = beside.samples[beside.count - 1];
    return 1;
}

#endif
