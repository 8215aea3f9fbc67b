// Sections of `micro` that measure copies: pinned, pageable, on the device, and beside a kernel.
#ifndef WARPLOOM_MICRO_COPIES_H
#define WARPLOOM_MICRO_COPIES_H

#include "micro.h"

#define GIB ((size_t)1 << 30)
#define LARGEST_IN_REHEARSAL ((size_t)1 << 21)

static size_t bytes_limit = GIB;

// The bytes that a figure copies: fewer in a rehearsal.
static size_t copied(const struct figure *it) {
    size_t bytes = it->a;
    return scale < 1 && bytes > LARGEST_IN_REHEARSAL ? LARGEST_IN_REHEARSAL : bytes;
}

// --- a pattern, written and compared by four threads where there are processors for them

struct part {
    uint64_t *words;
    size_t from, to;
    uint64_t seed, differs;
    int compares;
};

#define ODD 0x9E3779B97F4A7C15u
#define MIX 0xBF58476D1CE4E5B9u

static void *pattern_part(void *with) {
    struct part *it = with;
    uint64_t value = it->seed * MIX + it->from * ODD, differs = 0;
    for (size_t i = it->from; i < it->to; i++, value += ODD) {
        if (it->compares)
            differs |= it->words[i] ^ value;
        else
            it->words[i] = value;
    }
    it->differs = differs;
    return NULL;
}

// Writes the pattern of a seed, or compares; whether all bytes are as they should be.
static int pattern(void *host, size_t bytes, uint64_t seed, int compares) {
    int threads = bytes >= (size_t)1 << 24 ? 4 : 1;
    struct part parts[4];
    pthread_t all[4];
    uint64_t differs = 0;
    for (int i = 0; i < threads; i++) {
        size_t words = bytes / 8;
        parts[i] = (struct part){host, words * i / threads, words * (i + 1) / threads, seed, 0, compares};
        if (threads == 1)
            pattern_part(&parts[i]);
        else
            pthread_create(&all[i], NULL, pattern_part, &parts[i]);
    }
    for (int i = 0; i < threads; i++) {
        if (threads > 1) pthread_join(all[i], NULL);
        differs |= parts[i].differs;
    }
    return differs == 0;
}

// --- buffers of the section that runs

static char *host_buffer;
static CUdeviceptr device_buffer, second_buffer;
static int host_pinned;
static size_t buffer_bytes;
// The seed of the pattern that the device holds.
static uint64_t sent;

static void drop_buffers(void) {
    if (host_buffer && host_pinned)
        CODE(cuMemFreeHost, (void *)host_buffer);
    else
        free(host_buffer);
    if (device_buffer) CODE(cuMemFree_v2, device_buffer);
    if (second_buffer) CODE(cuMemFree_v2, second_buffer);
    host_buffer = NULL;
    device_buffer = second_buffer = 0;
    sent = 0;
}

static void make_buffers(size_t bytes, int pinned) {
    if (host_buffer && host_pinned == pinned && buffer_bytes >= bytes) return;
    drop_buffers();
    host_pinned = pinned;
    buffer_bytes = bytes;
    DO(cuMemAlloc_v2, &device_buffer, bytes);
    if (pinned)
        DO(cuMemHostAlloc, (void **)&host_buffer, bytes, 0u);
    else if (posix_memalign((void **)&host_buffer, 4096, bytes))
        give_up("no memory on the host");
}

// --- copies: a bytes, c & 1 back to the host, c & 2 pinned, b times a round

static void one_copy(const struct figure *it, size_t bytes) {
    if (it->c == 3)
        DO(cuMemcpyDtoHAsync_v2, (void *)host_buffer, device_buffer, bytes, (CUhandle)NULL);
    else if (it->c == 2)
        DO(cuMemcpyHtoDAsync_v2, device_buffer, (void *)host_buffer, bytes, (CUhandle)NULL);
    else if (it->c == 1)
        DO(cuMemcpyDtoH_v2, (void *)host_buffer, device_buffer, bytes);
    else
        DO(cuMemcpyHtoD_v2, device_buffer, (void *)host_buffer, bytes);
    DO(cuCtxSynchronize);
}

static double copy_rate(const struct figure *it) {
    size_t bytes = copied(it);
    int rounds = counted((int)it->b, 1);
    double begun = now();
    for (int i = 0; i < rounds; i++) one_copy(it, bytes);
    return bytes * (double)rounds / (now() - begun) / 1e9;
}

