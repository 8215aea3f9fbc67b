/* A drop-in libcuda.so.1 for tests: takes parents, and tells the calling thread's. */
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
#endif

const char *fake_parent(void) { return parent; }

int fake_calls(void) { return calls; }
