/* Allocates and frees as it is told on its input, a line each, and answers each line with the status
   of the call: `alloc BYTES`, `free` (the allocation made last), `info`, `work` (writes to the
   allocation made last, has a kernel double it whose block takes 4 MiB, and reads it back). */
#include "driver.h"

static const char *const KERNEL =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry twice(.param .u64 word)\n"
    "{\n"
    "    .local .align 4 .b8 own[4096];\n"
    "    .reg .pred %p;\n    .reg .b32 %x, %y, %t;\n    .reg .b64 %a, %o;\n"
    "    ld.param.u64 %a, [word];\n"
    "    mov.u32 %t, %tid.x;\n"
    "    mov.u64 %o, own;\n"
    "    st.local.u32 [%o], %t;\n"
    "    ld.local.u32 %y, [%o];\n"
    "    setp.ne.u32 %p, %y, 0;\n"
    "    @%p bra done;\n"
    "    ld.global.u32 %x, [%a];\n"
    "    add.u32 %x, %x, %x;\n"
    "    st.global.u32 [%a], %x;\n"
    "done:\n    ret;\n}\n";

enum { MOST = 64 };

static CUdeviceptr made[MOST];
static int count;
static CUfunction twice;

static int work(void) {
    unsigned word = 7, back = 0;
    int status = 0;
    if (count > 0) {
        void *arguments[] = {&made[count - 1]};
        status = cuMemcpyHtoD_v2(made[count - 1], &word, sizeof word);
        if (status == 0) {
            status = cuLaunchKernel(twice, 1, 1, 1, 1024, 1, 1, 0, 0, arguments, 0);
        }
        if (status == 0) {
            status = cuMemcpyDtoH_v2(&back, made[count - 1], sizeof back);
        }
        if (status == 0 && back != 2 * word) {
            return -1;
        }
    }
    return status == 0 ? cuCtxSynchronize() : status;
}

int main(void) {
    CUcontext context;
    CUmodule module;
    char line[64];
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoadData(&module, KERNEL));
    CHECK(cuModuleGetFunction(&twice, module, "twice"));
    while (fgets(line, sizeof line, stdin) != NULL) {
        size_t free = 0, total = 0;
        unsigned long bytes = 0;
        if (sscanf(line, "alloc %lu", &bytes) == 1) {
            int status = cuMemAlloc_v2(&made[count], bytes);
            count += status == 0;
            printf("%d\n", status);
        } else if (strcmp(line, "free\n") == 0) {
            printf("%d\n", cuMemFree_v2(made[--count]));
        } else if (strcmp(line, "info\n") == 0) {
            CHECK(cuMemGetInfo_v2(&free, &total));
            printf("%zu of %zu\n", free, total);
        } else {
            printf("%d\n", work());
        }
        fflush(stdout);
    }
    return 0;
}
