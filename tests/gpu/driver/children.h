// Measurements in child processes: if a child dies or hangs, the next measurements run in another child.
#ifndef WARPLOOM_CHILDREN_H
#define WARPLOOM_CHILDREN_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_LOST 4
#define CHILD_LIMIT_S 25

// Memory that parent and children share.
static inline void *shared_memory(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return at;
}

// The measurement that the child is at, and the last one that it told; -1 before the first one.
static volatile int *child_at, *child_told;

// A child begins a measurement, which may take CHILD_LIMIT_S seconds.
static inline void child_begins(int at) {
    *child_at = at;
    alarm(CHILD_LIMIT_S);
}

static inline void child_end_reason(int ended, char *why, size_t size) {
    if (WIFSIGNALED(ended) && WTERMSIG(ended) == SIGALRM)
        snprintf(why, size, "took longer than %d s", CHILD_LIMIT_S);
    else if (WIFSIGNALED(ended))
        snprintf(why, size, "the process ended by signal %d", WTERMSIG(ended));
    else
        snprintf(why, size, "the context was lost, exit code %d", WEXITSTATUS(ended));
}

// Runs `body(first)` in a child until one ends with code 0 or 3, which is returned. After a child that ended in
// another way `lost` says where the next one begins. Code 1: the device cannot be opened.
static inline int run_in_children(int count, void (*body)(int), int (*lost)(int, const char *)) {
    child_at = shared_memory(2 * sizeof(int));
    child_told = child_at + 1;
    *child_told = -1;
    for (int first = 0; first < count;) {
        int ended = 0;
        *child_at = -1;
        fflush(stdout);
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 1;
        }
        if (!child) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(CHILD_LIMIT_S);
            body(first);
            exit(0);
        }
        while (waitpid(child, &ended, 0) < 0) {
        }
        if (WIFEXITED(ended) && (WEXITSTATUS(ended) == 0 || WEXITSTATUS(ended) == 3)) return WEXITSTATUS(ended);
        char why[80];
        child_end_reason(ended, why, sizeof why);
        if (*child_at < 0 && first == 0) {
            if (!WIFEXITED(ended)) fprintf(stderr, "at the start: %s\n", why);
            return 1;
        }
        first = lost(*child_at < 0 ? first : *child_at, why);
    }
    return 0;
}

#endif
