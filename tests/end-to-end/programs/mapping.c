/* Memory that is mapped at reserved addresses, and the host's memory where a device's is named; a part
   for each argument. */
#include "driver.h"
#include <pthread.h>

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801, GRAIN = 2 << 20 };

typedef struct {
    int kind, number;
} Location;
typedef struct {
    int kind, shared;
    Location location;
    void *windows;
    unsigned char flags[8];
} Properties;
typedef struct {
    Location location;
    int flags;
} Access;
typedef unsigned long long Handle;

int cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
int cuMemAddressFree(CUdeviceptr, size_t);
int cuMemCreate(Handle *, size_t, const Properties *, unsigned long long);
int cuMemRelease(Handle);
int cuMemRetainAllocationHandle(Handle *, void *);
int cuMemMap(CUdeviceptr, size_t, size_t, Handle, unsigned long long);
int cuMemUnmap(CUdeviceptr, size_t);
int cuMemSetAccess(CUdeviceptr, size_t, const Access *, size_t);
int cuMemGetAccess(unsigned long long *, const Location *, CUdeviceptr);
int cuMemGetAllocationGranularity(size_t *, const Properties *, int);
int cuMemsetD32_v2(CUdeviceptr, unsigned, size_t);
int cuMemGetAllocationPropertiesFromHandle(Properties *, Handle);
int cuMemExportToShareableHandle(void *, Handle, int, unsigned long long);

static CUcontext context;
static const Properties here = {1, 0, {1, 0}, NULL, {0}};

static void begin(void) {
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
}

