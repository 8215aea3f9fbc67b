// A tenant that holds much memory and touches all of it in turns.
//
//     hog --bytes N [--turns T] [--hold S] [--by-line] [--seed N] [--scale F]
//
// Fills N bytes (times the scale) with a pattern. Each turn checks every word on the device, counts the wrong ones,
// and writes the next turn's pattern, so that an old copy of the memory is found. After a turn the program is idle
// for --hold seconds. With --by-line each turn, the first one too, waits for a line on stdin; the end of stdin ends
// the program. Exit codes: 0, 1 (no driver), 2 (called wrongly), 3 (a wrong word), 4 (a CUDA error).
#include "driver.h"

#include <getopt.h>
#include <math.h>

enum { BLOCK = 256, MOST_BLOCKS = 4096, MOST_PIECES = 4096 };
static const uint64_t PIECE = 1 << 30;

// Word k's pattern is a hash of k and the turn's seed: `%h` from `%lo`, `%hi` (the word's number) and a seed.
#define PATTERN(seed)                                                                                        \
    "mad.lo.u32 %h, %lo, 0x9E3779B1, " seed ";\nmad.lo.u32 %h, %hi, 0x85EBCA77, %h;\n"                       \
    "shr.u32 %t, %h, 16;\nxor.b32 %h, %h, %t;\nmul.lo.u32 %h, %h, 0x7FEB352D;\n"                             \
    "shr.u32 %t, %h, 15;\nxor.b32 %h, %h, %t;\n"

// Four words begin at a multiple of four, so only the lower half of their number differs.
#define FILL(word) PATTERN("%seed") "mov.u32 " word ", %h;\nadd.u32 %lo, %lo, 1;\n"
#define CHECK(word)                                                                                          \
    PATTERN("%seed") "setp.ne.u32 %p, %h, " word ";\n@%p add.u32 %wrong, %wrong, 1;\n"                       \
    PATTERN("%next") "mov.u32 " word ", %h;\nadd.u32 %lo, %lo, 1;\n"

// Visits 16 bytes at a time: `%at` is their place, `%i` their number in the piece.
#define BEGIN                                                                                                \
    ".reg .u32 %a, %b, %c, %lo, %hi, %h, %t, %seed, %next, %wrong, %x, %y, %z, %w;\n"                        \
    ".reg .u64 %base, %vectors, %first, %i, %step, %at, %k, %count, %total;\n.reg .pred %p;\n"               \
    "ld.param.u64 %base, [base];\ncvta.to.global.u64 %base, %base;\nld.param.u64 %vectors, [vectors];\n"     \
    "ld.param.u64 %first, [first];\nld.param.u32 %seed, [seed];\n"                                           \
    "mov.u32 %a, %ctaid.x;\nmov.u32 %b, %ntid.x;\nmov.u32 %c, %tid.x;\n"                                     \
    "mul.wide.u32 %i, %a, %b;\ncvt.u64.u32 %k, %c;\nadd.u64 %i, %i, %k;\n"                                 \
    "mov.u32 %a, %nctaid.x;\nmul.wide.u32 %step, %a, %b;\n"
#define LOOP                                                                                                 \
    "again:\nsetp.ge.u64 %p, %i, %vectors;\n@%p bra over;\n"                                                 \
    "shl.b64 %at, %i, 4;\nadd.u64 %at, %base, %at;\n"                                                        \
    "shl.b64 %k, %i, 2;\nadd.u64 %k, %first, %k;\nmov.b64 {%lo, %hi}, %k;\n"
#define NEXT "st.global.v4.u32 [%at], {%x, %y, %z, %w};\nadd.u64 %i, %i, %step;\nbra again;\nover:\n"

