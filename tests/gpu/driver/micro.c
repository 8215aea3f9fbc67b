// What one program sees of a GPU: waits, launches, kernels, events, copies, allocations, modules, graphs.
//
//     micro SECTION [SCALE]     one JSON object a line: {"name", "value", "unit"}
//     micro --list              the sections
//
// A figure is the median of some rounds. SCALE below 1 shortens kernels, counts and the largest copies: a
// rehearsal on the CPU worker uses 0.02. Exit code 3: bytes came back wrong.
#include "driver.h"

#include <pthread.h>

static double scale = 1;

static const char *KERNELS =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry nothing() { ret; }\n"
    ".visible .entry busy(.param .u64 out, .param .u32 count) {\n"
    "  .reg .u64 %o; .reg .u32 %n, %i, %t, %b, %d; .reg .f32 %x; .reg .pred %p;\n"
    "  ld.param.u64 %o, [out]; ld.param.u32 %n, [count];\n"
    "  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %t, %b, %d, %t;\n"
    "  cvt.rn.f32.u32 %x, %t; mov.u32 %i, 0;\n"
    "again: setp.ge.u32 %p, %i, %n; @%p bra done;\n"
    "  fma.rn.f32 %x, %x, 0f3F7FBE77, 0f3F800000; add.u32 %i, %i, 1; bra again;\n"
    "done: setp.ne.u32 %p, %t, 0; @%p bra end; st.global.f32 [%o], %x;\n"
    "end: ret;\n}\n";

static CUhandle nothing, busy;
static CUdeviceptr word;

static void say(const char *name, double value, const char *unit) {
    printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", name, value, unit);
    fflush(stdout);
}

// A count, shortened by the scale.
static int counted(int full, int least) {
    int count = (int)(full * scale);
    return count < least ? least : count;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median of five rounds of a measurement.
static double median(double (*one)(void *), void *with) {
    double all[5];
    for (int i = 0; i < 5; i++) all[i] = one(with);
    qsort(all, 5, sizeof all[0], ascending);
    return all[2];
}

static void start_busy(int trips, unsigned blocks, CUhandle stream) {
    uint32_t count = counted(trips, 1);
    void *arguments[] = {&word, &count};
    driver_launch(busy, blocks, 256, stream, arguments);
}

// --- waits

static double one_wait(void *with) {
    int rounds = counted(500, 20);
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        driver_launch(nothing, 1, 1, NULL, NULL);
        if (with)
            CU(cuStreamSynchronize, (CUhandle)NULL);
        else
            CU(cuCtxSynchronize);
    }
    return (now() - begun) / rounds * 1e6;
}

static double one_word_back(void *with) {
    (void)with;
    int rounds = counted(300, 20), back;
    double begun = now();
    for (int i = 0; i < rounds; i++) CU(cuMemcpyDtoH_v2, &back, word, (size_t)4);
    return (now() - begun) / rounds * 1e6;
}

static void waits(void) {
    say("wait_us", median(one_wait, NULL), "us");
    say("wait_stream_us", median(one_wait, &scale), "us");
    say("d2h_4b_us", median(one_word_back, NULL), "us");
}

// --- launches

static CUhandle context;
static pthread_barrier_t gate;

static void *launcher(void *with) {
    int count = *(int *)with;
    CUhandle stream;
    CU(cuCtxSetCurrent, context);
    CU(cuStreamCreate, &stream, 1u);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < count; i++) driver_launch(nothing, 1, 1, stream, NULL);
    CU(cuStreamSynchronize, stream);
    pthread_barrier_wait(&gate);
    CU(cuStreamDestroy_v2, stream);
    return NULL;
}

static double launch_rate(void *with) {
    int threads = *(int *)with, count = counted(10000, 400) / threads;
    pthread_t all[8];
    pthread_barrier_init(&gate, NULL, threads + 1);
    for (int i = 0; i < threads; i++) pthread_create(&all[i], NULL, launcher, &count);
    pthread_barrier_wait(&gate);
    double begun = now();
    pthread_barrier_wait(&gate);
    double took = now() - begun;
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
    pthread_barrier_destroy(&gate);
    return threads * count / took;
}

