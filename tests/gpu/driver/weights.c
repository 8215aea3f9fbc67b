// A tenant that copies weights to the device, as a server of a model does, and keeps them.
//
//     weights --bytes N [--seed K] [--private M] [--scale F]
//
// N bytes (times the scale) are the same in all programs of the same seed; M further bytes differ from program to
// program, and are copied behind them. Copies are of 32 MiB. A checksum on the device is compared with the host's;
// then the program prints a line, waits for one on stdin (or its end), and compares again. `seconds` are those of
// the copies of the N bytes alone. Exit codes: 0, 1 (no driver), 2 (called wrongly), 3 (wrong bytes), 4 (a CUDA
// error).
#include "driver.h"

#include <getopt.h>

enum { BLOCK = 256, MOST_BLOCKS = 4096 };
static const uint64_t COPY = 32 << 20, CHUNK = 1 << 20;

// Adds up word i times 2 i + 1, so that words in a wrong place are found.
static const char PTX[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry sum(.param .u64 base, .param .u64 words, .param .u64 result) {\n"
    ".reg .u32 %a, %b, %c;\n.reg .u64 %base, %words, %result, %i, %step, %at, %word, %odd, %sum;\n.reg .pred %p;\n"
    "ld.param.u64 %base, [base];\ncvta.to.global.u64 %base, %base;\nld.param.u64 %words, [words];\n"
    "ld.param.u64 %result, [result];\ncvta.to.global.u64 %result, %result;\n"
    "mov.u32 %a, %ctaid.x;\nmov.u32 %b, %ntid.x;\nmov.u32 %c, %tid.x;\n"
    "mul.wide.u32 %i, %a, %b;\ncvt.u64.u32 %at, %c;\nadd.u64 %i, %i, %at;\n"
    "mov.u32 %a, %nctaid.x;\nmul.wide.u32 %step, %a, %b;\nmov.u64 %sum, 0;\n"
    "again:\nsetp.ge.u64 %p, %i, %words;\n@%p bra over;\n"
    "shl.b64 %at, %i, 3;\nadd.u64 %at, %base, %at;\nld.global.u64 %word, [%at];\n"
    "shl.b64 %odd, %i, 1;\nadd.u64 %odd, %odd, 1;\nmad.lo.u64 %sum, %word, %odd, %sum;\n"
    "add.u64 %i, %i, %step;\nbra again;\n"
    "over:\nred.global.add.u64 [%result], %sum;\nret;\n}\n";

// A piece of device memory and what its checksum must be.
struct Part {
    CUdeviceptr address;
    uint64_t bytes, seed, sum;
    double seconds;
};

// Prints an error and ends the program.
static void failed(const char *name, int code) {
    const char *text = NULL;
    int (*says)(int, const char **) = (int (*)(int, const char **))dlsym(driver_library, "cuGetErrorName");
    if (says) says(code, &text);
    text = text ? text : "CUDA_ERROR_UNKNOWN";
    printf("{\"at\":%.6f,\"error\":\"%s: %s\"}\n", now(), name, text);
    fprintf(stderr, "weights: %s: %s (%d)\n", name, text, code);
    exit(4);
}

#define NEED(name, ...)                          \
    do {                                         \
        int code_ = TRY(name, __VA_ARGS__);      \
        if (code_) failed(#name, code_);         \
    } while (0)

static CUhandle open_device(void) {
    int device;
    CUhandle context, module, function;
    driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver_library) {
        fprintf(stderr, "weights: %s\n", dlerror());
        exit(1);
    }
    NEED(cuInit, 0);
    NEED(cuDeviceGet, &device, 0);
    NEED(cuDevicePrimaryCtxRetain, &context, device);
    NEED(cuCtxSetCurrent, context);
    NEED(cuModuleLoadData, &module, PTX);
    NEED(cuModuleGetFunction, &function, module, "sum");
    return function;
}

static uint64_t splitmix(uint64_t *state) {
    uint64_t word = *state += 0x9E3779B97F4A7C15ull;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    return word ^ word >> 31;
}

// Writes the words from byte `from` on, each chunk by its own number, and adds them to the checksum.
static void generate(struct Part *part, uint64_t *words, uint64_t from, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes / 8; at++) {
        static uint64_t state;
        uint64_t place = from / 8 + at;
        if (place % (CHUNK / 8) == 0) {
            state = part->seed ^ (place / (CHUNK / 8) << 32);
            // Seeds that are close to one another begin far apart.
            state = splitmix(&state);
        }
        words[at] = splitmix(&state);
        part->sum += words[at] * (2 * place + 1);
    }
}

// Allocates a part and copies it to the device; the host keeps 32 MiB of it at a time.
static void copy(struct Part *part) {
    uint64_t *words = malloc(COPY);
    if (!words) failed("malloc", 2);
    NEED(cuMemAlloc_v2, &part->address, (size_t)part->bytes);
    for (uint64_t from = 0; from < part->bytes; from += COPY) {
        uint64_t bytes = part->bytes - from < COPY ? part->bytes - from : COPY;
        generate(part, words, from, bytes);
        double begun = now();
        NEED(cuMemcpyHtoD_v2, part->address + from, words, (size_t)bytes);
        if (from + bytes == part->bytes) NEED(cuCtxSynchronize);
        part->seconds += now() - begun;
    }
    free(words);
}

// Compares the checksum of a part on the device with the host's.
static int right(const struct Part *part, CUhandle function, CUdeviceptr result) {
    CUdeviceptr address = part->address;
    uint64_t words = part->bytes / 8, sum = 0, blocks = (words + BLOCK - 1) / BLOCK;
    unsigned grid = blocks < MOST_BLOCKS ? (unsigned)blocks : MOST_BLOCKS;
    void *arguments[] = {&address, &words, &result};
    if (!words) return 1;
    NEED(cuMemsetD8_v2, result, 0, sizeof sum);
    NEED(cuLaunchKernel, function, grid, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL);
    NEED(cuMemcpyDtoH_v2, &sum, result, sizeof sum);
    if (sum != part->sum) fprintf(stderr, "weights: %llu bytes have another checksum\n", (unsigned long long)part->bytes);
    return sum == part->sum;
}

static void usage(void) {
    fprintf(stderr, "usage: weights --bytes N [--seed K] [--private M] [--scale F]\n");
    exit(2);
}

static void parse(int count, char **arguments, struct Part *shared, struct Part *private) {
    static const struct option KNOWN[] = {
        {"bytes", 1, NULL, 'b'}, {"seed", 1, NULL, 's'}, {"private", 1, NULL, 'p'}, {"scale", 1, NULL, 'f'}, {0},
    };
    double scale = 1;
    shared->seed = 1;
    private->seed = (uint64_t)(now() * 1e9) ^ (uint64_t)getpid() << 40;
    for (int found; (found = getopt_long(count, arguments, "", KNOWN, NULL)) != -1;) {
        switch (found) {
        case 'b': shared->bytes = strtoull(optarg, NULL, 0); break;
        case 's': shared->seed = strtoull(optarg, NULL, 0); break;
        case 'p': private->bytes = strtoull(optarg, NULL, 0); break;
        case 'f': scale = atof(optarg); break;
        default: usage();
        }
    }
    if (optind != count || !(scale > 0 && scale <= 1)) usage();
    shared->bytes = (uint64_t)((double)shared->bytes * scale) / 8 * 8;
    private->bytes = (uint64_t)((double)private->bytes * scale) / 8 * 8;
    if (!shared->bytes) usage();
}

// Prints that the bytes are wrong, or are right at the end. The value is the exit code.
static int judge(int well) {
    printf("{\"right\":%s}\n", well ? "true" : "false");
    return well ? 0 : 3;
}

int main(int count, char **arguments) {
    struct Part shared = {0}, private = {0};
    CUdeviceptr result;
    parse(count, arguments, &shared, &private);
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    CUhandle function = open_device();
    NEED(cuMemAlloc_v2, &result, sizeof shared.sum);
    copy(&shared);
    if (private.bytes) copy(&private);
    if (!right(&shared, function, result) || !right(&private, function, result)) return judge(0);
    printf("{\"ready\":true,\"at\":%.6f,\"seconds\":%.6f,\"gb_per_s\":%.3f}\n", now(), shared.seconds,
           (double)shared.bytes / shared.seconds / 1e9);
    for (int got; (got = getchar()) != EOF && got != '\n';) continue;
    return judge(right(&shared, function, result) & right(&private, function, result));
}
