// What the driver's calls cost, and what it says: a table for a driver that is imitated.
//
//     probe [--scale F]     a line for each call: {"call", "config", "ns", "waits", "beside_ns", "beside_max_ns"},
//                           and for each fact: {"fact", "value", "unit"}
//     probe driver          one object: attributes, limits, occupancies, attributes of functions, errors
//     probe --list          all of that without the values; needs no driver
//
// `ns` is the median on an idle device. `waits` says whether the call returns only when a kernel of another stream has
// ended. `beside_ns` is the median of launches by another thread, while one is in the call, and `beside_max_ns` the
// longest. What the driver refuses is null and has a reason. A figure that hangs or crashes costs only its own line.
#include "probe_calls.h"
#include "probe_driver.h"
#include "probe_facts.h"

static void lost_line(int at, const char *why) {
    if (at < CALL_COUNT)
        call_failed(at, why);
    else
        fact_failed(at - CALL_COUNT, why);
}

static int lost(int at, const char *why) {
    if (*child_told != at) lost_line(at, why);
    return at + 1;
}

static void measure_from(int first) {
    start_companion();
    open_probe();
    prepare_calls();
    for (volatile int at = first; at < CALL_COUNT + FACT_COUNT; at++) {
        child_begins(at);
        if (ATTEMPT()) {
            stop_beside();
            lost_line(at, reason);
            *child_told = at;
            // A sticky error ends this process.
            if (CODE(cuCtxSynchronize)) exit(CHILD_LOST);
        } else if (at < CALL_COUNT) {
            measure_call(at);
        } else {
            tell_fact(at - CALL_COUNT);
        }
    }
    alarm(0);
    stop_companion();
    exit(0);
}

static void list(void) {
    for (int at = 0; at < CALL_COUNT; at++)
        printf("{\"call\": \"%s\", \"config\": \"%s\"}\n", CALLS[at].call, CALLS[at].config);
    for (int at = 0; at < FACT_COUNT; at++)
        printf("{\"fact\": \"%s\", \"unit\": \"%s\"}\n", FACTS[at].fact, FACTS[at].unit);
    list_driver();
}

int main(int count, char **words) {
    int driver = 0;
    for (int i = 1; i < count; i++) {
        if (!strcmp(words[i], "--list")) {
            list();
            return 0;
        }
        if (!strcmp(words[i], "driver")) {
            driver = 1;
        } else if (!strcmp(words[i], "--scale") && i + 1 < count && atof(words[i + 1]) > 0) {
            scale = atof(words[++i]);
        } else {
            fputs("probe: probe [--scale F], probe driver, or probe --list\n", stderr);
            return 2;
        }
    }
    return driver ? tell_driver() : run_in_children(CALL_COUNT + FACT_COUNT, measure_from, lost);
}