static double one_call(void *with) {
    (void)with;
    int rounds = counted(500, 50);
    double begun = now();
    for (int i = 0; i < rounds; i++) driver_launch(nothing, 1, 1, NULL, NULL);
    double took = now() - begun;
    CU(cuCtxSynchronize);
    return took / rounds * 1e9;
}

static void launches(void) {
    for (int threads = 1; threads <= 8; threads *= 2) {
        char name[32];
        snprintf(name, sizeof name, "launches_%d", threads);
        say(name, median(launch_rate, &threads), "1/s");
    }
    say("launch_call_ns", median(one_call, NULL), "ns");
}

// --- kernels in a row

struct row {
    int count, trips;
};

static double one_row(void *with) {
    struct row *row = with;
    int count = counted(row->count, 20);
    double begun = now();
    for (int i = 0; i < count; i++) start_busy(row->trips, scale < 1 ? 4 : 132, NULL);
    CU(cuCtxSynchronize);
    return (now() - begun) * 1e3;
}

static void kernels(void) {
    // 5,000 trips took 13 us on an H100 (docs/evidence/gpu.md).
    struct row rows[] = {{1000, 1900}, {1000, 5000}, {1000, 19200}, {200, 77000}};
    const char *names[] = {"kernels_1000_5us_ms", "kernels_1000_13us_ms", "kernels_1000_50us_ms",
                           "kernels_200_200us_ms"};
    for (int i = 0; i < 4; i++) say(names[i], median(one_row, &rows[i]), "ms");
}

// --- events

static double one_record(void *with) {
    int rounds = counted(500, 20);
    double begun = now();
    for (int i = 0; i < rounds; i++) CU(cuEventRecord, (CUhandle)with, (CUhandle)NULL);
    double took = now() - begun;
    CU(cuCtxSynchronize);
    return took / rounds * 1e9;
}

static double one_elapsed(void *with) {
    CUhandle *pair = with;
    int rounds = counted(200, 10);
    float between;
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        CU(cuEventRecord, pair[0], (CUhandle)NULL);
        driver_launch(nothing, 1, 1, NULL, NULL);
        CU(cuEventRecord, pair[1], (CUhandle)NULL);
        CU(cuEventSynchronize, pair[1]);
        CU(cuEventElapsedTime, &between, pair[0], pair[1]);
    }
    return (now() - begun) / rounds * 1e6;
}

// The time from a kernel's start until a loop of queries sees its end.
static double one_query(void *with) {
    int rounds = counted(200, 10);
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        driver_launch(nothing, 1, 1, NULL, NULL);
        CU(cuEventRecord, (CUhandle)with, (CUhandle)NULL);
        int code;
        while ((code = TRY(cuEventQuery, (CUhandle)with)) == 600)
            ;
        if (code) driver_failed(__FILE__, __LINE__, "cuEventQuery", code);
    }
    return (now() - begun) / rounds * 1e6;
}

static void events(void) {
    CUhandle pair[2];
    for (int i = 0; i < 2; i++) CU(cuEventCreate, &pair[i], 0u);
    say("event_record_ns", median(one_record, pair[0]), "ns");
    say("event_elapsed_us", median(one_elapsed, pair), "us");
    say("event_query_us", median(one_query, pair[0]), "us");
}

// --- copies

struct copy {
    char *host;
    CUdeviceptr device;
    size_t bytes;
    int back, pinned;
};

static double one_copy(void *with) {
    struct copy *it = with;
    int rounds = it->bytes >= 1 << 24 ? 1 : it->bytes >= 1 << 20 ? 4 : 20;
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        if (it->pinned && it->back)
            CU(cuMemcpyDtoHAsync_v2, it->host, it->device, it->bytes, (CUhandle)NULL);
        else if (it->pinned)
            CU(cuMemcpyHtoDAsync_v2, it->device, it->host, it->bytes, (CUhandle)NULL);
        else if (it->back)
            CU(cuMemcpyDtoH_v2, it->host, it->device, it->bytes);
        else
            CU(cuMemcpyHtoD_v2, it->device, it->host, it->bytes);
        CU(cuCtxSynchronize);
    }
    return it->bytes * (double)rounds / (now() - begun) / 1e9;
}

static uint64_t pattern(uint64_t at, uint64_t seed) {
    uint64_t x = (at + 1) * 0x9E3779B97F4A7C15u ^ seed * 0xBF58476D1CE4E5B9u;
    return x ^ x >> 29;
}

