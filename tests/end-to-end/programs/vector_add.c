/* A CUDA program that knows nothing of Warploom: adds two vectors, with the driver API alone.
   Arguments: a PTX file with vector_add, and "wait" to sleep with its memory held. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
int cuInit(unsigned);
int cuCtxCreate_v2(CUcontext *, unsigned, int);
int cuModuleLoad(CUmodule *, const char *);
int cuModuleGetFunction(CUfunction *, CUmodule, const char *);
int cuMemAlloc_v2(CUdeviceptr *, size_t);
int cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
int cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
int cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void *, void **, void **);
int cuGetErrorString(int, const char **);

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int status = (call);                                                                       \
        if (status) {                                                                              \
            const char *text = "";                                                                 \
            cuGetErrorString(status, &text);                                                       \
            fprintf(stderr, "%s: %d %s\n", #call, status, text);                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv) {
    enum { N = 10000 };
    static float a[N], b[N], c[N];
    unsigned n = N;
    CUcontext context;
    CUmodule module;
    CUfunction add;
    CUdeviceptr x, y, z;
    for (int i = 0; i < N; i++) {
        a[i] = i;
        b[i] = 2 * i;
    }
    if (argc < 2) return 2;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoad(&module, argv[1]));
    CHECK(cuModuleGetFunction(&add, module, "vector_add"));
    CHECK(cuMemAlloc_v2(&x, sizeof a));
    CHECK(cuMemAlloc_v2(&y, sizeof b));
    CHECK(cuMemAlloc_v2(&z, sizeof c));
    CHECK(cuMemcpyHtoD_v2(x, a, sizeof a));
    CHECK(cuMemcpyHtoD_v2(y, b, sizeof b));
    void *arguments[] = {&x, &y, &z, &n};
    CHECK(cuLaunchKernel(add, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuMemcpyDtoH_v2(c, z, sizeof c));
    for (int i = 0; i < N; i++) {
        if (c[i] != 3.0f * i) {
            fprintf(stderr, "c[%d] = %f\n", i, c[i]);
            return 1;
        }
    }
    printf("%d sums are right\n", N);
    fflush(stdout);
    if (argc > 2 && !strcmp(argv[2], "wait")) pause();
    return 0;
}
