/* A CUDA program that adds vectors until something fails; then prints the error and its text.
   Argument: a PTX file with vector_add. */
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
int cuInit(unsigned);
int cuCtxCreate_v2(CUcontext *, unsigned, int);
int cuCtxSynchronize(void);
int cuModuleLoad(CUmodule *, const char *);
int cuModuleGetFunction(CUfunction *, CUmodule, const char *);
int cuMemAlloc_v2(CUdeviceptr *, size_t);
int cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void *, void **, void **);
int cuGetErrorString(int, const char **);

static void check(int status) {
    const char *text = "";
    if (!status)
        return;
    cuGetErrorString(status, &text);
    printf("%d %s\n", status, text);
    /* It stays so. */
    if (cuCtxSynchronize() != status)
        printf("and then something else\n");
    exit(7);
}

int main(int argc, char **argv) {
    unsigned n = 1000;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr x;
    if (argc < 2)
        return 2;
    check(cuInit(0));
    check(cuCtxCreate_v2(&context, 0, 0));
    check(cuModuleLoad(&module, argv[1]));
    check(cuModuleGetFunction(&function, module, "vector_add"));
    check(cuMemAlloc_v2(&x, n * sizeof(float)));
    for (long round = 0;; round++) {
        void *params[] = {&x, &x, &x, &n};
        check(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
        check(cuCtxSynchronize());
        if (round == 10) {
            printf("at work\n");
            fflush(stdout);
        }
    }
}
