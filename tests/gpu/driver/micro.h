// A figure of `micro`: how one round of it is measured, and how often.
#ifndef WARPLOOM_MICRO_H
#define WARPLOOM_MICRO_H

#include "calls.h"

#include <pthread.h>

struct figure {
    const char *section, *name, *unit;
    double (*round)(const struct figure *);
    // What the round needs: counts, bytes, a direction.
    long a, b, c;
    // Rounds: at least, at most. Between them they stop when PATIENCE seconds are spent.
    int least, most;
    // Before the first round and after the last; may be absent.
    void (*before)(const struct figure *), (*after)(const struct figure *);
};

#define PATIENCE 0.06

static CUhandle context, nothing, busy;
static CUdeviceptr word;

static inline void start_nothing(CUhandle stream) { start(nothing, 1, 1, stream, NULL); }

// Starts a kernel of so many multiply-adds a thread, on all 132 multiprocessors; on 4 in a rehearsal.
static inline void start_busy(int count, CUhandle stream) {
    uint32_t shortened = counted(count, 8);
    void *arguments[] = {&word, &shortened};
    start(busy, scale < 1 ? 4 : 132, 256, stream, arguments);
}

#endif
