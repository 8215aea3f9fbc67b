// What one program sees of a GPU: waits, launches, kernels, events, copies, allocations, modules, graphs.
//
//     micro SECTION... [--scale F] [--bytes-limit N]     one JSON object a line: {"name", "value", "unit"}
//     micro --list                                       the figures of all sections
//
// A figure is the median of some rounds. A scale below 1 shortens counts, kernels and the largest copies: a
// rehearsal on the CPU worker uses 0.02. A figure that the driver refuses has the value null and a reason.
// Sections run in a child process: if it dies, the next sections run in another. Exit code 3: a byte came back wrong.
#include "children.h"
#include "micro_calls.h"
#include "micro_copies.h"

#define COPY(kind, bits, size, bytes, count, least, most)                                                        \
    {kind, "h2d_" kind "_" size, "GB/s", copy_rate, bytes, count, bits, least, most, fill_copy, check_copy},     \
    {kind, "d2h_" kind "_" size, "GB/s", copy_rate, bytes, count, bits + 1, least, most, fill_copy, check_copy}

#define COPIES(kind, bits)                                                                                      \
    COPY(kind, bits, "4k", 1 << 12, 20, 3, 7), COPY(kind, bits, "64k", 1 << 16, 20, 3, 7),                       \
    COPY(kind, bits, "1m", 1 << 20, 4, 3, 7), COPY(kind, bits, "16m", 1 << 24, 1, 3, 7),                         \
    COPY(kind, bits, "256m", 1 << 28, 1, 2, 5), COPY(kind, bits, "1g", 1 << 30, 1, 1, 1)

// 5,000 multiply-adds took 13 us on an H100 (docs/evidence/gpu/2026-11-26.md), of which some 3 us are the launch.
static const struct figure FIGURES[] = {
    {"wait", "wait_us", "us", one_wait, 0, 0, 0, 3, 7, NULL, NULL},
    {"wait", "wait_stream_us", "us", one_wait, 1, 0, 0, 3, 7, NULL, NULL},
    {"wait", "d2h_4b_us", "us", one_wait, 2, 0, 0, 3, 7, NULL, NULL},
    {"launches", "launches_1", "1/s", launch_rate, 1, 0, 0, 3, 5, NULL, NULL},
    {"launches", "launches_2", "1/s", launch_rate, 2, 0, 0, 3, 5, NULL, NULL},
    {"launches", "launches_4", "1/s", launch_rate, 4, 0, 0, 3, 5, NULL, NULL},
    {"launches", "launches_8", "1/s", launch_rate, 8, 0, 0, 3, 5, NULL, NULL},
    {"launches", "launch_call_ns", "ns", launch_call, 500, 0, 0, 3, 7, NULL, NULL},
    {"kernels", "kernels_1000_5us_ms", "ms", kernels_in_row, 1000, 1200, 0, 3, 5, NULL, NULL},
    {"kernels", "kernels_1000_13us_ms", "ms", kernels_in_row, 1000, 5000, 0, 3, 5, NULL, NULL},
    {"kernels", "kernels_1000_50us_ms", "ms", kernels_in_row, 1000, 21600, 0, 3, 5, NULL, NULL},
    {"kernels", "kernels_200_200us_ms", "ms", kernels_in_row, 200, 88800, 0, 3, 5, NULL, NULL},
    {"events", "event_record_ns", "ns", event_record, 0, 0, 0, 3, 7, make_events, NULL},
    {"events", "event_elapsed_us", "us", event_elapsed, 0, 0, 0, 3, 7, make_events, NULL},
    {"events", "event_query_us", "us", event_query, 0, 0, 0, 3, 7, make_events, NULL},
    COPIES("pinned", 2),
    COPIES("pageable", 0),
    {"d2d", "d2d_256m", "GB/s", device_copy_rate, 1 << 28, 8, 0, 3, 7, two_buffers, check_device_copy},
    {"overlap", "overlap_h2d", "ratio", overlap, 1 << 26, 88800, 0, 3, 5, balance, NULL},
    {"overlap", "overlap_d2h", "ratio", overlap, 1 << 26, 88800, 1, 3, 5, balance, NULL},
    {"alloc", "alloc_free_us", "us", allocation, 0, 0, 0, 3, 7, NULL, NULL},
    {"alloc", "alloc_async_us", "us", allocation, 1, 0, 0, 3, 7, NULL, NULL},
    {"alloc", "alloc_host_us", "us", allocation, 2, 0, 0, 3, 7, NULL, NULL},
    {"modules", "module_load_small_ms", "ms", module_load, 1, 0, 0, 3, 7, NULL, NULL},
    {"modules", "module_load_large_ms", "ms", module_load, 300, 0, 0, 1, 3, NULL, NULL},
    {"graphs", "graph_100_us", "us", replay, 100, 0, 0, 3, 7, capture, drop_graph},
    {"graphs", "graph_1000_us", "us", replay, 1000, 0, 0, 3, 7, capture, drop_graph},
};
#define COUNT ((int)(sizeof FIGURES / sizeof FIGURES[0]))