// The largest size of the figures that --bytes-limit allows: one buffer serves all of a section.
static size_t largest_copy(void) {
    size_t largest = scale < 1 ? LARGEST_IN_REHEARSAL : GIB;
    return bytes_limit < largest ? bytes_limit : largest;
}

static uint64_t seed_of(const struct figure *it) { return it->a + (it->c >> 1); }

static void fill_copy(const struct figure *it) {
    if ((size_t)it->a > bytes_limit) give_up("larger than --bytes-limit");
    size_t bytes = copied(it);
    make_buffers(largest_copy(), it->c >> 1);
    if (it->c & 1) {
        // What the copies to the device brought comes back: one comparison sees both ways.
        if (sent != seed_of(it)) {
            pattern(host_buffer, bytes, seed_of(it), 0);
            DO(cuMemcpyHtoD_v2, device_buffer, (void *)host_buffer, bytes);
        }
        memset(host_buffer, 0, bytes);
    } else {
        sent = 0;
        pattern(host_buffer, bytes, seed_of(it), 0);
    }
}

static void check_copy(const struct figure *it) {
    size_t bytes = copied(it);
    if (!(it->c & 1)) {
        sent = seed_of(it);
    } else if (!pattern(host_buffer, bytes, seed_of(it), 1)) {
        uint64_t value = seed_of(it) * MIX;
        size_t at = 0;
        for (; ((uint64_t *)host_buffer)[at] == value; at++) value += ODD;
        wrong_byte(at * 8, bytes);
    }
}

// --- copies on the device

static void two_buffers(const struct figure *it) {
    if ((size_t)it->a > bytes_limit) give_up("larger than --bytes-limit");
    size_t bytes = copied(it);
    make_buffers(bytes, 0);
    DO(cuMemAlloc_v2, &second_buffer, bytes);
    pattern(host_buffer, bytes, it->a, 0);
    DO(cuMemcpyHtoD_v2, device_buffer, (void *)host_buffer, bytes);
}

static double device_copy_rate(const struct figure *it) {
    size_t bytes = copied(it);
    int rounds = counted((int)it->b, 1);
    double begun = now();
    for (int i = 0; i < rounds; i++)
        DO(cuMemcpyDtoDAsync_v2, second_buffer, device_buffer, bytes, (CUhandle)NULL);
    DO(cuCtxSynchronize);
    return bytes * (double)rounds / (now() - begun) / 1e9;
}

static void check_device_copy(const struct figure *it) {
    size_t bytes = copied(it);
    memset(host_buffer, 0, bytes);
    DO(cuMemcpyDtoH_v2, (void *)host_buffer, second_buffer, bytes);
    if (!pattern(host_buffer, bytes, it->a, 1)) wrong_byte(0, bytes);
}

// --- a copy beside kernels that take about as long

static CUhandle copying, computing;
static int beside_kernels;

static double overlap_time(const struct figure *it, int copies, int kernels) {
    size_t bytes = copied(it);
    double begun = now();
    for (int i = 0; i < kernels; i++) start_busy((int)it->b, computing);
    if (copies && it->c)
        DO(cuMemcpyDtoHAsync_v2, (void *)host_buffer, device_buffer, bytes, copying);
    else if (copies)
        DO(cuMemcpyHtoDAsync_v2, device_buffer, (void *)host_buffer, bytes, copying);
    DO(cuCtxSynchronize);
    return now() - begun;
}

// Finds how many kernels take as long as the copy.
static void balance(const struct figure *it) {
    if ((size_t)it->a > bytes_limit) give_up("larger than --bytes-limit");
    make_buffers(copied(it), 1);
    if (!copying) copying = new_stream();
    if (!computing) computing = new_stream();
    overlap_time(it, 1, 4);
    double copy = overlap_time(it, 1, 0), kernel = overlap_time(it, 0, 4) / 4;
    double count = copy / (kernel > 1e-6 ? kernel : 1e-6) + 0.5;
    beside_kernels = count < 1 ? 1 : count > 1000 ? 1000 : (int)count;
}

static double overlap(const struct figure *it) {
    double copy = overlap_time(it, 1, 0), kernels = overlap_time(it, 0, beside_kernels);
    return overlap_time(it, 1, beside_kernels) / (copy > kernels ? copy : kernels);
}

#endif
