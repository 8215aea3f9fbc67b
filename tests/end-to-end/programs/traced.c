/* A program of several threads that asks for requests: thread t launches 1 + t kernels, and waits, again and again.
   Arguments: threads, requests of each, and how it names its parent: "none", or "own" for one of each thread. With a
   file as fourth argument it goes on until that file exists.
   Prints a line per thread: the thread's own traceparent, or "-", and its number of launches. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "add.h"

typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(CUcontext *, int);
int cuCtxSetCurrent(CUcontext);
int cuModuleLoadData(CUmodule *, const void *);
int cuModuleGetFunction(CUfunction *, CUmodule, const char *);
int cuMemAlloc_v2(CUdeviceptr *, size_t);
int cuMemsetD32_v2(CUdeviceptr, unsigned, size_t);
int cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
int cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                   void **);

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        int status = (call);                                                                                           \
        if (status) {                                                                                                  \
            fprintf(stderr, "%s: %d\n", #call, status);                                                                \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { COUNT = 4096 };

static CUcontext context;
static CUfunction add;
static int requests;
static const char *until;
static int (*set_traceparent)(const char *);
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *argument) {
    int thread = (int)(intptr_t)argument;
    char parent[64] = "-";
    CHECK(cuCtxSetCurrent(context));
    if (set_traceparent) {
        snprintf(parent, sizeof parent, "00-%032x-%016x-01", 0x1000 + thread, 0x2000 + thread);
        CHECK(set_traceparent(parent));
    }
    CUdeviceptr words;
    CHECK(cuMemAlloc_v2(&words, COUNT * sizeof(unsigned)));
    CHECK(cuMemsetD32_v2(words, 0, COUNT));
    unsigned by = 1, count = COUNT, last = 0;
    void *arguments[] = {&words, &by, &count};
    int request = 0;
    for (; request < requests || (until && access(until, F_OK)); request++) {
        for (int launch = 0; launch <= thread; launch++)
            CHECK(cuLaunchKernel(add, COUNT / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
        CHECK(cuMemcpyDtoH_v2(&last, words, sizeof last));
        if (last != (unsigned)((request + 1) * (thread + 1))) {
            fprintf(stderr, "thread %d: %u after request %d\n", thread, last, request);
            exit(1);
        }
    }
    if (set_traceparent) CHECK(set_traceparent(NULL));
    pthread_mutex_lock(&printing);
    printf("%s %d\n", parent, request * (thread + 1));
    pthread_mutex_unlock(&printing);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int threads = atoi(argv[1]);
    requests = atoi(argv[2]);
    until = argc > 4 ? argv[4] : NULL;
    if (!strcmp(argv[3], "own")) {
        set_traceparent = (int (*)(const char *))dlsym(RTLD_DEFAULT, "warploom_set_traceparent");
        if (!set_traceparent) return 3;
    }
    CUmodule module;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, ADD));
    CHECK(cuModuleGetFunction(&add, module, "add"));
    pthread_t all[64];
    if (threads > 64) return 2;
    for (int thread = 0; thread < threads; thread++)
        if (pthread_create(&all[thread], NULL, work, (void *)(intptr_t)thread)) return 4;
    for (int thread = 0; thread < threads; thread++)
        if (pthread_join(all[thread], NULL)) return 4;
    return 0;
}
