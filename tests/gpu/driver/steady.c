// An innocent tenant: repeats steps whose results are known to the last bit.
//
//     steady [--seconds S] [--until-steps K] [--seed N] [--scale F] [--large]
//     steady --runs R [--seed N] [--scale F] [--large]
//
// A step is six dependent kernels on integers and floats, and a copy of all results back. Each step prints a
// line, the end another one. With --runs a single line has the digests of R steps, for a comparison between
// programs. Exit codes: 0, 1 (no driver), 2 (called wrongly), 3 (a wrong result), 4 (a CUDA error).
#include "driver.h"

#include <getopt.h>
#include <math.h>

enum { BLOCK = 256, CHAINS = 64, VARIANTS = 8, KERNELS = 4 };
// Estimates for about 2 ms on an H100, 20 ms where large. A small scale leaves some blocks.
enum { BLOCKS = 128, LARGE_BLOCKS = 2816, FEWEST_BLOCKS = 8, ROUNDS = 20000 };
static const uint64_t START = 0xCBF29CE484222325ull;

// Where a thread's element is.
#define PLACE                                                                              \
    "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"               \
    "mad.lo.u32 %r3, %r0, %r1, %r2;\nmul.wide.u32 %rd0, %r3, 4;\n"                        \
    "ld.param.u64 %rd1, [integers];\nld.param.u64 %rd2, [floats];\n"                      \
    "cvta.to.global.u64 %rd1, %rd1;\ncvta.to.global.u64 %rd2, %rd2;\n"                    \
    "add.u64 %rd1, %rd1, %rd0;\nadd.u64 %rd2, %rd2, %rd0;\n"
#define REGISTERS ".reg .u32 %r<12>;\n.reg .u64 %rd<8>;\n.reg .f32 %f<4>;\n.reg .pred %p<2>;\n"

