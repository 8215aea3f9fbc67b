// A tenant that does something wrong, once, and says which code the driver gave it.
//
//     culprit illegal_address | misaligned | assert | stack | endless | oom | load_bomb
//             [--seconds S] [--scale F] [--blocks N] [--limit BYTES] [--no-load] [--functions N] [--seed N]
//
// Prints one line: {"what", "expected", "got", "at", "call", "begun", ...}. `expected` lists the documented codes,
// with "|" between them; `call` is the function that gave `got`. The times are seconds of the monotonic clock;
// `begun` is when the bad work was given to the driver. Exit codes: 0 if `got` is expected, else 1; 2 (called
// wrongly). Everything ends by itself: `endless` after --seconds, by the device's own clock.
#include "driver.h"

#include <getopt.h>

enum { PIECES = 4096, MODULES = 50 };
static const size_t GIB = 1 << 30, LARGE_GLOBAL = 64 << 20, SMALLEST_PIECE = 64 << 10;

#define HEAD ".version 7.0\n.target sm_80\n.address_size 64\n"

// Page 0 is never mapped.
static const char ILLEGAL[] = HEAD
    ".visible .entry wild(.param .u64 address) {\n"
    ".reg .u32 %r;\n.reg .u64 %rd;\n"
    "ld.param.u64 %rd, [address];\nmov.u32 %r, 1;\nst.global.u32 [%rd], %r;\nret;\n}\n";

static const char ASSERT[] = HEAD
    ".extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function,\n"
    "                           .param .b64 size);\n"
    ".global .align 1 .b8 message[9] = {99, 117, 108, 112, 97, 98, 108, 101, 0};\n"
    ".global .align 1 .b8 file[10] = {99, 117, 108, 112, 114, 105, 116, 46, 99, 0};\n"
    ".visible .entry fails() {\n"
    ".reg .u32 %line;\n.reg .u64 %m, %f, %one;\n"
    "mov.u64 %m, message;\ncvta.global.u64 %m, %m;\nmov.u64 %f, file;\ncvta.global.u64 %f, %f;\n"
    "mov.u32 %line, 1;\nmov.u64 %one, 1;\n"
    "{\n.param .b64 a;\n.param .b64 b;\n.param .b32 c;\n.param .b64 d;\n.param .b64 e;\n"
    "st.param.b64 [a+0], %m;\nst.param.b64 [b+0], %f;\nst.param.b32 [c+0], %line;\n"
    "st.param.b64 [d+0], %m;\nst.param.b64 [e+0], %one;\n"
    "call.uni __assertfail, (a, b, c, d, e);\n}\n"
    "ret;\n}\n";

// Ends when the flag is set, which does not happen, or when so many nanoseconds have passed.
static const char ENDLESS[] = HEAD
    ".visible .entry endless(.param .u64 flag, .param .u64 limit) {\n"
    ".reg .u32 %r;\n.reg .u64 %flag, %limit, %begun, %now;\n.reg .pred %p;\n"
    "ld.param.u64 %flag, [flag];\ncvta.to.global.u64 %flag, %flag;\nld.param.u64 %limit, [limit];\n"
    "mov.u64 %begun, %globaltimer;\n"
    "again:\n"
    "ld.volatile.global.u32 %r, [%flag];\nsetp.ne.u32 %p, %r, 0;\n@%p bra over;\n"
    "mov.u64 %now, %globaltimer;\nsub.u64 %now, %now, %begun;\n"
    "setp.lt.u64 %p, %now, %limit;\n@%p bra again;\n"
    "over:\nret;\n}\n";

// Each call has 256 bytes of its own, used behind the inner call, so that no compiler makes a loop of it.
static const char STACK[] = HEAD
    ".func (.param .b32 result) deeper(.param .b32 depth);\n"
    ".func (.param .b32 result) deeper(.param .b32 depth) {\n"
    ".local .align 8 .b8 own[256];\n"
    ".reg .u32 %r<6>;\n.reg .u64 %rd<3>;\n.reg .pred %p;\n"
    "ld.param.b32 %r0, [depth];\n"
    "mov.u64 %rd0, own;\nand.b32 %r1, %r0, 63;\nmul.wide.u32 %rd1, %r1, 4;\nadd.u64 %rd1, %rd0, %rd1;\n"
    "st.local.u32 [%rd1], %r0;\n"
    "mov.u32 %r4, 0;\nsetp.eq.u32 %p, %r0, 0;\n@%p bra over;\n"
    "sub.u32 %r2, %r0, 1;\n"
    "{\n.param .b32 inner;\n.param .b32 got;\nst.param.b32 [inner+0], %r2;\n"
    "call.uni (got), deeper, (inner);\nld.param.b32 %r3, [got+0];\n}\n"
    "ld.local.u32 %r4, [%rd1];\nadd.u32 %r4, %r4, %r3;\n"
    "over:\nst.param.b32 [result+0], %r4;\nret;\n}\n"
    ".visible .entry recursion(.param .u64 result, .param .u32 depth) {\n"
    ".reg .u32 %r<3>;\n.reg .u64 %rd;\n"
    "ld.param.u64 %rd, [result];\ncvta.to.global.u64 %rd, %rd;\nld.param.u32 %r0, [depth];\n"
    "{\n.param .b32 outer;\n.param .b32 got;\nst.param.b32 [outer+0], %r0;\n"
    "call.uni (got), deeper, (outer);\nld.param.b32 %r1, [got+0];\n}\n"
    "st.global.u32 [%rd], %r1;\nret;\n}\n";

