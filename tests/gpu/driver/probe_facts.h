// Facts that `probe` tells beside the costs of calls: gaps between kernels, rates, memory, other processes.
#ifndef WARPLOOM_PROBE_FACTS_H
#define WARPLOOM_PROBE_FACTS_H

#include "probe_measure.h"
#include "probe_processes.h"

#include <linux/futex.h>
#include <sys/syscall.h>

struct fact {
    const char *fact, *unit;
    double (*measure)(const struct fact *);
    int a;
};

// --- gaps between kernels: what stands between them

enum { NOTHING, EVENT, TIMING_EVENT, NEW_TIMING_EVENT, WORD_WRITTEN };

#define ROW 400
#define ROW_COUNT 3600

// Seconds of one kernel and what stands behind it, in a row.
static double row_time(int between, int count) {
    int kernels = counted(ROW, 10);
    CUhandle event = NULL, made[ROW];
    double best = 1e9;
    if (between == EVENT || between == TIMING_EVENT) DO(cuEventCreate, &event, between == EVENT ? 2u : 0u);
    for (int round = 0; round < 4; round++) {
        double begun = now();
        for (int i = 0; i < kernels; i++) {
            start_busy(scale < 1 ? 4 : 132, count, here);
            if (event) DO(cuEventRecord, event, here);
            if (between == NEW_TIMING_EVENT) DO(cuEventCreate, &made[i], 0u);
            if (between == NEW_TIMING_EVENT) DO(cuEventRecord, made[i], here);
            if (between == WORD_WRITTEN) DO(cuStreamWriteValue32_v2, here, word, 1u, 0u);
        }
        DO(cuStreamSynchronize, here);
        double took = (now() - begun) / kernels;
        if (round && took < best) best = took;
        for (int i = 0; between == NEW_TIMING_EVENT && i < kernels; i++) DO(cuEventDestroy_v2, made[i]);
    }
    if (event) DO(cuEventDestroy_v2, event);
    return best;
}

// A kernel of twice the length has the same gap: what is left of two short ones is the gap.
static double gap(const struct fact *it) {
    double alone_s = row_time(NOTHING, ROW_COUNT), bare = 2 * alone_s - row_time(NOTHING, 2 * ROW_COUNT);
    return (bare + (it->a == NOTHING ? 0 : row_time(it->a, ROW_COUNT) - alone_s)) * 1e6;
}

static double kernel_in_row(const struct fact *it) { return row_time(NOTHING, it->a) * 1e6; }

// --- launches of several threads of the context

static pthread_barrier_t gate;
static int launcher_count, launcher_code;

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

static double launch_rate(const struct fact *it) {
    pthread_t all[8];
    double rates[3];
    launcher_count = counted(20000, 160) / it->a;
    launcher_code = 0;
    pthread_barrier_init(&gate, NULL, it->a + 1);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < it->a; i++) pthread_create(&all[i], NULL, launcher, NULL);
        pthread_barrier_wait(&gate);
        double begun = now();
        pthread_barrier_wait(&gate);
        rates[round] = it->a * launcher_count / (now() - begun);
        for (int i = 0; i < it->a; i++) pthread_join(all[i], NULL);
    }
    pthread_barrier_destroy(&gate);
    if (launcher_code) call_refused("cuLaunchKernel", launcher_code);
    return median_of(rates, 3);
}

static double launch_beside_nothing(const struct fact *it) {
    double median, largest;
    int found = launches_during(NULL, &median, &largest);
    if (!found) give_up("no launch was measured");
    return (it->a ? largest : median) * 1e9;
}

// A launch, a word written behind it into pinned memory, and a loop that reads it.
static double word_wait(const struct fact *it) {
    volatile uint32_t *flag;
    int rounds = counted(200, 5);
    (void)it;
    DO(cuMemHostAlloc, (void **)&flag, (size_t)4096, 0u);
    double begun = 0;
    for (uint32_t i = 0; i < (uint32_t)rounds + 1; i++) {
        if (i == 1) begun = now();
        start(nothing, 1, 1, here, NULL);
        DO(cuStreamWriteValue32_v2, here, (CUdeviceptr)flag, i + 1, 0u);
        for (double until = now() + 1; *flag != i + 1;)
            if (now() > until) give_up("the host does not see the word while the stream goes on");
    }
    double took = now() - begun;
    DO(cuCtxSynchronize);
    DO(cuMemFreeHost, (void *)flag);
    return took / rounds * 1e6;
}

// --- copies of pinned memory: 1 to the device, 2 to the host, 3 both at once

