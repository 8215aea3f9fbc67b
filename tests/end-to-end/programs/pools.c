/* Pools of memory: each says what is its own, one part for each argument. */
#include "driver.h"

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, RESERVED = 5, USED = 7, MOST_USED = 8 };

typedef struct {
    int kind, handles, place, id;
    void *security;
    size_t limit;
    unsigned char rest[64];
} Properties;

int cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
int cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, void *, CUstream);
int cuMemFreeAsync(CUdeviceptr, CUstream);
int cuMemPoolCreate(void **, const Properties *);
int cuMemPoolDestroy(void *);
int cuMemPoolTrimTo(void *, size_t);
int cuMemPoolGetAttribute(void *, int, void *);
int cuMemPoolSetAttribute(void *, int, void *);
int cuMemPoolGetAccess(int *, void *, void *);
int cuMemPoolSetAccess(void *, const void *, size_t);
int cuDeviceGetDefaultMemPool(void **, int);
int cuDeviceGetMemPool(void **, int);
int cuDeviceSetMemPool(int, void *);

static CUcontext context;
static void *own;
static const Properties properties = {.kind = 1, .place = 1};

static void begin(void) {
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuDeviceGetDefaultMemPool(&own, 0));
}

static uint64_t figure(void *pool, int which) {
    uint64_t value = 99;
    CHECK(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static void figures(void) {
    CUdeviceptr plain, first, second;
    void *mine;
    uint64_t none = 0, some = 1;
    begin();
    CHECK(cuMemPoolCreate(&mine, &properties));
    /* What is of no pool counts nowhere. */
    CHECK(cuMemAlloc_v2(&plain, 4096));
    CHECK(cuMemAllocAsync(&first, 1024, NULL));
    CHECK(cuMemAllocFromPoolAsync(&second, 512, mine, NULL));
    ASSERT(figure(own, USED) == 1024 && figure(mine, USED) == 512);
    ASSERT(figure(own, RESERVED) >= 1024 && figure(mine, RESERVED) >= 512);
    CHECK(cuMemFreeAsync(first, NULL));
    ASSERT(figure(own, USED) == 0 && figure(own, MOST_USED) == 1024);
    ANSWERS(INVALID_VALUE, cuMemPoolSetAttribute(own, MOST_USED, &some));
    CHECK(cuMemPoolSetAttribute(own, MOST_USED, &none));
    ASSERT(figure(own, MOST_USED) == 0);
    /* The plain function frees what is of a pool too. */
    CHECK(cuMemFree_v2(second));
    CHECK(cuMemFree_v2(plain));
    ASSERT(figure(mine, USED) == 0);
    CHECK(cuMemPoolTrimTo(mine, 0));
    ASSERT(figure(mine, RESERVED) == 0);
}

static void current(void) {
    CUdeviceptr one, two, byte;
    Properties small = properties, elsewhere = properties;
    void *mine, *found, *narrow;
    int flags = 0, off = 0, got = 9;
    begin();
    CHECK(cuMemPoolCreate(&mine, &properties));
    CHECK(cuDeviceSetMemPool(0, mine));
    CHECK(cuDeviceGetMemPool(&found, 0));
    ASSERT(found == mine && found != own);
    CHECK(cuMemAllocAsync(&one, 2048, NULL));
    ASSERT(figure(mine, USED) == 2048 && figure(own, USED) == 0);
    CHECK(cuMemPoolSetAttribute(mine, 1, &off));
    CHECK(cuMemPoolGetAttribute(mine, 1, &got));
    ASSERT(got == 0);
    CHECK(cuMemPoolGetAccess(&flags, mine, (int[]){1, 0}));
    ASSERT(flags == 3);
    CHECK(cuMemPoolGetAccess(&flags, mine, (int[]){2, 0}));
    ASSERT(flags == 0);
    ANSWERS(INVALID_VALUE, cuMemPoolGetAccess(&flags, mine, NULL));
    CHECK(cuMemPoolSetAccess(mine, NULL, 0));
    CHECK(cuMemPoolSetAccess(mine, (int[]){1, 0, 3}, 1));
    ANSWERS(INVALID_VALUE, cuMemPoolSetAccess(mine, (int[]){1, 0, 0}, 1));
    ANSWERS(101, cuMemPoolSetAccess(mine, (int[]){1, 7, 3}, 1));
    ANSWERS(INVALID_VALUE, cuMemPoolSetAccess(mine, NULL, 1));
    /* Of what pool an allocation is. */
    CHECK(cuPointerGetAttribute(&found, 17, one));
    ASSERT(found == mine);
    /* A pool that is gone is nobody's; what came from it stays. */
    CHECK(cuMemPoolDestroy(mine));
    CHECK(cuDeviceGetMemPool(&found, 0));
    ASSERT(found == own);
    ANSWERS(INVALID_VALUE, cuMemPoolGetAttribute(mine, USED, &got));
    ANSWERS(INVALID_VALUE, cuMemPoolDestroy(mine));
    ANSWERS(INVALID_VALUE, cuMemPoolDestroy(own));
    ANSWERS(INVALID_VALUE, cuDeviceSetMemPool(0, mine));
    ANSWERS(INVALID_VALUE, cuMemAllocFromPoolAsync(&byte, 1, mine, NULL));
    CHECK(cuMemsetD8_v2(one, 7, 2048));
    CHECK(cuMemFreeAsync(one, NULL));
    small.limit = 1024;
    CHECK(cuMemPoolCreate(&narrow, &small));
    CHECK(cuMemAllocFromPoolAsync(&two, 1024, narrow, NULL));
    ANSWERS(OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&byte, 1, narrow, NULL));
    CHECK(cuMemFreeAsync(two, NULL));
    CHECK(cuMemAllocFromPoolAsync(&byte, 1, narrow, NULL));
    elsewhere.place = 2;
    ANSWERS(801, cuMemPoolCreate(&found, &elsewhere));
    elsewhere = properties, elsewhere.kind = 0;
    ANSWERS(INVALID_VALUE, cuMemPoolCreate(&found, &elsewhere));
    elsewhere = properties, elsewhere.handles = 1;
    ANSWERS(801, cuMemPoolCreate(&found, &elsewhere));
    ANSWERS(INVALID_VALUE, cuMemPoolCreate(&found, NULL));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"figures", figures}, {"current", current}};
    for (size_t at = 0; argc == 2 && at < sizeof parts / sizeof *parts; at++) {
        if (strcmp(argv[1], parts[at].name)) continue;
        parts[at].run();
        printf("%s: well\n", argv[1]);
        return 0;
    }
    return 2;
}