// What is done, how it may end, and what is printed besides.
struct Deed {
    const char *what;
    int codes[6];
    void (*run)(void);
};

static const struct Deed *deed;
static double begun;
static char besides[512];
static struct {
    double seconds, scale;
    unsigned blocks, functions;
    int no_load;
    size_t limit;
    uint64_t seed;
} options = {.seconds = 20, .scale = 1, .blocks = 1, .functions = 100};

static const char *name_of(int code) {
    const char *text = NULL;
    int (*says)(int, const char **) = (int (*)(int, const char **))dlsym(driver_library, "cuGetErrorName");
    if (says) says(code, &text);
    return text ? text : "CUDA_ERROR_UNKNOWN";
}

// Prints the line and ends the program.
static void tell(const char *call, int code, int may_be_well) {
    int known = 0;
    printf("{\"what\":\"%s\",\"expected\":\"", deed->what);
    for (int at = 0; at < 6 && deed->codes[at] >= 0; at++) {
        printf("%s%s", at ? "|" : "", name_of(deed->codes[at]));
        known |= deed->codes[at] == code;
    }
    printf("\",\"got\":\"%s\",\"at\":%.6f,\"call\":\"%s\",\"begun\":%.6f%s}\n", name_of(code), now(), call, begun,
           besides);
    exit(known && may_be_well ? 0 : 1);
}

