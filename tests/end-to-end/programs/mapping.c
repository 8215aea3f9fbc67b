/* Memory that is mapped at reserved addresses, and the host's memory where a device's is named; a part
   for each argument. */
#include "driver.h"

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
    /* A second address, one while it is mapped and one later. */
    ANSWERS(NOT_SUPPORTED, cuMemMap(range + 3 * GRAIN, GRAIN, 0, first, 0));
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
    ANSWERS(NOT_SUPPORTED, cuMemMap(range, 2 * GRAIN, 0, second, 0));
    CHECK(cuMemRelease(second));
    CHECK(cuMemRelease(second));
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
    } parts[] = {{"mapping", mapping}, {"promised", promised}, {"unified", unified}};
    for (size_t at = 0; argc == 2 && at < sizeof parts / sizeof *parts; at++) {
        if (strcmp(argv[1], parts[at].name)) continue;
        begin();
        parts[at].run();
        printf("%s: well\n", argv[1]);
        return 0;
    }
    return 2;
}
