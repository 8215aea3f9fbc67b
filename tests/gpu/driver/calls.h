// Calls that the driver may refuse: the figure that needed the call is given up, and its reason is kept.
//
// `if (!ATTEMPT()) { DO(cuMemAlloc_v2, &address, bytes); ... } else puts(reason);` A call that fails in `DO` goes
// back to the last ATTEMPT of the program. Only the thread that attempted may use `DO`; others use `CODE`.
#ifndef WARPLOOM_CALLS_H
#define WARPLOOM_CALLS_H

#include "driver.h"

#include <setjmp.h>

static jmp_buf attempted;
static char reason[200];

#define ATTEMPT() setjmp(attempted)

// Stands in for a function that the driver lacks: CUDA_ERROR_NOT_FOUND.
static inline int call_missing() { return 500; }

// Calls a function, looked up once at each place; the value is its code.
#define CODE(name, ...)                                              \
    ({                                                               \
        static int (*found_)();                                      \
        if (!found_) {                                               \
            void *at_ = dlsym(driver_library, #name);                \
            found_ = at_ ? (int (*)())at_ : call_missing;            \
        }                                                            \
        found_(__VA_ARGS__);                                         \
    })

#define DO(name, ...)                                    \
    do {                                                 \
        int code_ = CODE(name, __VA_ARGS__);             \
        if (code_) call_refused(#name, code_);           \
    } while (0)

// The name of a code.
static inline const char *code_name(int code) {
    const char *text = NULL;
    int (*says)(int, const char **) = (int (*)(int, const char **))dlsym(driver_library, "cuGetErrorName");
    if (says) says(code, &text);
    return text ? text : "an unknown code";
}

// Gives up what the last ATTEMPT began.
static _Noreturn inline void give_up(const char *why) {
    snprintf(reason, sizeof reason, "%s", why);
    longjmp(attempted, 1);
}

static _Noreturn inline void call_refused(const char *name, int code) {
    char why[200];
    snprintf(why, sizeof why, "%s: %s", name, code_name(code));
    give_up(why);
}

// Launches a function in one dimension.
static inline void start(CUhandle function, unsigned grid, unsigned block, CUhandle stream, void **arguments) {
    DO(cuLaunchKernel, function, grid, 1u, 1u, block, 1u, 1u, 0u, stream, arguments, NULL);
}

static inline CUhandle loaded(const char *ptx) {
    CUhandle module;
    DO(cuModuleLoadData, &module, ptx);
    return module;
}

static inline CUhandle function_of(CUhandle module, const char *name) {
    CUhandle function;
    DO(cuModuleGetFunction, &function, module, name);
    return function;
}

// A stream that does not wait for the legacy one.
static inline CUhandle new_stream(void) {
    CUhandle stream;
    DO(cuStreamCreate, &stream, 1u);
    return stream;
}

// --- kernels that both programs use

// `busy` runs `count` dependent multiply-adds a thread, eight a turn of its loop: 4 cycles each, so 5,000 take about
// 11 us at 1.75 GHz.
#define FMA "  fma.rn.f32 %x, %x, 0f3F7FBE77, 0f3F800000;\n"
static const char *const KERNELS =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry nothing() { ret; }\n"
    ".visible .entry busy(.param .u64 out, .param .u32 count) {\n"
    "  .reg .u64 %o; .reg .u32 %n, %i, %t, %b, %d; .reg .f32 %x; .reg .pred %p;\n"
    "  ld.param.u64 %o, [out]; ld.param.u32 %n, [count];\n"
    "  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %t, %b, %d, %t;\n"
    "  cvt.rn.f32.u32 %x, %t; mov.u32 %i, 0;\n"
    "again:\n" FMA FMA FMA FMA FMA FMA FMA FMA
    "  add.u32 %i, %i, 8; setp.lt.u32 %p, %i, %n; @%p bra again;\n"
    "  setp.ne.u32 %p, %t, 0; @%p bra end; st.global.f32 [%o], %x;\n"
    "end: ret;\n}\n";

// PTX of so many functions with constants that no cache has seen.
static inline char *fresh_ptx(int functions) {
    static uint32_t fresh;
    if (!fresh) fresh = (uint32_t)(now() * 1e6) ^ (uint32_t)getpid() << 16;
    char *text = malloc(200 + (size_t)functions * 320), *end = text;
    end += sprintf(end, ".version 7.0\n.target sm_80\n.address_size 64\n");
    for (int i = 0; i < functions; i++)
        end += sprintf(end,
                       ".visible .entry f%d(.param .u64 out) { .reg .u64 %%o; .reg .u32 %%x;\n"
                       " ld.param.u64 %%o, [out]; mov.u32 %%x, %%tid.x; mad.lo.u32 %%x, %%x, %u, %u;\n"
                       " st.global.u32 [%%o], %%x; ret; }\n",
                       i, fresh + i, fresh ^ i);
    fresh += functions;
    return text;
}

// --- figures

static double scale = 1;

// A count, shortened by the scale.
static inline int counted(int full, int least) {
    int count = (int)(full * scale);
    return count < least ? least : count;
}

static inline int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median_of(double *all, int count) {
    qsort(all, count, sizeof all[0], ascending);
    return all[count / 2];
}

// Ends a program whose bytes came back wrong.
static _Noreturn inline void wrong_byte(size_t at, size_t bytes) {
    fprintf(stderr, "byte %zu of a copy of %zu came back wrong\n", at, bytes);
    exit(3);
}

#endif