// Calls what must succeed; otherwise the deed has failed before it was done.
#define NEED(name, ...)                          \
    do {                                         \
        int code_ = TRY(name, __VA_ARGS__);      \
        if (code_) tell(#name, code_, 0);        \
    } while (0)

// Calls what may be given the deed's code.
#define DEED(name, ...)                          \
    do {                                         \
        int code_ = TRY(name, __VA_ARGS__);      \
        if (code_) tell(#name, code_, 1);        \
    } while (0)

static void open_device(void) {
    int device;
    CUhandle context;
    driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver_library) {
        fprintf(stderr, "culprit: %s\n", dlerror());
        exit(1);
    }
    NEED(cuInit, 0);
    NEED(cuDeviceGet, &device, 0);
    NEED(cuDevicePrimaryCtxRetain, &context, device);
    NEED(cuCtxSetCurrent, context);
}

static CUhandle function_of(const char *ptx, const char *name) {
    CUhandle module, function;
    NEED(cuModuleLoadData, &module, ptx);
    NEED(cuModuleGetFunction, &function, module, name);
    return function;
}

// Launches a kernel and waits; the first code is the deed's.
static void launch(CUhandle function, void **arguments) {
    begun = now();
    DEED(cuLaunchKernel, function, options.blocks, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL);
    DEED(cuCtxSynchronize);
    tell("cuCtxSynchronize", 0, 1);
}

static CUdeviceptr memory(size_t bytes) {
    CUdeviceptr address;
    NEED(cuMemAlloc_v2, &address, bytes);
    NEED(cuMemsetD8_v2, address, 0, bytes);
    NEED(cuCtxSynchronize);
    return address;
}

static void illegal_address(void) {
    CUdeviceptr address = 64;
    launch(function_of(ILLEGAL, "wild"), (void *[]){&address});
}

static void misaligned(void) {
    CUdeviceptr address = memory(4096) + 2;
    launch(function_of(ILLEGAL, "wild"), (void *[]){&address});
}

static void assertion(void) {
    launch(function_of(ASSERT, "fails"), NULL);
}

static void stack(void) {
    CUdeviceptr result = memory(4096);
    uint32_t depth = 1 << 20;
    launch(function_of(STACK, "recursion"), (void *[]){&result, &depth});
}

static void endless(void) {
    CUdeviceptr flag = memory(4096);
    uint64_t limit = (uint64_t)(options.seconds * 1e9);
    launch(function_of(ENDLESS, "endless"), (void *[]){&flag, &limit});
}

// Allocates in pieces until the driver refuses the smallest, or the limit is reached; the value is the last code.
static int fill(CUdeviceptr *pieces, unsigned *count, size_t *held) {
    int code = 0;
    for (size_t piece = GIB; piece >= SMALLEST_PIECE && *count < PIECES;) {
        if (options.limit && *held + piece > options.limit) {
            piece /= 2;
            continue;
        }
        code = TRY(cuMemAlloc_v2, &pieces[*count], piece);
        if (code == 2) {
            piece /= 2;
        } else if (code) {
            tell("cuMemAlloc_v2", code, 0);
        } else {
            *held += piece;
            *count += 1;
        }
    }
    return code;
}

// Loads a module with a large array and looks for it, as drivers may load late; the value is the first code.
static int load_large(const char **call) {
    char ptx[256];
    size_t bytes = 0, wanted = (size_t)(LARGE_GLOBAL * options.scale) / 4096 * 4096 + 4096;
    CUhandle module;
    CUdeviceptr array;
    snprintf(ptx, sizeof ptx, HEAD ".visible .global .align 16 .b8 large[%zu];\n", wanted);
    *call = "cuModuleLoadData";
    int code = TRY(cuModuleLoadData, &module, ptx);
    if (code) return code;
    *call = "cuModuleGetGlobal_v2";
    code = TRY(cuModuleGetGlobal_v2, &array, &bytes, module, "large");
    if (!code) code = TRY(cuMemsetD8_v2, array, 1, bytes);
    if (!code) code = TRY(cuCtxSynchronize);
    TRY(cuModuleUnload, module);
    return code;
}

// Frees the pieces, then uses memory anew; the value is the first code, of `call`.
static int go_on(const CUdeviceptr *pieces, unsigned count, const char **call) {
    CUdeviceptr address;
    uint32_t got[4] = {0};
    int code = 0;
    *call = "cuMemFree_v2";
    for (unsigned at = 0; !code && at < count; at++) code = TRY(cuMemFree_v2, pieces[at]);
    if (code) return code;
    *call = "cuMemAlloc_v2";
    if ((code = TRY(cuMemAlloc_v2, &address, SMALLEST_PIECE))) return code;
    *call = "cuMemsetD32_v2";
    if ((code = TRY(cuMemsetD32_v2, address, 7, (size_t)4))) return code;
    *call = "cuMemcpyDtoH_v2";
    if ((code = TRY(cuMemcpyDtoH_v2, got, address, sizeof got))) return code;
    *call = "cuMemFree_v2";
    if (got[0] != 7 || got[3] != 7) return 999;
    return TRY(cuMemFree_v2, address);
}

static void oom(void) {
    static CUdeviceptr pieces[PIECES];
    unsigned count = 0;
    size_t held = 0;
    const char *call = NULL, *after;
    begun = now();
    int allocation = fill(pieces, &count, &held);
    double filled = now();
    int load = options.no_load ? 0 : load_large(&call), later = go_on(pieces, count, &after);
    snprintf(besides, sizeof besides,
             ",\"allocation\":\"%s\",\"load\":\"%s\",\"bytes\":%zu,\"pieces\":%u,\"fill_seconds\":%.6f,\"goes_on\":%s",
             name_of(allocation), name_of(load), held, count, filled - begun, later ? "false" : "true");
    if (later) fprintf(stderr, "culprit: after the load %s: %s (%d)\n", after, name_of(later), later);
    // A load that has room is as good where the limit left some, or where code has memory of its own.
    if (load) tell(call, load, !later);
    tell("cuMemAlloc_v2", allocation, !later && (allocation == 2 || options.limit));
}

// Writes a module of many functions that no cache has seen; the first one writes `seed`'s lower half.
static void write_module(char *ptx, size_t size, uint64_t seed) {
    size_t at = (size_t)snprintf(ptx, size, HEAD);
    for (unsigned function = 0; function < options.functions; function++) {
        at += (size_t)snprintf(
            ptx + at, size - at,
            ".visible .entry f%u(.param .u64 result) {\n.reg .u32 %%r<4>;\n.reg .u64 %%rd;\n.reg .f32 %%f<2>;\n"
            "ld.param.u64 %%rd, [result];\ncvta.to.global.u64 %%rd, %%rd;\nmov.u32 %%r0, %%tid.x;\n"
            "cvt.rn.f32.u32 %%f0, %%r0;\nmov.f32 %%f1, %%f0;\n",
            function);
        for (unsigned line = 0; line < 40; line++) {
            uint32_t word = ((uint32_t)seed * 0x9E3779B1u + function * 41 + line) * 0x85EBCA77u;
            at += (size_t)snprintf(ptx + at, size - at,
                                   "mad.lo.u32 %%r0, %%r0, %u, %u;\nsin.approx.f32 %%f0, %%f0;\n"
                                   "fma.rn.f32 %%f1, %%f0, 0f%08X, %%f1;\n",
                                   word | 1, word >> 7, 0x3F000000u | (word & 0x7FFFFFu));
        }
        at += (size_t)snprintf(ptx + at, size - at,
                               "mov.u32 %%r1, %u;\nst.global.u32 [%%rd], %%r1;\nst.global.u32 [%%rd+4], %%r0;\n"
                               "st.global.f32 [%%rd+8], %%f1;\nret;\n}\n",
                               (uint32_t)seed + function);
    }
}

static void load_bomb(void) {
    size_t size = 4096 + (size_t)options.functions * 8192;
    char *ptx = malloc(size);
    CUdeviceptr result = memory(4096);
    double slowest = 0;
    unsigned loaded = 0;
    begun = now();
    for (; ptx && loaded < MODULES && now() < begun + options.seconds; loaded++) {
        CUhandle module, function;
        uint32_t got = 0, wanted = (uint32_t)(options.seed + loaded);
        write_module(ptx, size, options.seed + loaded);
        double from = now();
        DEED(cuModuleLoadData, &module, ptx);
        slowest = now() - from > slowest ? now() - from : slowest;
        DEED(cuModuleGetFunction, &function, module, "f0");
        NEED(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&result}, NULL);
        NEED(cuMemcpyDtoH_v2, &got, result, sizeof got);
        if (got != wanted) tell("f0", 999, 0);
        NEED(cuModuleUnload, module);
    }
    snprintf(besides, sizeof besides, ",\"modules\":%u,\"functions\":%u,\"slowest_load\":%.6f", loaded,
             options.functions, slowest);
    tell("cuModuleLoadData", 0, 1);
}

