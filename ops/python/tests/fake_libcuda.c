/* A drop-in libcuda.so.1 for tests: takes parents, tells the calling thread's, and fails when it is told to. */
#include <stdatomic.h>
#include <string.h>

static _Thread_local char parent[256];
static atomic_int calls;

#ifndef FOREIGN
int warploom_set_traceparent(const char *text) {
    calls++;
    if (text == NULL || *text == 0) {
        parent[0] = 0;
        return 0;
    }
    /* Only version 00, as a drop-in may be older than this wheel. */
    if (strlen(text) != 55 || strncmp(text, "00-", 3) != 0)
        return 1;
    strcpy(parent, text);
    return 0;
}

static char failure[256];
static int failures;

/* Fails a device, as a kernel's fault does. */
void fake_fail(const char *text) {
    strncpy(failure, text, sizeof failure - 1);
    failures++;
}

int warploom_lost(void) { return failures > 0; }

unsigned long long warploom_refusals(char *text, size_t room) {
    if (room) *text = 0;
    return 0;
}

unsigned long long warploom_last_failure(char *text, size_t room) {
    if (room) {
        strncpy(text, failure, room - 1);
        text[room - 1] = 0;
    }
    return failures;
}
#endif

const char *fake_parent(void) { return parent; }

int fake_calls(void) { return calls; }
