/* Holds memory and works on it as it is told on its input, a line each: `take MIB SEED` allocates so many
   MiB beside what it has and has a kernel fill them; `turn SEED NEXT` has a kernel count the words that
   are not what SEED says and make them what NEXT says, and says the count; `work SEED TIMES` does the same
   so many times without saying a word in between; `info`; `drop` frees what was taken last. A variable of
   the module counts the turns, and `turn` says -1 where it does not. */
#include "driver.h"

enum { MOST = 64, THREADS = 256 };

static const char *const KERNELS =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .global .align 4 .u32 wrong;\n"
    ".visible .global .align 4 .u32 turns;\n"
    ".visible .entry turn(.param .u64 data, .param .u32 words, .param .u32 seed, .param .u32 next,\n"
    "    .param .u32 check)\n"
    "{\n"
    "    .reg .pred %p;\n    .reg .b32 %i, %n, %x, %step, %seed, %next, %want, %count, %check;\n"
    "    .reg .b64 %a, %o;\n"
    "    ld.param.u64 %a, [data];\n    ld.param.u32 %n, [words];\n"
    "    ld.param.u32 %seed, [seed];\n    ld.param.u32 %next, [next];\n    ld.param.u32 %check, [check];\n"
    "    mov.u32 %i, %ctaid.x;\n    mov.u32 %x, %ntid.x;\n    mov.u32 %step, %nctaid.x;\n"
    "    mul.lo.u32 %step, %step, %x;\n    mul.lo.u32 %i, %i, %x;\n    mov.u32 %x, %tid.x;\n"
    "    add.u32 %i, %i, %x;\n    mov.u32 %count, 0;\n"
    "again:\n"
    "    setp.ge.u32 %p, %i, %n;\n    @%p bra done;\n"
    "    mul.wide.u32 %o, %i, 4;\n    add.s64 %o, %a, %o;\n"
    "    ld.global.u32 %x, [%o];\n"
    "    mul.lo.u32 %want, %i, -1640531535;\n    add.u32 %want, %want, %seed;\n"
    "    setp.ne.u32 %p, %x, %want;\n    @%p add.u32 %count, %count, %check;\n"
    "    mul.lo.u32 %want, %i, -1640531535;\n    add.u32 %want, %want, %next;\n"
    "    st.global.u32 [%o], %want;\n"
    "    add.u32 %i, %i, %step;\n    bra again;\n"
    "done:\n"
    "    setp.eq.u32 %p, %count, 0;\n    @%p bra end;\n"
    "    mov.u64 %a, wrong;\n    atom.global.add.u32 %x, [%a], %count;\n"
    "end:\n    ret;\n}\n"
    ".visible .entry count()\n"
    "{\n    .reg .b32 %x;\n    ld.global.u32 %x, [turns];\n    add.u32 %x, %x, 1;\n"
    "    st.global.u32 [turns], %x;\n    ret;\n}\n";

static CUdeviceptr made[MOST], wrong, turns;
static unsigned words[MOST], turned;
static int held;
static CUfunction turn, count;

static void launch(int which, unsigned seed, unsigned next, unsigned check) {
    void *arguments[] = {&made[which], &words[which], &seed, &next, &check};
    CHECK(cuLaunchKernel(turn, 16, 1, 1, THREADS, 1, 1, 0, 0, arguments, 0));
}

/* Counts what is wrong, and makes all that it holds what `next` says. */
static long all(unsigned seed, unsigned next, int times) {
    unsigned bad = 0, said = 0;
    CHECK(cuMemcpyHtoD_v2(wrong, &bad, sizeof bad));
    for (int time = 0; time < times; time++) {
        for (int which = 0; which < held; which++) {
            launch(which, seed, next, 1);
        }
        CHECK(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0));
        turned++;
        seed = next;
    }
    CHECK(cuMemcpyDtoH_v2(&bad, wrong, sizeof bad));
    CHECK(cuMemcpyDtoH_v2(&said, turns, sizeof said));
    return said == turned ? (long)bad : -1;
}

int main(void) {
    CUcontext context;
    CUmodule module;
    size_t bytes, total;
    char line[64];
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoadData(&module, KERNELS));
    CHECK(cuModuleGetFunction(&turn, module, "turn"));
    CHECK(cuModuleGetFunction(&count, module, "count"));
    CHECK(cuModuleGetGlobal_v2(&wrong, &bytes, module, "wrong"));
    CHECK(cuModuleGetGlobal_v2(&turns, &bytes, module, "turns"));
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned mib, seed, next, times;
        int status = 0;
        if (sscanf(line, "take %u %u", &mib, &seed) == 2) {
            words[held] = mib << 18;
            status = cuMemAlloc_v2(&made[held], (size_t)mib << 20);
            if (status == 0) {
                launch(held++, 0, seed, 0);
                status = cuCtxSynchronize();
            }
            printf("%d\n", status);
        } else if (sscanf(line, "turn %u %u", &seed, &next) == 2) {
            printf("%ld\n", all(seed, next, 1));
        } else if (sscanf(line, "work %u %u", &seed, &times) == 2) {
            printf("%ld\n", all(seed, seed, (int)times));
        } else if (strcmp(line, "info\n") == 0) {
            CHECK(cuMemGetInfo_v2(&bytes, &total));
            printf("%zu of %zu\n", bytes, total);
        } else {
            CHECK(cuMemFree_v2(made[--held]));
            CHECK(cuCtxSynchronize());
            printf("0\n");
        }
        fflush(stdout);
    }
    return 0;
}