// The codes: errors.md's, and those that NVIDIA's driver gives for the same.
static const struct Deed DEEDS[] = {
    {"illegal_address", {700, -1}, illegal_address},
    {"misaligned", {716, -1}, misaligned},
    {"assert", {710, -1}, assertion},
    {"stack", {719, 714, 718, 700, -1}, stack},
    {"endless", {702, 0, -1}, endless},
    {"oom", {2, 0, -1}, oom},
    {"load_bomb", {0, 2, -1}, load_bomb},
};

static void usage(void) {
    fprintf(stderr, "usage: culprit WHAT [--seconds S] [--scale F] [--blocks N] [--limit BYTES] [--no-load]"
                    " [--functions N] [--seed N]; WHAT is");
    for (size_t at = 0; at < sizeof DEEDS / sizeof *DEEDS; at++) fprintf(stderr, " %s", DEEDS[at].what);
    fprintf(stderr, "\n");
    exit(2);
}

static void parse(int count, char **arguments) {
    static const struct option KNOWN[] = {
        {"seconds", 1, NULL, 's'}, {"scale", 1, NULL, 'f'},     {"blocks", 1, NULL, 'b'},
        {"limit", 1, NULL, 'l'},   {"functions", 1, NULL, 'n'}, {"seed", 1, NULL, 'r'},
        {"no-load", 0, NULL, 'o'}, {0},
    };
    // Differs between runs, so that no cache has the modules.
    options.seed = (uint64_t)(now() * 1e6) << 8;
    for (int found; (found = getopt_long(count, arguments, "", KNOWN, NULL)) != -1;) {
        switch (found) {
        case 's': options.seconds = atof(optarg); break;
        case 'f': options.scale = atof(optarg); break;
        case 'b': options.blocks = (unsigned)strtoul(optarg, NULL, 0); break;
        case 'l': options.limit = strtoull(optarg, NULL, 0); break;
        case 'n': options.functions = (unsigned)strtoul(optarg, NULL, 0); break;
        case 'o': options.no_load = 1; break;
        case 'r': options.seed = strtoull(optarg, NULL, 0); break;
        default: usage();
        }
    }
    if (!(options.seconds > 0 && options.seconds <= 3600) || !(options.scale > 0 && options.scale <= 1)) usage();
    if (optind + 1 != count || !options.blocks || !options.functions || options.functions > 10000) usage();
    for (size_t at = 0; at < sizeof DEEDS / sizeof *DEEDS; at++) {
        if (!strcmp(arguments[optind], DEEDS[at].what)) deed = &DEEDS[at];
    }
    if (!deed) usage();
    options.functions = (unsigned)(options.functions * options.scale + 0.999);
}

int main(int count, char **arguments) {
    parse(count, arguments);
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    open_device();
    deed->run();
    return 1;
}