// Elements with equal index modulo CHAINS have equal values until `finish`, so that the host can follow.
static const char PTX[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry begin(.param .u64 integers, .param .u64 floats, .param .u32 seed) {\n" REGISTERS PLACE
    "ld.param.u32 %r4, [seed];\n"
    "and.b32 %r5, %r2, 63;\n"
    "mad.lo.u32 %r5, %r5, 0x9E3779B9, %r4;\n"
    "shr.u32 %r6, %r5, 16;\nxor.b32 %r5, %r5, %r6;\nmul.lo.u32 %r5, %r5, 0x7FEB352D;\n"
    "shr.u32 %r6, %r5, 15;\nxor.b32 %r5, %r5, %r6;\nor.b32 %r5, %r5, 1;\n"
    "st.global.u32 [%rd1], %r5;\n"
    "mov.f32 %f0, 0f3F800000;\nst.global.f32 [%rd2], %f0;\n"
    "ret;\n}\n"
    ".visible .entry mix(.param .u64 integers, .param .u64 floats, .param .u32 rounds) {\n" REGISTERS PLACE
    "ld.param.u32 %r4, [rounds];\n"
    "ld.global.u32 %r5, [%rd1];\nld.global.f32 %f0, [%rd2];\n"
    "again:\n"
    "shl.b32 %r6, %r5, 13;\nxor.b32 %r5, %r5, %r6;\n"
    "shr.u32 %r6, %r5, 17;\nxor.b32 %r5, %r5, %r6;\n"
    "shl.b32 %r6, %r5, 5;\nxor.b32 %r5, %r5, %r6;\n"
    "shr.u32 %r7, %r5, 9;\nor.b32 %r7, %r7, 0x3F800000;\nmov.b32 %f1, %r7;\n"
    "fma.rn.f32 %f0, %f0, 0f3F000000, %f1;\n"
    "mov.b32 %r8, %f0;\nadd.u32 %r5, %r5, %r8;\n"
    "sub.u32 %r4, %r4, 1;\nsetp.ne.u32 %p0, %r4, 0;\n@%p0 bra again;\n"
    "st.global.u32 [%rd1], %r5;\nst.global.f32 [%rd2], %f0;\n"
    "ret;\n}\n"
    ".visible .entry finish(.param .u64 integers, .param .u64 floats, .param .u64 results, .param .u32 step) {\n"
    REGISTERS PLACE
    "ld.param.u64 %rd3, [results];\ncvta.to.global.u64 %rd3, %rd3;\n"
    "mul.wide.u32 %rd4, %r3, 8;\nadd.u64 %rd3, %rd3, %rd4;\n"
    "ld.param.u32 %r4, [step];\n"
    "ld.global.u32 %r5, [%rd1];\nld.global.u32 %r6, [%rd2];\n"
    "mul.lo.u32 %r7, %r4, 0x85EBCA6B;\nmad.lo.u32 %r7, %r3, 0x9E3779B9, %r7;\nxor.b32 %r5, %r5, %r7;\n"
    "st.global.v2.u32 [%rd3], {%r5, %r6};\n"
    "ret;\n}\n";

struct Options {
    double seconds, scale;
    uint64_t until_steps, runs;
    uint32_t seed;
    int large;
};

// What a chain ends with, for each seed that the steps use in turn.
struct Expected {
    uint32_t integers[VARIANTS][CHAINS], floats[VARIANTS][CHAINS];
};

struct Work {
    CUhandle begin, mix, finish;
    CUdeviceptr integers, floats, results;
    uint64_t *got;
    unsigned blocks, elements, rounds;
    uint64_t step;
};

// Prints the error of a step and ends the program.
static void failed(uint64_t step, const char *name, int code) {
    const char *text = NULL;
    int (*says)(int, const char **) = (int (*)(int, const char **))dlsym(driver_library, "cuGetErrorName");
    if (says) says(code, &text);
    printf("{\"step\":%llu,\"at\":%.6f,\"error\":\"%s: %s\"}\n", (unsigned long long)step, now(), name,
           text ? text : "CUDA_ERROR_UNKNOWN");
    fprintf(stderr, "steady: step %llu: %s: %s (%d)\n", (unsigned long long)step, name, text ? text : "?", code);
    exit(4);
}

#define STEP(step, name, ...)                    \
    do {                                         \
        int code_ = TRY(name, __VA_ARGS__);      \
        if (code_) failed(step, #name, code_);   \
    } while (0)

// Opens the driver as `driver_open` does; an error is one of step 0.
static void open_device(void) {
    int device;
    CUhandle context;
    driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver_library) {
        fprintf(stderr, "steady: %s\n", dlerror());
        exit(1);
    }
    STEP(0, cuInit, 0);
    STEP(0, cuDeviceGet, &device, 0);
    STEP(0, cuDevicePrimaryCtxRetain, &context, device);
    STEP(0, cuCtxSetCurrent, context);
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t seed_of(uint32_t seed, unsigned variant) {
    return seed * 0x9E3779B1u + variant * 0x85EBCA77u;
}

// Does on the host what `begin` and `mix` do on the device, for one seed.
static void expect(uint32_t seed, unsigned rounds, uint32_t *integers, uint32_t *bits) {
    float floats[CHAINS];
    for (unsigned chain = 0; chain < CHAINS; chain++) {
        uint32_t x = chain * 0x9E3779B9u + seed;
        x = (x ^ x >> 16) * 0x7FEB352Du;
        integers[chain] = (x ^ x >> 15) | 1;
        floats[chain] = 1.0f;
    }
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned chain = 0; chain < CHAINS; chain++) {
            uint32_t x = integers[chain];
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            floats[chain] = fmaf(floats[chain], 0.5f, float_of(x >> 9 | 0x3F800000u));
            integers[chain] = x + bits_of(floats[chain]);
        }
    }
    for (unsigned chain = 0; chain < CHAINS; chain++) bits[chain] = bits_of(floats[chain]);
}

static void prepare(struct Work *work, const struct Options *options) {
    CUhandle module;
    double blocks = (options->large ? LARGE_BLOCKS : BLOCKS) * options->scale, rounds = ROUNDS * options->scale;
    work->blocks = blocks < FEWEST_BLOCKS ? FEWEST_BLOCKS : (unsigned)blocks;
    work->rounds = rounds < 1 ? 1 : (unsigned)rounds;
    work->elements = work->blocks * BLOCK;
    work->got = malloc(work->elements * sizeof *work->got);
    if (!work->got) failed(0, "malloc", 2);
    STEP(0, cuModuleLoadData, &module, PTX);
    STEP(0, cuModuleGetFunction, &work->begin, module, "begin");
    STEP(0, cuModuleGetFunction, &work->mix, module, "mix");
    STEP(0, cuModuleGetFunction, &work->finish, module, "finish");
    STEP(0, cuMemAlloc_v2, &work->integers, (size_t)work->elements * 4);
    STEP(0, cuMemAlloc_v2, &work->floats, (size_t)work->elements * 4);
    STEP(0, cuMemAlloc_v2, &work->results, (size_t)work->elements * 8);
}

static void launch(struct Work *work, CUhandle function, void **arguments) {
    STEP(work->step, cuLaunchKernel, function, work->blocks, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL);
}

// Runs the kernels of a step and copies its results back.
static void run(struct Work *work, uint32_t seed) {
    uint32_t step = (uint32_t)work->step, rounds = work->rounds;
    launch(work, work->begin, (void *[]){&work->integers, &work->floats, &seed});
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        launch(work, work->mix, (void *[]){&work->integers, &work->floats, &rounds});
    }
    launch(work, work->finish, (void *[]){&work->integers, &work->floats, &work->results, &step});
    // A copy that never comes is a wrong result.
    memset(work->got, 0xA5, work->elements * sizeof *work->got);
    STEP(work->step, cuMemcpyDtoH_v2, work->got, work->results, work->elements * sizeof *work->got);
}