static double pinned_rate(const struct fact *it) {
    size_t bytes = scale < 1 ? MIB : 256 * MIB;
    char *memory[2];
    CUdeviceptr device[2];
    double best = 0;
    for (int i = 0; i < 2; i++) {
        DO(cuMemHostAlloc, (void **)&memory[i], bytes, 0u);
        DO(cuMemAlloc_v2, &device[i], bytes);
    }
    for (int round = 0; round < 4; round++) {
        double begun = now();
        if (it->a & 1) DO(cuMemcpyHtoDAsync_v2, device[0], (void *)memory[0], bytes, here);
        if (it->a & 2) DO(cuMemcpyDtoHAsync_v2, (void *)memory[1], device[1], bytes, other);
        DO(cuCtxSynchronize);
        double rate = bytes * (it->a == 3 ? 2 : 1) / (now() - begun) / 1e9;
        if (rate > best) best = rate;
    }
    for (int i = 0; i < 2; i++) {
        DO(cuMemFreeHost, (void *)memory[i]);
        DO(cuMemFree_v2, device[i]);
    }
    return best;
}

// --- shared memory of the host that is registered: 0 same address, 1 a kernel writes it, 2 seconds for 64 MiB

static double registered(const struct fact *it) {
    size_t bytes = it->a == 2 ? 64 * MIB : 2 * MIB;
    int file = (int)syscall(SYS_memfd_create, "probe", 0);
    if (file < 0 || ftruncate(file, bytes)) give_up("no memfd");
    volatile float *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED) give_up("no memory on the host");
    memset((void *)at, 0, bytes);
    CUdeviceptr device = 0;
    uint32_t multiply_adds = 8;
    void *arguments[] = {&device, &multiply_adds};
    double begun = now();
    // Portable, and mapped into the device's addresses.
    DO(cuMemHostRegister_v2, (void *)at, bytes, 3u);
    double took = now() - begun;
    DO(cuMemHostGetDevicePointer_v2, &device, (void *)at, 0u);
    at[0] = -1;
    if (it->a == 1 && device) start(busy, 1, 32, here, arguments);
    DO(cuCtxSynchronize);
    double value = it->a == 0 ? device == (CUdeviceptr)(uintptr_t)at : it->a == 1 ? at[0] != -1 : took * 1e3;
    DO(cuMemHostUnregister, (void *)at);
    munmap((void *)at, bytes);
    return value;
}

static double attribute(const struct fact *it) {
    int value = 0;
    DO(cuDeviceGetAttribute, &value, it->a, 0);
    return value;
}

// --- the host: a thread that wakes another, a copy by the processor