static void fill(char *host, size_t bytes, uint64_t seed) {
    uint64_t *words = (uint64_t *)host;
    for (size_t i = 0; i < bytes / 8; i++) words[i] = pattern(i, seed);
}

static void check(char *host, size_t bytes, uint64_t seed) {
    uint64_t *words = (uint64_t *)host;
    for (size_t i = 0; i < bytes / 8; i++)
        if (words[i] != pattern(i, seed)) {
            fprintf(stderr, "byte %zu of a copy of %zu came back wrong\n", i * 8, bytes);
            exit(3);
        }
}

static void copies_of(int pinned) {
    const char *names[] = {"4k", "64k", "1m", "16m", "256m", "1g"};
    size_t sizes[] = {1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 30};
    size_t largest = 1 << 30;
    if (scale < 1) largest = 1 << 21;
    struct copy it = {.pinned = pinned};
    if (pinned)
        CU(cuMemHostAlloc, (void **)&it.host, largest, 0u);
    else if (!(it.host = malloc(largest)))
        exit(1);
    CU(cuMemAlloc_v2, &it.device, largest);
    for (int i = 0; i < 6; i++) {
        it.bytes = sizes[i] < largest ? sizes[i] : largest;
        char name[48];
        fill(it.host, it.bytes, i + 1);
        it.back = 0;
        double in = i == 5 ? one_copy(&it) : median(one_copy, &it);
        memset(it.host, 0, it.bytes);
        it.back = 1;
        double out = i == 5 ? one_copy(&it) : median(one_copy, &it);
        check(it.host, it.bytes, i + 1);
        const char *kind = pinned ? "pinned" : "pageable";
        snprintf(name, sizeof name, "h2d_%s_%s", kind, names[i]);
        say(name, in, "GB/s");
        snprintf(name, sizeof name, "d2h_%s_%s", kind, names[i]);
        say(name, out, "GB/s");
    }
}

static void pinned(void) { copies_of(1); }
static void pageable(void) { copies_of(0); }

// --- a copy beside a kernel

static void overlap(void) {
    size_t bytes = scale < 1 ? 1 << 20 : 1 << 26;
    char *host;
    CUdeviceptr device;
    CUhandle copying, computing;
    CU(cuMemHostAlloc, (void **)&host, bytes, 0u);
    CU(cuMemAlloc_v2, &device, bytes);
    CU(cuStreamCreate, &copying, 1u);
    CU(cuStreamCreate, &computing, 1u);
    for (int back = 0; back < 2; back++) {
        double times[3] = {0, 0, 0};
        // Which: 1 the copy alone, 2 the kernels alone, 3 both.
        for (int round = 0; round < 4; round++)
            for (int which = 1; which <= 3; which++) {
                double begun = now();
                if (which & 2)
                    for (int i = 0; i < 8; i++) start_busy(77000, scale < 1 ? 4 : 132, computing);
                if (which & 1) {
                    if (back)
                        CU(cuMemcpyDtoHAsync_v2, host, device, bytes, copying);
                    else
                        CU(cuMemcpyHtoDAsync_v2, device, host, bytes, copying);
                }
                CU(cuCtxSynchronize);
                if (round) times[which - 1] += now() - begun;
            }
        double larger = times[0] > times[1] ? times[0] : times[1];
        say(back ? "overlap_d2h" : "overlap_h2d", times[2] / larger, "ratio");
    }
}

// --- allocations

static double one_alloc(void *with) {
    int rounds = counted(100, 5), which = *(int *)with;
    CUdeviceptr device;
    void *host;
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        if (which == 0) {
            CU(cuMemAlloc_v2, &device, (size_t)1 << 20);
            CU(cuMemFree_v2, device);
        } else if (which == 1) {
            CU(cuMemAllocAsync, &device, (size_t)1 << 20, (CUhandle)NULL);
            CU(cuMemFreeAsync, device, (CUhandle)NULL);
        } else {
            CU(cuMemHostAlloc, &host, (size_t)1 << 20, 0u);
            CU(cuMemFreeHost, host);
        }
    }
    CU(cuCtxSynchronize);
    return (now() - begun) / rounds * 1e6;
}