// A step of FNV-1a on words; the shift takes high bits down, which the multiplication alone never does.
static uint64_t fnv(uint64_t digest, uint64_t word) {
    digest = (digest ^ word) * 0x100000001B3ull;
    return digest ^ digest >> 32;
}

// Digests what a step got; false if that is not what the host expects.
static int right(const struct Work *work, const struct Expected *expected, uint64_t *digest) {
    unsigned variant = work->step % VARIANTS;
    uint64_t got = START, differences = 0;
    for (uint32_t at = 0; at < work->elements; at++) {
        uint32_t mask = at * 0x9E3779B9u + (uint32_t)work->step * 0x85EBCA6Bu;
        uint64_t floats = expected->floats[variant][at % CHAINS];
        differences |= work->got[at] ^ (floats << 32 | (expected->integers[variant][at % CHAINS] ^ mask));
        got = fnv(got, work->got[at]);
    }
    *digest = got;
    return !differences;
}

static void usage(void) {
    fprintf(stderr, "usage: steady [--seconds S] [--until-steps K] [--runs R] [--seed N] [--scale F] [--large]\n");
    exit(2);
}

static struct Options parse(int count, char **arguments) {
    static const struct option KNOWN[] = {
        {"seconds", 1, NULL, 's'}, {"until-steps", 1, NULL, 'k'}, {"runs", 1, NULL, 'r'}, {"seed", 1, NULL, 'n'},
        {"scale", 1, NULL, 'f'},   {"large", 0, NULL, 'l'},       {0},
    };
    struct Options options = {.seconds = 10, .scale = 1, .seed = 1};
    for (int found; (found = getopt_long(count, arguments, "", KNOWN, NULL)) != -1;) {
        switch (found) {
        case 's': options.seconds = atof(optarg); break;
        case 'k': options.until_steps = strtoull(optarg, NULL, 0); break;
        case 'r': options.runs = strtoull(optarg, NULL, 0); break;
        case 'n': options.seed = (uint32_t)strtoull(optarg, NULL, 0); break;
        case 'f': options.scale = atof(optarg); break;
        case 'l': options.large = 1; break;
        default: usage();
        }
    }
    if (optind != count || !(options.scale > 0 && options.scale <= 100) || !(options.seconds > 0)) usage();
    return options;
}

// Runs steps until the time is over, or there were enough; prints each. The value is the exit code.
static int repeat(struct Work *work, const struct Options *options, const struct Expected *expected) {
    uint64_t wrong = 0, all = START, digest;
    double until = now() + options->seconds;
    for (; !options->until_steps || work->step < options->until_steps; work->step++) {
        if (now() >= until) break;
        run(work, seed_of(options->seed, work->step % VARIANTS));
        int well = right(work, expected, &digest);
        wrong += !well;
        all = fnv(all, digest);
        printf("{\"step\":%llu,\"at\":%.6f,\"digest\":\"%016llx\",\"right\":%s}\n", (unsigned long long)work->step,
               now(), (unsigned long long)digest, well ? "true" : "false");
    }
    printf("{\"steps\":%llu,\"wrong\":%llu,\"digest_of_all\":\"%016llx\"}\n", (unsigned long long)work->step,
           (unsigned long long)wrong, (unsigned long long)all);
    return wrong ? 3 : 0;
}

// Runs so many steps and prints their digests in one line. The value is the exit code.
static int list(struct Work *work, const struct Options *options, const struct Expected *expected) {
    uint64_t wrong = 0, *digests = calloc(options->runs, sizeof *digests);
    if (!digests) failed(0, "calloc", 2);
    for (; work->step < options->runs; work->step++) {
        run(work, seed_of(options->seed, work->step % VARIANTS));
        wrong += !right(work, expected, &digests[work->step]);
    }
    printf("{\"runs\":%llu,\"digests\":[", (unsigned long long)options->runs);
    for (uint64_t at = 0; at < options->runs; at++) {
        printf("%s\"%016llx\"", at ? "," : "", (unsigned long long)digests[at]);
    }
    printf("]}\n");
    if (wrong) fprintf(stderr, "steady: %llu results were wrong\n", (unsigned long long)wrong);
    free(digests);
    return wrong ? 3 : 0;
}

int main(int count, char **arguments) {
    struct Options options = parse(count, arguments);
    struct Work work = {0};
    static struct Expected expected;
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    open_device();
    prepare(&work, &options);
    for (unsigned variant = 0; variant < VARIANTS; variant++) {
        expect(seed_of(options.seed, variant), work.rounds * KERNELS, expected.integers[variant],
               expected.floats[variant]);
    }
    return options.runs ? list(&work, &options, &expected) : repeat(&work, &options, &expected);
}