/* A range in which memory comes and goes. */
static void mapping(void) {
    Properties shared = here, told;
    Access both = {{1, 0}, 3}, reading = {{1, 0}, 1};
    CUdeviceptr range, other;
    Handle first, second, again;
    size_t grain = 0, held, all, more;
    unsigned long long flags = 0;
    unsigned words[4];
    CHECK(cuMemGetAllocationGranularity(&grain, &here, 0));
    ASSERT(grain == GRAIN);
    /* As a file descriptor, which PyTorch's expandable segments ask for; then a kind that Linux has not. */
    shared.shared = 1;
    CHECK(cuMemGetAllocationGranularity(&grain, &shared, 1));
    CHECK(cuMemCreate(&first, GRAIN, &shared, 0));
    CHECK(cuMemGetAllocationPropertiesFromHandle(&told, first));
    ASSERT(told.shared == 1);
    /* Two processes: ipc.c. Here that each has its kind, and that a piece has to ask for it. */
    ANSWERS(INVALID_VALUE, cuMemExportToShareableHandle(words, first, 2, 0));
    ANSWERS(INVALID_VALUE, cuMemExportToShareableHandle(NULL, first, 1, 0));
    CHECK(cuMemRelease(first));
    shared.shared = 2;
    ANSWERS(NOT_SUPPORTED, cuMemCreate(&first, GRAIN, &shared, 0));
    CHECK(cuMemAddressReserve(&range, 4 * GRAIN, 0, 0, 0));
    ASSERT(range % GRAIN == 0);
    ANSWERS(INVALID_VALUE, cuMemAddressReserve(&other, 100, 0, 0, 0));
    ANSWERS(INVALID_VALUE, cuMemsetD32_v2(range, 1, 4));
    CHECK(cuMemGetInfo_v2(&held, &all));
    CHECK(cuMemCreate(&first, GRAIN, &here, 0));
    CHECK(cuMemCreate(&second, 2 * GRAIN, &here, 0));
    ANSWERS(INVALID_VALUE, cuMemCreate(&again, 5, &here, 0));
    ANSWERS(OUT_OF_MEMORY, cuMemCreate(&again, all / GRAIN * GRAIN, &here, 0));
    CHECK(cuMemGetAllocationPropertiesFromHandle(&told, first));
    ASSERT(told.kind == 1 && told.location.kind == 1 && told.location.number == 0);
    ANSWERS(INVALID_VALUE, cuMemMap(range, 2 * GRAIN, 0, first, 0));
    CHECK(cuMemMap(range, GRAIN, 0, first, 0));
    CHECK(cuMemMap(range + GRAIN, 2 * GRAIN, 0, second, 0));
    ANSWERS(INVALID_VALUE, cuMemSetAccess(range, 4 * GRAIN, &both, 1));
    ANSWERS(NOT_SUPPORTED, cuMemSetAccess(range, GRAIN, &reading, 1));
    CHECK(cuMemSetAccess(range, 3 * GRAIN, &both, 1));
    CHECK(cuMemGetAccess(&flags, &both.location, range + GRAIN));
    ASSERT(flags == 3);
    CHECK(cuMemGetInfo_v2(&more, &all));
    ASSERT(held - more == 3 * GRAIN);
    CHECK(cuMemsetD32_v2(range, 7, 4));
    CHECK(cuMemsetD32_v2(range + GRAIN, 9, 4));
    CHECK(cuMemcpyDtoH_v2(words, range, sizeof words));
    ASSERT(words[0] == 7 && words[3] == 7);
    CHECK(cuMemcpyDtoH_v2(words, range + GRAIN, sizeof words));
    ASSERT(words[0] == 9 && words[3] == 9);
    /* Pieces that lie side by side are one to fills and copies. */
    CHECK(cuMemsetD32_v2(range, 5, 3 * GRAIN / 4));
    CHECK(cuMemcpyDtoH_v2(words, range + GRAIN - 8, sizeof words));
    ASSERT(words[0] == 5 && words[1] == 5 && words[2] == 5 && words[3] == 5);
    words[1] = 6, words[2] = 7;
    CHECK(cuMemcpyHtoD_v2(range + GRAIN - 8, words, sizeof words));
    CHECK(cuMemcpyDtoD_v2(range + 16, range + GRAIN - 8, sizeof words));
    memset(words, 0, sizeof words);
    CHECK(cuMemcpyDtoH_v2(words, range + 16, sizeof words));
    ASSERT(words[0] == 5 && words[1] == 6 && words[2] == 7 && words[3] == 5);
    ANSWERS(INVALID_VALUE, cuMemsetD32_v2(range, 5, 3 * GRAIN / 4 + 1));
    CHECK(cuMemsetD32_v2(range, 7, 4));
    CHECK(cuMemsetD32_v2(range + GRAIN, 9, 4));
    /* A second address; more of them are in `places`. */
    ANSWERS(INVALID_VALUE, cuMemMap(range + GRAIN, GRAIN, 0, first, 0));
    CHECK(cuMemMap(range + 3 * GRAIN, GRAIN, 0, first, 0));
    CHECK(cuMemcpyDtoH_v2(words, range + 3 * GRAIN, sizeof words));
    ASSERT(words[0] == 7 && words[3] == 7);
    CHECK(cuMemUnmap(range + 3 * GRAIN, GRAIN));
    ANSWERS(INVALID_VALUE, cuMemFree_v2(range));
    ANSWERS(INVALID_VALUE, cuMemAddressFree(range, 4 * GRAIN));
    CHECK(cuMemRetainAllocationHandle(&again, (void *)(range + GRAIN + 5)));
    ASSERT(again == second);
    CHECK(cuMemRelease(first));
    ANSWERS(INVALID_VALUE, cuMemRelease(first));
    CHECK(cuMemcpyDtoH_v2(words, range, 4));
    ASSERT(words[0] == 7);
    ANSWERS(INVALID_VALUE, cuMemUnmap(range, 2 * GRAIN));
    CHECK(cuMemUnmap(range, 3 * GRAIN));
    ANSWERS(INVALID_VALUE, cuMemsetD32_v2(range, 1, 4));
    CHECK(cuMemRelease(second));
    CHECK(cuMemMap(range, 2 * GRAIN, 0, second, 0));
    CHECK(cuMemRelease(second));
    CHECK(cuMemcpyDtoH_v2(words, range, sizeof words));
    ASSERT(words[0] == 9 && words[3] == 9);
    CHECK(cuMemUnmap(range, 2 * GRAIN));
    ANSWERS(INVALID_VALUE, cuMemRelease(second));
    /* Fresh memory where other memory was. */
    CHECK(cuMemCreate(&first, 4 * GRAIN, &here, 0));
    CHECK(cuMemMap(range, 4 * GRAIN, 0, first, 0));
    CHECK(cuMemsetD32_v2(range + GRAIN - 8, 3, 4));
    CHECK(cuMemcpyDtoH_v2(words, range + GRAIN - 8, sizeof words));
    ASSERT(words[0] == 3 && words[3] == 3);
    CHECK(cuMemUnmap(range, 4 * GRAIN));
    CHECK(cuMemRelease(first));
    CHECK(cuMemAddressFree(range, 4 * GRAIN));
    CHECK(cuMemGetInfo_v2(&more, &all));
    ASSERT(more == held);
}