static volatile int turn;
static void *echo(void *rounds) {
    for (int i = 0; i < *(int *)rounds; i++) {
        while (turn != 1) syscall(SYS_futex, &turn, FUTEX_WAIT, 0, NULL, NULL, 0);
        turn = 0;
        syscall(SYS_futex, &turn, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    return NULL;
}

static double futex_wake(const struct fact *it) {
    (void)it;
    int rounds = counted(2000, 100);
    pthread_t thread;
    turn = 0;
    pthread_create(&thread, NULL, echo, &rounds);
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        turn = 1;
        syscall(SYS_futex, &turn, FUTEX_WAKE, 1, NULL, NULL, 0);
        while (turn != 0) syscall(SYS_futex, &turn, FUTEX_WAIT, 1, NULL, NULL, 0);
    }
    double took = now() - begun;
    pthread_join(thread, NULL);
    return took / rounds / 2 * 1e6;
}

static double memory_copy(const struct fact *it) {
    (void)it;
    size_t bytes = scale < 1 ? 4 * MIB : 64 * MIB;
    char *from = pages(bytes), *to = pages(bytes);
    double best = 0;
    for (int round = 0; round < 3; round++) {
        double begun = now();
        memcpy(to, from, bytes);
        // The copy is not dropped.
        __asm__ volatile("" : : "r"(to) : "memory");
        double rate = bytes / (now() - begun) / 1e9;
        if (rate > best) best = rate;
    }
    munmap(from, bytes), munmap(to, bytes);
    return best;
}

// --- memory that contexts and modules take, MiB

static double free_mib(void) {
    size_t left, all;
    DO(cuMemGetInfo_v2, &left, &all);
    return left / (double)MIB;
}

static double module_memory(const struct fact *it) {
    char *text = fresh_ptx(counted(it->a, 4));
    double before = free_mib();
    CUhandle module = loaded(text);
    void *arguments[] = {&word};
    start(function_of(module, "f0"), 1, 1, here, arguments);
    DO(cuCtxSynchronize);
    double taken = before - free_mib();
    DO(cuModuleUnload, module);
    free(text);
    return taken;
}

static double granularity(const struct fact *it) {
    struct {
        int type, handles, location, device;
        void *unused;
        uint64_t flags;
    } of_device = {1, 0, 1, 0, NULL, 0};
    size_t bytes = 0;
    DO(cuMemGetAllocationGranularity, &bytes, &of_device, it->a);
    return bytes / (double)MIB;
}

static double context_memory(const struct fact *it) {
    (void)it;
    double before = free_mib();
    companion_ask('c');
    return before - free_mib();
}

// --- another process that uses the GPU: 0 none, 'w' launches and waits, 'b' keeps its queue full

static double waits_beside(const struct fact *it) {
    int which = it->a & 255, rounds = counted(which == 'b' ? 100 : 300, 10);
    double all[300], largest = 0;
    if (which) companion_ask(which);
    for (int i = 0; i < rounds; i++) {
        double begun = now();
        start(nothing, 1, 1, here, NULL);
        DO(cuStreamSynchronize, here);
        all[i] = (now() - begun) * 1e6;
        if (all[i] > largest) largest = all[i];
    }
    if (which) companion_ask('s');
    return it->a > 255 ? largest : median_of(all, rounds);
}

static const struct fact FACTS[] = {
    {"gap between kernels", "us", gap, NOTHING},
    {"gap between kernels with an event without timing", "us", gap, EVENT},
    {"gap between kernels with a timing event", "us", gap, TIMING_EVENT},
    {"gap between kernels with a timing event made for each", "us", gap, NEW_TIMING_EVENT},
    {"gap between kernels with cuStreamWriteValue32", "us", gap, WORD_WRITTEN},
    {"kernel of 5,000 multiply-adds on all multiprocessors, in a row", "us", kernel_in_row, 5000},
    {"launches a second from 1 thread", "1/s", launch_rate, 1},
    {"launches a second from 2 threads", "1/s", launch_rate, 2},
    {"launches a second from 4 threads", "1/s", launch_rate, 4},
    {"launches a second from 8 threads", "1/s", launch_rate, 8},
    {"launch of a second thread, the first idle", "ns", launch_beside_nothing, 0},
    {"launch of a second thread, the first idle, the longest", "ns", launch_beside_nothing, 1},
    {"launch until a word of cuStreamWriteValue32 is seen", "us", word_wait, 0},
    {"pinned copy to the device", "GB/s", pinned_rate, 1},
    {"pinned copy to the host", "GB/s", pinned_rate, 2},
    {"pinned copies both ways at once, in all", "GB/s", pinned_rate, 3},
    {"registered shared memory has its address on the device", "bool", registered, 0},
    {"a kernel writes registered shared memory", "bool", registered, 1},
    {"cuMemHostRegister of 64 MiB of shared memory", "ms", registered, 2},
    {"attribute 91: host pointers of registered memory", "bool", attribute, 91},
    {"futex wake-up", "us", futex_wake, 0},
    {"memcpy of one thread", "GB/s", memory_copy, 0},
    {"memory of a context", "MiB", context_memory, 0},
    {"memory of a module of 1 function", "MiB", module_memory, 1},
    {"memory of a module of 1,000 functions", "MiB", module_memory, 1000},
    {"granularity of cuMemCreate, minimum", "MiB", granularity, 0},
    {"granularity of cuMemCreate, recommended", "MiB", granularity, 1},
    {"wait, alone", "us", waits_beside, 0},
    {"wait beside a process that launches and waits", "us", waits_beside, 'w'},
    {"wait beside a process that keeps its queue full", "us", waits_beside, 'b'},
    {"wait beside a process that keeps its queue full, the longest", "us", waits_beside, 'b' + 256},
};
#define FACT_COUNT ((int)(sizeof FACTS / sizeof FACTS[0]))

static void fact_failed(int at, const char *why) {
    printf("{\"fact\": \"%s\", \"value\": null, \"unit\": \"%s\", \"reason\": \"%s\"}\n", FACTS[at].fact,
           FACTS[at].unit, why);
    fflush(stdout);
}

static void tell_fact(int at) {
    double value = FACTS[at].measure(&FACTS[at]);
    printf("{\"fact\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", FACTS[at].fact, value, FACTS[at].unit);
    fflush(stdout);
}

#endif