static void allocations(void) {
    const char *names[] = {"alloc_free_us", "alloc_async_us", "alloc_host_us"};
    for (int i = 0; i < 3; i++) say(names[i], median(one_alloc, &i), "us");
}

// --- modules

// PTX with so many functions, which no cache has seen: the constants are new each time.
static double one_load(void *with) {
    int functions = *(int *)with;
    static uint32_t fresh;
    if (!fresh) fresh = (uint32_t)(now() * 1e6) ^ (uint32_t)getpid() << 16;
    char *text = malloc(200 + functions * 320), *end = text;
    end += sprintf(end, ".version 7.0\n.target sm_80\n.address_size 64\n");
    for (int i = 0; i < functions; i++)
        end += sprintf(end,
                       ".visible .entry f%d(.param .u64 out) { .reg .u64 %%o; .reg .u32 %%x;\n"
                       " ld.param.u64 %%o, [out]; mov.u32 %%x, %%tid.x; mad.lo.u32 %%x, %%x, %u, %u;\n"
                       " st.global.u32 [%%o], %%x; ret; }\n",
                       i, fresh + i, fresh ^ i);
    CUhandle module;
    double begun = now();
    CU(cuModuleLoadData, &module, text);
    CUhandle function;
    CU(cuModuleGetFunction, &function, module, "f0");
    void *arguments[] = {&word};
    driver_launch(function, 1, 1, NULL, arguments);
    CU(cuCtxSynchronize);
    double took = now() - begun;
    CU(cuModuleUnload, module);
    fresh += functions;
    free(text);
    return took * 1e3;
}

static void modules(void) {
    int small = 1, large = counted(300, 20);
    say("module_load_small_ms", median(one_load, &small), "ms");
    // Once: the caller repeats the program, and a load of so much takes seconds.
    say("module_load_large_ms", one_load(&large), "ms");
}

// --- graphs

struct replay {
    CUhandle graph, stream;
};

static double one_replay(void *with) {
    struct replay *it = with;
    int rounds = counted(20, 5);
    double begun = now();
    for (int i = 0; i < rounds; i++) {
        CU(cuGraphLaunch, it->graph, it->stream);
        CU(cuStreamSynchronize, it->stream);
    }
    return (now() - begun) / rounds * 1e6;
}

static void graphs(void) {
    int sizes[] = {100, 1000};
    for (int i = 0; i < 2; i++) {
        struct replay it;
        CUhandle graph;
        char name[32];
        CU(cuStreamCreate, &it.stream, 1u);
        CU(cuStreamBeginCapture_v2, it.stream, 2u);
        for (int n = 0; n < sizes[i]; n++) driver_launch(nothing, 1, 1, it.stream, NULL);
        CU(cuStreamEndCapture, it.stream, &graph);
        CU(cuGraphInstantiateWithFlags, &it.graph, graph, (unsigned long long)0);
        snprintf(name, sizeof name, "graph_%d_us", sizes[i]);
        say(name, median(one_replay, &it), "us");
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} SECTIONS[] = {{"waits", waits},     {"launches", launches}, {"kernels", kernels},
                {"events", events},   {"pinned", pinned},     {"pageable", pageable},
                {"overlap", overlap}, {"allocations", allocations}, {"modules", modules},
                {"graphs", graphs}};

int main(int count, char **words) {
    if (count > 2) scale = atof(words[2]);
    for (unsigned i = 0; count > 1 && i < sizeof SECTIONS / sizeof SECTIONS[0]; i++) {
        if (!strcmp(words[1], "--list")) puts(SECTIONS[i].name);
        if (strcmp(words[1], SECTIONS[i].name)) continue;
        context = driver_open();
        CUhandle module;
        CU(cuModuleLoadData, &module, KERNELS);
        CU(cuModuleGetFunction, &nothing, module, "nothing");
        CU(cuModuleGetFunction, &busy, module, "busy");
        CU(cuMemAlloc_v2, &word, (size_t)256);
        driver_launch(nothing, 1, 1, NULL, NULL);
        start_busy(1, 1, NULL);
        CU(cuCtxSynchronize);
        SECTIONS[i].run();
        return 0;
    }
    return count > 1 && !strcmp(words[1], "--list") ? 0 : 2;
}
