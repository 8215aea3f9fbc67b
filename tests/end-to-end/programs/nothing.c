/* What drivers say to no bytes, no rows and no address, one part for each argument. */
#include "driver.h"

enum { INVALID_VALUE = 1, N = 64 };

int cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
int cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, void *, CUstream);
int cuMemFreeAsync(CUdeviceptr, CUstream);
int cuDeviceGetDefaultMemPool(void **, int);
int cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned);
int cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, CUstream);
int cuMemsetD16_v2(CUdeviceptr, unsigned short, size_t);
int cuMemsetD32_v2(CUdeviceptr, unsigned, size_t);
int cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream);
int cuMemsetD2D8_v2(CUdeviceptr, size_t, unsigned char, size_t, size_t);
int cuMemsetD2D32_v2(CUdeviceptr, size_t, unsigned, size_t, size_t);

static CUcontext context;
static CUdeviceptr bytes;
static unsigned char host[N];

static void allocations(void) {
    CUdeviceptr address = 7;
    void *pool = NULL;
    size_t pitch = 0;
    ANSWERS(INVALID_VALUE, cuMemAlloc_v2(&address, 0));
    ANSWERS(INVALID_VALUE, cuMemAlloc_v2(NULL, 16));
    ANSWERS(INVALID_VALUE, cuMemAllocManaged(&address, 0, 1));
    ANSWERS(INVALID_VALUE, cuMemAllocPitch_v2(&address, &pitch, 0, 4, 4));
    ANSWERS(INVALID_VALUE, cuMemHostAlloc(NULL, 16, 0));
    ANSWERS(INVALID_VALUE, cuMemHostRegister_v2(host, 0, 0));
    /* In the order of a stream nothing is an allocation too: of address 0, and it may be freed. */
    CHECK(cuMemAllocAsync(&address, 0, NULL));
    ASSERT(address == 0);
    CHECK(cuMemFreeAsync(address, NULL));
    address = 7;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cuMemAllocFromPoolAsync(&address, 0, pool, NULL));
    ASSERT(address == 0);
    ANSWERS(INVALID_VALUE, cuMemAllocAsync(NULL, 0, NULL));
    ANSWERS(INVALID_VALUE, cuMemAllocAsync(NULL, 16, NULL));
    CHECK(cuMemFree_v2(0));
    CHECK(cuMemFreeAsync(0, NULL));
    CHECK(cuMemFreeHost(NULL));
    ANSWERS(INVALID_VALUE, cuMemFree_v2(bytes + 1));
    CHECK(cuMemGetAddressRange_v2(NULL, NULL, bytes));
    CHECK(cuMemGetInfo_v2(NULL, NULL));
}

static void copies(void) {
    CHECK(cuMemcpyHtoD_v2(0, NULL, 0));
    CHECK(cuMemcpyHtoD_v2(bytes, NULL, 0));
    CHECK(cuMemcpyDtoH_v2(NULL, bytes, 0));
    CHECK(cuMemcpyDtoH_v2(NULL, 0, 0));
    CHECK(cuMemcpyDtoD_v2(0, 0, 0));
    CHECK(cuMemcpy(0, 0, 0));
    CHECK(cuMemcpyAsync(0, 0, 0, NULL));
    CHECK(cuMemcpyHtoDAsync_v2(0, NULL, 0, NULL));
    CHECK(cuMemcpyDtoHAsync_v2(NULL, 0, 0, NULL));
    CHECK(cuMemcpyDtoDAsync_v2(0, bytes, 0, NULL));
    CHECK(cuMemcpyPeer(0, context, bytes, context, 0));
    /* Something from or to nowhere is an error. */
    ANSWERS(INVALID_VALUE, cuMemcpyHtoD_v2(bytes, NULL, 4));
    ANSWERS(INVALID_VALUE, cuMemcpyDtoH_v2(NULL, bytes, 4));
    ANSWERS(INVALID_VALUE, cuMemcpy(0, (CUdeviceptr)host, 4));
    ANSWERS(INVALID_VALUE, cuMemcpy((CUdeviceptr)host, 0, 4));
    ANSWERS(INVALID_VALUE, cuMemcpyAsync(0, (CUdeviceptr)host, 4, NULL));
}

static void sets(void) {
    CHECK(cuMemsetD8_v2(0, 1, 0));
    CHECK(cuMemsetD8_v2(bytes, 1, 0));
    CHECK(cuMemsetD16_v2(bytes, 1, 0));
    CHECK(cuMemsetD32_v2(bytes, 1, 0));
    CHECK(cuMemsetD8Async(0, 1, 0, NULL));
    CHECK(cuMemsetD2D8_v2(bytes, 16, 1, 0, 4));
    CHECK(cuMemsetD2D8_v2(bytes, 16, 1, 4, 0));
    CHECK(cuMemsetD2D32_v2(0, 0, 1, 0, 0));
    ANSWERS(INVALID_VALUE, cuMemsetD2D32_v2(bytes, (size_t)-1, 1, (size_t)-1 / 4, 8));
    CHECK(cuMemcpyDtoH_v2(host, bytes, N));
    for (int at = 0; at < N; at++) ASSERT(host[at] == 5);
}

static void boxes(void) {
    Copy3D copy = {0};
    copy.from.kind = 2, copy.to.kind = 1;
    copy.from.device = bytes, copy.to.host = host;
    copy.from.pitch = copy.to.pitch = 8;
    size_t sizes[3][3] = {{0, 2, 2}, {4, 0, 2}, {4, 2, 0}};
    for (int at = 0; at < 3; at++) {
        copy.width = sizes[at][0], copy.height = sizes[at][1], copy.depth = sizes[at][2];
        CHECK(cuMemcpy3D_v2(&copy));
    }
    ANSWERS(INVALID_VALUE, cuMemcpy3D_v2(NULL));
}

static void launches(void) {
    const char *ptx = ".version 7.0\n.target sm_75\n.address_size 64\n"
                      ".visible .entry nop(.param .u64 data) { ret; }\n"
                      ".visible .entry bare() { ret; }\n";
    CUmodule module;
    CUfunction nop, bare;
    CUdeviceptr none = 0;
    void *parameters[] = {&none};
    ANSWERS(INVALID_VALUE, cuModuleLoadData(&module, NULL));
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&nop, module, "nop"));
    CHECK(cuModuleGetFunction(&bare, module, "bare"));
    ANSWERS(INVALID_VALUE, cuLaunchKernel(nop, 0, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    ANSWERS(INVALID_VALUE, cuLaunchKernel(nop, 1, 1, 1, 0, 1, 1, 0, NULL, parameters, NULL));
    /* An address of nothing is a parameter like any other, and none are needed where there are none. */
    CHECK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    CHECK(cuLaunchKernel(bare, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "";
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc_v2(&bytes, N));
    CHECK(cuMemsetD8_v2(bytes, 5, N));
    if (!strcmp(part, "allocations")) allocations();
    else if (!strcmp(part, "copies")) copies();
    else if (!strcmp(part, "sets")) sets();
    else if (!strcmp(part, "boxes")) boxes();
    else if (!strcmp(part, "launches")) launches();
    else return 2;
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree_v2(bytes));
    printf("%s: well\n", part);
    return 0;
}
