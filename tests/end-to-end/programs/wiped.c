/* Looks for what others left in memory, as it is told on its input, a line each: `take` allocates all
   that there is, in pieces whose sizes follow from a seed, and says how much that is; `check` says how
   many 16 bytes of it are not zero; `fill` sets all of it, and writes to its ends by a kernel and from
   the host; `drop`
   frees them; `left` says how much there is. */
#include "driver.h"
#include <unistd.h>

enum { MOST = 64, THREADS = 256 };

static const char *const KERNELS =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .global .align 4 .u32 found;\n"
    ".visible .entry look(.param .u64 data, .param .u32 words)\n"
    "{\n"
    "    .reg .pred %p;\n    .reg .b32 %i, %n, %x, %y, %z, %w, %step, %count, %old;\n    .reg .b64 %a, %o;\n"
    "    ld.param.u64 %a, [data];\n    ld.param.u32 %n, [words];\n    shr.u32 %n, %n, 2;\n"
    "    mov.u32 %i, %ctaid.x;\n    mov.u32 %x, %ntid.x;\n    mov.u32 %step, %nctaid.x;\n"
    "    mul.lo.u32 %step, %step, %x;\n"
    "    mul.lo.u32 %i, %i, %x;\n    mov.u32 %x, %tid.x;\n    add.u32 %i, %i, %x;\n"
    "    mov.u32 %count, 0;\n"
    "again:\n"
    "    setp.ge.u32 %p, %i, %n;\n    @%p bra done;\n"
    "    mul.wide.u32 %o, %i, 16;\n    add.s64 %o, %a, %o;\n"
    "    ld.global.v4.u32 {%x, %y, %z, %w}, [%o];\n"
    "    or.b32 %x, %x, %y;\n    or.b32 %z, %z, %w;\n    or.b32 %x, %x, %z;\n"
    "    setp.ne.u32 %p, %x, 0;\n    @%p add.u32 %count, %count, 1;\n"
    "    add.u32 %i, %i, %step;\n    bra again;\n"
    "done:\n"
    "    setp.eq.u32 %p, %count, 0;\n    @%p bra end;\n"
    "    mov.u64 %a, found;\n    atom.global.add.u32 %old, [%a], %count;\n"
    "end:\n    ret;\n}\n"
    ".visible .entry mark(.param .u64 data, .param .u32 words)\n"
    "{\n"
    "    .reg .pred %p;\n    .reg .b32 %i, %n, %x, %step;\n    .reg .b64 %a, %o;\n"
    "    ld.param.u64 %a, [data];\n    ld.param.u32 %n, [words];\n"
    "    mov.u32 %i, %ctaid.x;\n    mov.u32 %x, %ntid.x;\n    mov.u32 %step, %nctaid.x;\n"
    "    mul.lo.u32 %step, %step, %x;\n"
    "    mul.lo.u32 %i, %i, %x;\n    mov.u32 %x, %tid.x;\n    add.u32 %i, %i, %x;\n"
    "again:\n"
    "    setp.ge.u32 %p, %i, %n;\n    @%p bra done;\n"
    "    mul.wide.u32 %o, %i, 4;\n    add.s64 %o, %a, %o;\n    st.global.u32 [%o], %step;\n"
    "    add.u32 %i, %i, %step;\n    bra again;\n"
    "done:\n    ret;\n}\n";

static CUdeviceptr made[MOST];
static size_t sizes[MOST];
static int count;
static CUfunction look, mark;
static CUdeviceptr found;

/* Has a kernel work on the first `most` bytes of each piece. */
static void each(CUfunction kernel, size_t most) {
    for (int i = 0; i < count; i++) {
        unsigned words = (sizes[i] < most ? sizes[i] : most) / 4;
        void *arguments[] = {&made[i], &words};
        CHECK(cuLaunchKernel(kernel, 64, 1, 1, THREADS, 1, 1, 0, 0, arguments, 0));
    }
    CHECK(cuCtxSynchronize());
}

static size_t left(void) {
    size_t free = 0, total = 0;
    CHECK(cuMemGetInfo_v2(&free, &total));
    return free / 256 * 256;
}

/* Some pieces of odd sizes, and the rest in one. */
static size_t take(unsigned seed) {
    size_t all = 0;
    for (size_t free; count < MOST && (free = left()) > 0; count++) {
        size_t piece = free;
        seed = seed * 1103515245 + 12345;
        if (count < 4) {
            piece = ((size_t)(seed >> 8) % (free / 4 + 1)) / 256 * 256 + 256;
        }
        sizes[count] = piece < free ? piece : free;
        if (cuMemAlloc_v2(&made[count], sizes[count]) != 0) {
            break;
        }
        all += sizes[count];
    }
    return all;
}

int main(void) {
    CUcontext context;
    CUmodule module;
    size_t bytes;
    char line[64];
    /* A moment ago somebody else may have had all memory: nobody gets a session then. */
    for (int tries = 0; cuInit(0) != 0 && tries < 200; tries++) {
        usleep(50000);
    }
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoadData(&module, KERNELS));
    CHECK(cuModuleGetFunction(&look, module, "look"));
    CHECK(cuModuleGetFunction(&mark, module, "mark"));
    CHECK(cuModuleGetGlobal_v2(&found, &bytes, module, "found"));
    while (fgets(line, sizeof line, stdin) != NULL) {
        unsigned seed = 0, words = 0;
        if (sscanf(line, "take %u", &seed) == 1) {
            printf("%zu\n", take(seed));
        } else if (strcmp(line, "left\n") == 0) {
            printf("%zu\n", left());
        } else if (strcmp(line, "check\n") == 0) {
            CHECK(cuMemcpyHtoD_v2(found, &words, sizeof words));
            each(look, (size_t)-1);
            CHECK(cuMemcpyDtoH_v2(&words, found, sizeof words));
            printf("%u\n", words);
        } else if (strcmp(line, "fill\n") == 0) {
            static unsigned char host[1 << 16];
            memset(host, 0x5a, sizeof host);
            for (int i = 0; i < count; i++) {
                CHECK(cuMemsetD8_v2(made[i], 0xa5, sizes[i]));
            }
            each(mark, 1 << 20);
            for (int i = 0; i < count; i++) {
                size_t part = sizes[i] < sizeof host ? sizes[i] : sizeof host;
                CHECK(cuMemcpyHtoD_v2(made[i] + sizes[i] - part, host, part));
            }
            CHECK(cuCtxSynchronize());
            printf("0\n");
        } else {
            while (count > 0) {
                CHECK(cuMemFree_v2(made[--count]));
            }
            CHECK(cuCtxSynchronize());
            printf("0\n");
        }
        fflush(stdout);
    }
    return 0;
}
