/* Meets errors of calls and goes on: two images and a kernel that cannot run, and twice an allocation that has no
   room. Then it runs a kernel, and waits. */
#include "driver.h"

#include "add.h"

enum { OUT_OF_MEMORY = 2, INVALID_PTX = 218, COUNT = 1024 };

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

int main(void) {
    CUcontext context;
    CUmodule module;
    CUfunction add, bad;
    CUdeviceptr words, much;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    /* No request is under way. The parser refuses the first image, and the device the second one. */
    ANSWERS(INVALID_PTX, cuModuleLoadData(&module, HEAD ".visible .entry f() {\n  .reg .b32 %r<2;\n}\n"));
    ANSWERS(INVALID_PTX, cuModuleLoadData(&module, HEAD ".visible .entry f() {\n  frobnicate;\n  ret;\n}\n"));
    /* An image with one such kernel loads; its launch fails. */
    CHECK(cuModuleLoadData(&module, HEAD ".visible .entry good() { ret; }\n"
                                         ".visible .entry bad() {\n  frobnicate;\n  ret;\n}\n"));
    CHECK(cuModuleGetFunction(&bad, module, "bad"));
    ANSWERS(INVALID_PTX, cuLaunchKernel(bad, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuMemAlloc_v2(&words, COUNT * sizeof(unsigned)));
    ANSWERS(OUT_OF_MEMORY, cuMemAlloc_v2(&much, (size_t)1 << 40));
    ANSWERS(OUT_OF_MEMORY, cuMemAlloc_v2(&much, (size_t)1 << 40));
    unsigned start[COUNT] = {0}, by = 3, count = COUNT, last = 0;
    void *arguments[] = {&words, &by, &count};
    CHECK(cuMemcpyHtoD_v2(words, start, sizeof start));
    CHECK(cuModuleLoadData(&module, ADD));
    CHECK(cuModuleGetFunction(&add, module, "add"));
    CHECK(cuLaunchKernel(add, COUNT / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuMemcpyDtoH_v2(&last, words + (COUNT - 1) * sizeof last, sizeof last));
    ASSERT(last == 3);
    return 0;
}
