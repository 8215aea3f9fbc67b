/* A kernel with lines of its source reads past its allocation: every call behind it says so, and nothing else does.
   Argument: "past", "freed" or "false". Prints the allocation's address. */
#include "driver.h"

enum { ILLEGAL_ADDRESS = 700, ASSERTED = 710, COUNT = 1024 };

static const char *SAXPY = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d,\n"
                           "  .param .b64 e) .noreturn;\n"
                           ".global .align 1 .b8 said[6] = {120, 32, 60, 32, 121, 0};\n"
                           ".global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};\n"
                           ".visible .entry saxpy(.param .u64 words)\n{\n"
                           "  .reg .b32 %t, %v;\n  .reg .b64 %a, %o;\n"
                           "  .loc 1 10 3\n  ld.param.u64 %a, [words];\n  mov.u32 %t, %tid.x;\n"
                           "  mul.wide.u32 %o, %t, 4;\n  add.u64 %a, %a, %o;\n"
                           "  .loc 1 12 7\n  ld.global.u32 %v, [%a];\n  st.global.u32 [%a], %v;\n  ret;\n}\n"
                           ".visible .entry asserts()\n{\n  .reg .b64 %m, %f;\n"
                           "  .param .b64 a;\n  .param .b64 b;\n  .param .b32 c;\n  .param .b64 d;\n  .param .b64 e;\n"
                           "  mov.u64 %m, said;\n  cvta.global.u64 %m, %m;\n  mov.u64 %f, file;\n"
                           "  cvta.global.u64 %f, %f;\n"
                           "  st.param.b64 [a], %m;\n  st.param.b64 [b], %f;\n  st.param.b32 [c], 7;\n"
                           "  st.param.b64 [d], %f;\n  st.param.b64 [e], 1;\n"
                           "  call.uni __assertfail, (a, b, c, d, e);\n  ret;\n}\n"
                           ".file 1 \"src/saxpy.cu\"\n";

int main(int argc, char **argv) {
    CUcontext context;
    CUmodule module;
    CUfunction saxpy, asserts;
    CUdeviceptr words, other;
    if (argc < 2) return 2;
    int wanted = strcmp(argv[1], "false") ? ILLEGAL_ADDRESS : ASSERTED;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoadData(&module, SAXPY));
    CHECK(cuModuleGetFunction(&saxpy, module, "saxpy"));
    CHECK(cuModuleGetFunction(&asserts, module, "asserts"));
    CHECK(cuMemAlloc_v2(&words, COUNT * sizeof(unsigned)));
    CUdeviceptr from = words + (COUNT - 37) * sizeof(unsigned);
    void *parameters[] = {&from};
    printf("%#llx\n", words);
    if (!strcmp(argv[1], "freed")) CHECK(cuMemFree_v2(words));
    CHECK(cuLaunchKernel(wanted == ASSERTED ? asserts : saxpy, 1, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
    ANSWERS(wanted, cuCtxSynchronize());
    ANSWERS(wanted, cuCtxSynchronize());
    ANSWERS(wanted, cuMemAlloc_v2(&other, 4));
    return 0;
}