static const char PTX[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry fill(.param .u64 base, .param .u64 vectors, .param .u64 first, .param .u32 seed) {\n"
    BEGIN LOOP FILL("%x") FILL("%y") FILL("%z") FILL("%w") NEXT "ret;\n}\n"
    ".visible .entry check(.param .u64 base, .param .u64 vectors, .param .u64 first, .param .u32 seed,\n"
    "                      .param .u32 next, .param .u64 count) {\n"
    BEGIN "ld.param.u32 %next, [next];\nld.param.u64 %count, [count];\ncvta.to.global.u64 %count, %count;\n"
    "mov.u32 %wrong, 0;\n"
    LOOP "ld.global.v4.u32 {%x, %y, %z, %w}, [%at];\n"
    CHECK("%x") CHECK("%y") CHECK("%z") CHECK("%w") NEXT
    "setp.eq.u32 %p, %wrong, 0;\n@%p bra done;\n"
    "cvt.u64.u32 %total, %wrong;\nred.global.add.u64 [%count], %total;\n"
    "done:\nret;\n}\n";

struct Options {
    uint64_t bytes, turns;
    double hold, scale;
    uint32_t seed;
    int by_line;
};

struct Memory {
    CUdeviceptr pieces[MOST_PIECES], count;
    uint64_t bytes[MOST_PIECES], held;
    unsigned number;
    CUhandle fill, check;
};

static long long turn = -1;

// Prints the error of a turn (-1: before the first) and ends the program.
static void failed(const char *name, int code) {
    const char *text = NULL;
    int (*says)(int, const char **) = (int (*)(int, const char **))dlsym(driver_library, "cuGetErrorName");
    if (says) says(code, &text);
    text = text ? text : "CUDA_ERROR_UNKNOWN";
    printf("{\"turn\":%lld,\"at\":%.6f,\"error\":\"%s: %s\"}\n", turn, now(), name, text);
    fprintf(stderr, "hog: turn %lld: %s: %s (%d)\n", turn, name, text, code);
    exit(4);
}

#define NEED(name, ...)                          \
    do {                                         \
        int code_ = TRY(name, __VA_ARGS__);      \
        if (code_) failed(#name, code_);         \
    } while (0)

static void open_device(void) {
    int device;
    CUhandle context;
    driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver_library) {
        fprintf(stderr, "hog: %s\n", dlerror());
        exit(1);
    }
    NEED(cuInit, 0);
    NEED(cuDeviceGet, &device, 0);
    NEED(cuDevicePrimaryCtxRetain, &context, device);
    NEED(cuCtxSetCurrent, context);
}

static void prepare(struct Memory *memory) {
    CUhandle module;
    NEED(cuModuleLoadData, &module, PTX);
    NEED(cuModuleGetFunction, &memory->fill, module, "fill");
    NEED(cuModuleGetFunction, &memory->check, module, "check");
}

static void allocate(struct Memory *memory, uint64_t bytes) {
    NEED(cuMemAlloc_v2, &memory->count, (size_t)8);
    while (memory->held < bytes) {
        uint64_t piece = bytes - memory->held < PIECE ? bytes - memory->held : PIECE;
        NEED(cuMemAlloc_v2, &memory->pieces[memory->number], (size_t)piece);
        memory->bytes[memory->number++] = piece;
        memory->held += piece;
    }
}

static uint32_t seed_of(const struct Options *options, uint64_t at) {
    return options->seed * 0x9E3779B1u + (uint32_t)at * 0x85EBCA6Bu;
}

// Launches a kernel on each piece; `fill` takes the first four of the arguments.
static void visit(struct Memory *memory, CUhandle function, uint32_t seed, uint32_t next) {
    uint64_t first = 0;
    for (unsigned at = 0; at < memory->number; at++) {
        uint64_t vectors = memory->bytes[at] / 16, blocks = (vectors + BLOCK - 1) / BLOCK;
        void *arguments[] = {&memory->pieces[at], &vectors, &first, &seed, &next, &memory->count};
        unsigned grid = blocks < MOST_BLOCKS ? (unsigned)blocks : MOST_BLOCKS;
        NEED(cuLaunchKernel, function, grid, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL);
        first += vectors * 4;
    }
}

// Runs a turn; the value is the number of wrong words.
static uint64_t take(struct Memory *memory, const struct Options *options) {
    uint64_t wrong = UINT64_MAX;
    double begun = now();
    NEED(cuMemsetD8_v2, memory->count, 0, (size_t)8);
    visit(memory, memory->check, seed_of(options, (uint64_t)turn), seed_of(options, (uint64_t)turn + 1));
    NEED(cuMemcpyDtoH_v2, &wrong, memory->count, sizeof wrong);
    double ended = now();
    printf("{\"turn\":%lld,\"at\":%.6f,\"seconds\":%.6f,\"wrong\":%llu,\"bytes\":%llu}\n", turn, ended,
           ended - begun, (unsigned long long)wrong, (unsigned long long)memory->held);
    return wrong;
}

// Reads a line; false at the end of stdin.
static int line(void) {
    int got;
    while ((got = getchar()) != EOF && got != '\n') continue;
    return got == '\n';
}

static void rest(double seconds) {
    struct timespec time = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&time, NULL);
}

static void usage(void) {
    fprintf(stderr, "usage: hog --bytes N [--turns T] [--hold S] [--by-line] [--seed N] [--scale F]\n");
    exit(2);
}

static struct Options parse(int count, char **arguments) {
    static const struct option KNOWN[] = {
        {"bytes", 1, NULL, 'b'}, {"turns", 1, NULL, 't'}, {"hold", 1, NULL, 'h'}, {"by-line", 0, NULL, 'l'},
        {"seed", 1, NULL, 's'},  {"scale", 1, NULL, 'f'}, {0},
    };
    struct Options options = {.turns = 1, .scale = 1, .seed = 1};
    for (int found; (found = getopt_long(count, arguments, "", KNOWN, NULL)) != -1;) {
        switch (found) {
        case 'b': options.bytes = strtoull(optarg, NULL, 0); break;
        case 't': options.turns = strtoull(optarg, NULL, 0); break;
        case 'h': options.hold = atof(optarg); break;
        case 'l': options.by_line = 1; break;
        case 's': options.seed = (uint32_t)strtoull(optarg, NULL, 0); break;
        case 'f': options.scale = atof(optarg); break;
        default: usage();
        }
    }
    if (optind != count || !(options.scale > 0 && options.scale <= 1) || !(options.hold >= 0)) usage();
    options.bytes = (uint64_t)((double)options.bytes * options.scale) / 16 * 16;
    if (!options.bytes || options.bytes > PIECE * MOST_PIECES) usage();
    return options;
}

int main(int count, char **arguments) {
    struct Options options = parse(count, arguments);
    static struct Memory memory;
    uint64_t wrong = 0;
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    open_device();
    prepare(&memory);
    double begun = now();
    allocate(&memory, options.bytes);
    double allocated = now();
    visit(&memory, memory.fill, seed_of(&options, 0), 0);
    NEED(cuCtxSynchronize);
    double filled = now();
    printf("{\"ready\":true,\"at\":%.6f,\"alloc_seconds\":%.6f,\"fill_seconds\":%.6f}\n", filled, allocated - begun,
           filled - allocated);
    for (turn = 0; turn < (long long)options.turns; turn++) {
        if (options.by_line && !line()) break;
        wrong += take(&memory, &options);
        if (options.hold > 0) rest(options.hold);
    }
    if (wrong) fprintf(stderr, "hog: %llu words were wrong\n", (unsigned long long)wrong);
    return wrong ? 3 : 0;
}