static const char *const KERNEL =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry copy(.param .u64 to, .param .u64 from) {\n"
    ".reg .u64 %a, %b; .reg .u32 %v;\n"
    "ld.param.u64 %a, [to];\nld.param.u64 %b, [from];\n"
    "ld.global.u32 %v, [%b];\nadd.u32 %v, %v, 1;\nst.global.u32 [%a], %v;\nret;\n}";

static unsigned word(CUdeviceptr at) {
    unsigned there = 0;
    CHECK(cuMemcpyDtoH_v2(&there, at, sizeof there));
    return there;
}

static size_t left(void) {
    size_t now, all;
    CHECK(cuMemGetInfo_v2(&now, &all));
    return now;
}

/* One piece at several places: the same bytes, and memory once. */
static void places(void) {
    CUmodule module;
    CUfunction copy;
    CUdeviceptr range, other;
    Handle piece, again;
    Access both = {{1, 0}, 3};
    unsigned two[2] = {21, 22};
    CHECK(cuModuleLoadData(&module, KERNEL));
    CHECK(cuModuleGetFunction(&copy, module, "copy"));
    size_t before = left();
    CHECK(cuMemAddressReserve(&range, 8 * GRAIN, 0, 0, 0));
    CHECK(cuMemAddressReserve(&other, 4 * GRAIN, 0, 0, 0));
    CHECK(cuMemCreate(&piece, 2 * GRAIN, &here, 0));
    CHECK(cuMemMap(range, 2 * GRAIN, 0, piece, 0));
    CHECK(cuMemsetD32_v2(range, 5, 2 * GRAIN / 4));
    size_t with = left();
    ASSERT(before - with == 2 * GRAIN);
    /* At the end of the first, and in another range, while the first is mapped. */
    CHECK(cuMemMap(range + 2 * GRAIN, 2 * GRAIN, 0, piece, 0));
    CHECK(cuMemMap(other + GRAIN, 2 * GRAIN, 0, piece, 0));
    CHECK(cuMemSetAccess(range, 4 * GRAIN, &both, 1));
    ASSERT(left() == with);
    ASSERT(word(range + 2 * GRAIN) == 5 && word(other + 3 * GRAIN - 4) == 5);
    /* What runs over the end of a ring is at its begin. */
    CHECK(cuMemcpyHtoD_v2(range + 2 * GRAIN - 4, two, sizeof two));
    ASSERT(word(range) == 22 && word(other + 3 * GRAIN - 4) == 21 && word(range + 4 * GRAIN - 4) == 21);
    /* Kernels, fills and copies; from one place to another of the same bytes. */
    CUdeviceptr to = other + GRAIN + 64, from = range;
    void *arguments[] = {&to, &from};
    CHECK(cuLaunchKernel(copy, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    ASSERT(word(range + 64) == 23 && word(range + 2 * GRAIN + 64) == 23);
    CHECK(cuMemcpyDtoD_v2(range + 128, other + GRAIN + 64, 4));
    ASSERT(word(range + 2 * GRAIN + 128) == 23);
    CHECK(cuMemsetD32_v2(range + 3 * GRAIN, 6, GRAIN / 4));
    ASSERT(word(range + GRAIN) == 6 && word(other + 3 * GRAIN - 4) == 6);
    /* Its first place goes, and others stay; all of it is one piece. */
    CHECK(cuMemUnmap(range, 2 * GRAIN));
    ANSWERS(INVALID_VALUE, cuMemcpyDtoH_v2(two, range, 4));
    ASSERT(word(range + 2 * GRAIN) == 22 && word(other + GRAIN) == 22);
    CHECK(cuMemRetainAllocationHandle(&again, (void *)(other + 2 * GRAIN)));
    ASSERT(again == piece);
    CHECK(cuMemRelease(again));
    CHECK(cuMemMap(range, 2 * GRAIN, 0, piece, 0));
    ASSERT(word(range + 64) == 23 && left() == with);
    CHECK(cuMemUnmap(range, 4 * GRAIN));
    CHECK(cuMemUnmap(other + GRAIN, 2 * GRAIN));
    ASSERT(left() == with);
    ANSWERS(INVALID_VALUE, cuMemUnmap(other + GRAIN, 2 * GRAIN));
    /* Other memory where it was, and it elsewhere. */
    CHECK(cuMemCreate(&again, 2 * GRAIN, &here, 0));
    CHECK(cuMemMap(range, 2 * GRAIN, 0, again, 0));
    CHECK(cuMemMap(range + 6 * GRAIN, 2 * GRAIN, 0, piece, 0));
    CHECK(cuMemsetD32_v2(range, 1, 2 * GRAIN / 4));
    ASSERT(word(range + 6 * GRAIN) == 22 && word(range + 6 * GRAIN + 64) == 23);
    CHECK(cuMemUnmap(range, 2 * GRAIN));
    CHECK(cuMemRelease(again));
    ASSERT(left() == with);
    /* Without a handle it lives as long as it is mapped. */
    CHECK(cuMemMap(range, 2 * GRAIN, 0, piece, 0));
    CHECK(cuMemRelease(piece));
    ANSWERS(INVALID_VALUE, cuMemMap(range + 2 * GRAIN, 2 * GRAIN, 0, piece, 0));
    CHECK(cuMemUnmap(range + 6 * GRAIN, 2 * GRAIN));
    ASSERT(word(range) == 22 && left() == with);
    CHECK(cuMemUnmap(range, 2 * GRAIN));
    ASSERT(left() == before);
    CHECK(cuMemAddressFree(range, 8 * GRAIN));
    CHECK(cuMemAddressFree(other, 4 * GRAIN));
}

/* Pieces that are most of what there is go from place to place: none is twice in memory. */
static void large(void) {
    CUdeviceptr range;
    Handle piece;
    size_t bytes = left() / 4 * 3 / GRAIN * GRAIN, most = 256ul << 20;
    bytes = bytes < most ? bytes : most;
    CHECK(cuMemAddressReserve(&range, bytes, 0, 0, 0));
    CHECK(cuMemCreate(&piece, bytes, &here, 0));
    for (unsigned round = 0; round < 3; round++) {
        CHECK(cuMemMap(range, bytes, 0, piece, 0));
        ASSERT(word(range + bytes - 4) == round);
        CHECK(cuMemsetD32_v2(range + bytes - 8, round + 1, 2));
        CHECK(cuMemUnmap(range, bytes));
    }
    CHECK(cuMemRelease(piece));
    CHECK(cuMemAddressFree(range, bytes));
}

static volatile int stop;

/* Calls that have nothing to do with what is mapped. */
static void *calls(void *unused) {
    size_t now, all;
    CHECK(cuCtxSetCurrent(context));
    while (!stop) CHECK(cuMemGetInfo_v2(&now, &all));
    return unused;
}

/* Two pieces take turns at one place while other threads call: what was unmapped is out of the way at once. */
static void turns(void) {
    pthread_t threads[2];
    CUdeviceptr range;
    Handle pieces[2];
    CHECK(cuMemAddressReserve(&range, GRAIN, 0, 0, 0));
    for (int at = 0; at < 2; at++) {
        CHECK(cuMemCreate(pieces + at, GRAIN, &here, 0));
        ASSERT(!pthread_create(threads + at, NULL, calls, NULL));
    }
    for (unsigned round = 0; round < 200; round++) {
        CHECK(cuMemMap(range, GRAIN, 0, pieces[round % 2], 0));
        ASSERT(word(range) == round / 2);
        CHECK(cuMemsetD32_v2(range, round / 2 + 1, 1));
        CHECK(cuMemUnmap(range, GRAIN));
        /* Not through another place from here on: each turn is a first one. */
        if (round % 8 > 5) {
            CHECK(cuMemRelease(pieces[round % 2]));
            CHECK(cuMemCreate(pieces + round % 2, GRAIN, &here, 0));
            CHECK(cuMemMap(range, GRAIN, 0, pieces[round % 2], 0));
            CHECK(cuMemsetD32_v2(range, round / 2 + 1, 1));
            CHECK(cuMemUnmap(range, GRAIN));
        }
    }
    stop = 1;
    for (int at = 0; at < 2; at++) {
        ASSERT(!pthread_join(threads[at], NULL));
        CHECK(cuMemRelease(pieces[at]));
    }
    CHECK(cuMemAddressFree(range, GRAIN));
}

/* A device that promises mapped memory has room for a large range, and one that has none does not promise it. */
static void promised(void) {
    CUdeviceptr range = 0;
    int promised = 9;
    CHECK(cuDeviceGetAttribute(&promised, 102, 0));
    int reserved = cuMemAddressReserve(&range, 32ul << 30, 0, 0, 0);
    ASSERT(reserved == 0 || reserved == OUT_OF_MEMORY);
    ASSERT(promised == (reserved == 0));
    if (reserved == 0)
        CHECK(cuMemAddressFree(range, 32ul << 30));
}

/* Addresses are unified: pinned memory of the host may be named where a device's is asked for. */
static void unified(void) {
    CUdeviceptr bytes;
    unsigned *pinned = NULL, words[4] = {1, 2, 3, 4};
    CHECK(cuMemAlloc_v2(&bytes, sizeof words));
    CHECK(cuMemHostAlloc((void **)&pinned, 64, 0));
    CUdeviceptr named = (CUdeviceptr)(uintptr_t)pinned;
    CHECK(cuMemsetD32Async(named, 5, 4, NULL));
    CHECK(cuMemcpyDtoHAsync_v2(words, named, sizeof words, NULL));
    CHECK(cuCtxSynchronize());
    ASSERT(words[0] == 5 && words[3] == 5);
    words[2] = 6;
    CHECK(cuMemcpyHtoD_v2(named + 16, words, sizeof words));
    ASSERT(pinned[4] == 5 && pinned[6] == 6);
    CHECK(cuMemcpyDtoD_v2(bytes, named + 16, sizeof words));
    CHECK(cuMemcpyDtoD_v2(named + 32, bytes, sizeof words));
    ASSERT(pinned[8] == 5 && pinned[10] == 6);
    ANSWERS(INVALID_VALUE, cuMemcpyDtoH_v2(words, (CUdeviceptr)(uintptr_t)&bytes, 4));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"mapping", mapping}, {"places", places}, {"large", large}, {"turns", turns},
                 {"promised", promised}, {"unified", unified}};
    for (size_t at = 0; argc == 2 && at < sizeof parts / sizeof *parts; at++) {
        if (strcmp(argv[1], parts[at].name)) continue;
        begin();
        parts[at].run();
        printf("%s: well\n", argv[1]);
        return 0;
    }
    return 2;
}
