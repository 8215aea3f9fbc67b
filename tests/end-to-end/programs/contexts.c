/* The end of a context: what it had is gone and its memory free, what others have lives on. */
#include "driver.h"

#include "add.h"

enum { INVALID_VALUE = 1, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, DESTROYED = 709, MIB = 1 << 20 };

int cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned);
int cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);

static CUcontext keep;

static long left(void) {
    size_t free = 0;
    CHECK(cuMemGetInfo_v2(&free, NULL));
    return (long)(free / MIB);
}

/* What a context may have. */
typedef struct {
    CUdeviceptr plain, managed, rows, variable;
    CUarray array;
    CUstream stream;
    CUevent event;
    CUmodule module;
    CUfunction function;
    CUobject texture;
    CUlink link;
} Things;

/* Makes one of each, in the current context. */
static Things made(void) {
    Things it;
    ArrayFlat flat = {1024, 1024, 0x20, 1};
    Resource resource = {0};
    Sampling sampling = {0};
    size_t pitch;
    CHECK(cuMemAlloc_v2(&it.plain, 64ul * MIB));
    CHECK(cuMemsetD8_v2(it.plain, 7, 64));
    CHECK(cuMemAllocManaged(&it.managed, 16 * MIB, 1));
    CHECK(cuMemAllocPitch_v2(&it.rows, &pitch, 1 << 16, 1 << 8, 4));
    CHECK(cuArrayCreate_v2(&it.array, &flat));
    resource.of.array = it.array;
    CHECK(cuTexObjectCreate(&it.texture, &resource, &sampling, NULL));
    CHECK(cuStreamCreate(&it.stream, 0));
    CHECK(cuEventCreate(&it.event, 0));
    CHECK(cuEventRecord(it.event, it.stream));
    CHECK(cuModuleLoadData(&it.module, ADD));
    CHECK(cuModuleGetFunction(&it.function, it.module, "add"));
    CHECK(cuModuleGetGlobal_v2(&it.variable, NULL, it.module, "more"));
    CHECK(cuLinkCreate_v2(0, NULL, NULL, &it.link));
    return it;
}

/* Nothing of it is left. */
static void are_gone(const Things *it) {
    unsigned kind;
    const char *name;
    ANSWERS(INVALID_VALUE, cuMemFree_v2(it->plain));
    ANSWERS(INVALID_VALUE, cuMemFree_v2(it->managed));
    ANSWERS(INVALID_VALUE, cuMemFree_v2(it->rows));
    ANSWERS(INVALID_VALUE, cuPointerGetAttribute(&kind, 2, it->plain));
    ANSWERS(INVALID_VALUE, cuMemsetD8_v2(it->plain, 0, 1));
    ANSWERS(INVALID_HANDLE, cuArrayDestroy(it->array));
    ANSWERS(INVALID_VALUE, cuTexObjectDestroy(it->texture));
    ANSWERS(INVALID_HANDLE, cuStreamSynchronize(it->stream));
    ANSWERS(INVALID_HANDLE, cuEventQuery(it->event));
    ANSWERS(INVALID_HANDLE, cuModuleUnload(it->module));
    ANSWERS(INVALID_HANDLE, cuFuncGetName(&name, it->function));
    ANSWERS(INVALID_HANDLE, cuLinkDestroy(it->link));
}

/* All of it works still, in another current context, too. */
static void are_there(const Things *it) {
    unsigned char byte = 0;
    const char *name;
    CUdeviceptr words = it->plain;
    unsigned by = 1, count = 1;
    void *parameters[] = {&words, &by, &count};
    CHECK(cuLaunchKernel(it->function, 1, 1, 1, 32, 1, 1, 0, it->stream, parameters, NULL));
    CHECK(cuStreamSynchronize(it->stream));
    CHECK(cuMemcpyDtoH_v2(&byte, it->plain + 1, 1));
    ASSERT(byte == 7);
    CHECK(cuEventQuery(it->event));
    CHECK(cuFuncGetName(&name, it->function));
    CHECK(cuMemsetD8_v2(it->rows, 0, 1));
}

static void destroyed(void) {
    CUcontext context, current;
    CUdeviceptr of_pool;
    CUlibrary library;
    CUfunction kernel;
    unsigned char bytes[2] = {0};
    void *pinned;
    Things mine = made();
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemAllocAsync(&of_pool, MIB, NULL));
    CHECK(cuMemsetD8_v2(of_pool, 9, 2));
    CHECK(cuLibraryLoadData(&library, ADD, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "add"));
    CHECK(cuMemHostAlloc(&pinned, 64, 0));
    long before = left();
    Things others = made();
    ASSERT(before - left() >= 96);
    are_there(&others);
    are_there(&mine);
    CHECK(cuCtxDestroy_v2(context));
    CHECK(cuCtxGetCurrent(&current));
    ASSERT(current == keep && left() == before);
    are_gone(&others);
    are_there(&mine);
    ANSWERS(INVALID_CONTEXT, cuCtxDestroy_v2(context));
    ANSWERS(INVALID_CONTEXT, cuCtxPushCurrent_v2(context));
    /* No context has a pool's memory, a library, or what is the host's. */
    CHECK(cuMemcpyDtoH_v2(bytes, of_pool, 2));
    ASSERT(bytes[0] == 9 && bytes[1] == 9);
    CHECK(cuMemFree_v2(of_pool));
    CHECK(cuModuleUnload((CUmodule)library));
    memset(pinned, 1, 64);
    CHECK(cuMemFreeHost(pinned));
    /* One that is not on top stays there, and is none. */
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuCtxPushCurrent_v2(keep));
    CHECK(cuCtxDestroy_v2(context));
    CHECK(cuCtxPopCurrent_v2(&current));
    ANSWERS(DESTROYED, cuCtxSynchronize());
    CHECK(cuCtxPopCurrent_v2(&current));
}

static void released(void) {
    CUcontext primary, again, current;
    unsigned flags;
    int active = 9;
    Things mine = made();
    long before = left();
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuDevicePrimaryCtxRetain(&again, 0));
    ASSERT(primary == again);
    CHECK(cuCtxPushCurrent_v2(primary));
    Things others = made();
    CHECK(cuCtxPopCurrent_v2(&current));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    are_there(&others);
    ANSWERS(INVALID_CONTEXT, cuCtxDestroy_v2(primary));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    ASSERT(left() == before);
    are_gone(&others);
    are_there(&mine);
    ANSWERS(INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    ASSERT(active == 0);
    CHECK(cuDevicePrimaryCtxRetain(&again, 0));
    ASSERT(primary == again);
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
}

/* More contexts than their memory has room for at a time. */
static void many(void) {
    CUcontext context;
    CUdeviceptr memory;
    size_t free, total;
    CHECK(cuMemGetInfo_v2(&free, &total));
    for (size_t all = 0; all <= total + 64ul * MIB; all += 64ul * MIB) {
        CHECK(cuCtxCreate_v2(&context, 0, 0));
        CHECK(cuMemAlloc_v2(&memory, 64ul * MIB));
        CHECK(cuCtxDestroy_v2(context));
    }
}

int main(int count, char **arguments) {
    (void)count;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&keep, 0, 0));
    destroyed();
    released();
    many();
    printf("%s: well\n", arguments[1]);
    return 0;
}