// Other words for sections.
static const char *const ALIASES[][2] = {{"waits", "wait"},     {"allocations", "alloc"}, {"copies", "pinned"},
                                         {"copies", "pageable"}, {"copies", "d2d"}};

// What parent and child share: which figures are wanted, and which were told.
static struct shared {
    volatile char wanted[sizeof FIGURES / sizeof FIGURES[0]], told[sizeof FIGURES / sizeof FIGURES[0]];
} *shared;

static void tell(int at, const double *value, const char *why) {
    const struct figure *it = &FIGURES[at];
    if (value)
        printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", it->name, *value, it->unit);
    else
        printf("{\"name\": \"%s\", \"value\": null, \"unit\": \"%s\", \"reason\": \"%s\"}\n", it->name, it->unit, why);
    fflush(stdout);
    shared->told[at] = 1;
}

// --- the child

static double measured(const struct figure *it) {
    double all[8], begun = now();
    int count = 0;
    if (it->before) it->before(it);
    do
        all[count++] = it->round(it);
    while (count < it->most && (count < it->least || now() - begun < PATIENCE));
    if (it->after) it->after(it);
    return median_of(all, count);
}

static void open_device(void) {
    context = driver_open();
    if (ATTEMPT()) {
        fprintf(stderr, "micro: %s\n", reason);
        exit(1);
    }
    CUhandle module = loaded(KERNELS);
    nothing = function_of(module, "nothing");
    busy = function_of(module, "busy");
    DO(cuMemAlloc_v2, &word, (size_t)256);
    start_nothing(NULL);
    start_busy(8, NULL);
    DO(cuCtxSynchronize);
}

static void run_figures(int from) {
    open_device();
    for (volatile int at = from; at < COUNT; at++) {
        if (!shared->wanted[at] || shared->told[at]) continue;
        if (at && strcmp(FIGURES[at].section, FIGURES[at - 1].section)) drop_buffers();
        child_begins(at);
        if (!ATTEMPT()) {
            double value = measured(&FIGURES[at]);
            tell(at, &value, NULL);
        } else {
            tell(at, NULL, reason);
            if (CODE(cuCtxSynchronize)) exit(CHILD_LOST);
        }
    }
    alarm(0);
    drop_buffers();
    exit(0);
}

// --- the parent

// Gives up what is left of the section in which a child ended; the place of the next section.
static int give_up_section(int at, const char *why) {
    const char *section = FIGURES[at].section;
    for (; at < COUNT && !strcmp(FIGURES[at].section, section); at++)
        if (shared->wanted[at] && !shared->told[at]) tell(at, NULL, why);
    return at;
}

static int want(const char *section) {
    int found = 0;
    for (unsigned i = 0; i < sizeof ALIASES / sizeof ALIASES[0]; i++)
        if (!strcmp(section, ALIASES[i][0])) found |= want(ALIASES[i][1]);
    for (int at = 0; at < COUNT; at++)
        if (!strcmp(section, "all") || !strcmp(section, FIGURES[at].section)) found = shared->wanted[at] = 1;
    return found;
}

static int usage(const char *why) {
    fprintf(stderr, "micro: %s; micro SECTION... [--scale F] [--bytes-limit N], or micro --list\n", why);
    return 2;
}

int main(int count, char **words) {
    shared = shared_memory(sizeof *shared);
    int sections = 0;
    for (int i = 1; i < count; i++) {
        char *end;
        double number = strtod(words[i], &end);
        if (!strcmp(words[i], "--list")) {
            for (int at = 0; at < COUNT; at++)
                printf("{\"section\": \"%s\", \"name\": \"%s\", \"unit\": \"%s\"}\n", FIGURES[at].section,
                       FIGURES[at].name, FIGURES[at].unit);
            return 0;
        }
        if (!strcmp(words[i], "--scale") && i + 1 < count)
            scale = atof(words[++i]);
        else if (!strcmp(words[i], "--bytes-limit") && i + 1 < count)
            bytes_limit = strtoull(words[++i], NULL, 10);
        else if (end != words[i] && !*end)
            // A bare number is the scale.
            scale = number;
        else if (want(words[i]))
            sections++;
        else
            return usage("no such section");
    }
    if (!sections) return usage("no section");
    if (!(scale > 0 && scale <= 1)) return usage("the scale is above 0 and at most 1");
    return run_in_children(COUNT, run_figures, give_up_section);
}
