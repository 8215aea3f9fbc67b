/* Functions with several answers, each left out in turn: what CUDA calls optional may be null, and the other
   answers are written as ever; what it does not call so is an error, and nothing is written. */
#include "driver.h"

#include "add.h"

enum { INVALID_VALUE = 1, BYTES = 4096 };

int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);
int cuDeviceComputeCapability(int *, int *, int);
int cuCtxGetStreamPriorityRange(int *, int *);
int cuStreamGetCaptureInfo(CUstream, int *, unsigned long long *);
int cuStreamGetCaptureInfo_v2(CUstream, int *, unsigned long long *, CUgraph *, const CUnode **, size_t *);
int cuStreamGetCaptureInfo_v3(CUstream, int *, unsigned long long *, CUgraph *, const CUnode **,
                              const void **, size_t *);
int cuStreamGetCtx_v2(CUstream, CUcontext *, void **);
int cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned);
int cuLibraryGetManaged(CUdeviceptr *, size_t *, CUlibrary, const char *);
int cuLibraryUnload(CUlibrary);
int cuKernelGetParamInfo(CUfunction, size_t, size_t *, size_t *);
int cuGraphGetEdges(CUgraph, CUnode *, CUnode *, size_t *);
int cuGraphNodeGetDependencies(CUnode, CUnode *, size_t *);
int cuOccupancyMaxPotentialBlockSize(int *, int *, CUfunction, size_t (*)(int), size_t, int);

static CUcontext context;
static CUdeviceptr memory;

static void of_memory(void) {
    size_t left = 0, all = 0, size = 0, pitch = 0;
    CUdeviceptr start = 0, made = 0;
    CHECK(cuMemGetInfo_v2(&left, NULL));
    CHECK(cuMemGetInfo_v2(NULL, &all));
    CHECK(cuMemGetInfo_v2(NULL, NULL));
    ASSERT(left > 0 && left <= all);
    CHECK(cuMemGetAddressRange_v2(&start, NULL, memory + 5));
    CHECK(cuMemGetAddressRange_v2(NULL, &size, memory + 5));
    CHECK(cuMemGetAddressRange_v2(NULL, NULL, memory + 5));
    ASSERT(start == memory && size == BYTES);
    ANSWERS(INVALID_VALUE, cuMemAllocPitch_v2(&made, NULL, 100, 3, 4));
    ANSWERS(INVALID_VALUE, cuMemAllocPitch_v2(NULL, &pitch, 100, 3, 4));
    ASSERT(made == 0 && pitch == 0);
}

static void of_contexts(void) {
    int least = 9, greatest = 9, major = 0, minor = 9, active = 9;
    unsigned flags = 9;
    CHECK(cuCtxGetStreamPriorityRange(&least, NULL));
    CHECK(cuCtxGetStreamPriorityRange(NULL, &greatest));
    CHECK(cuCtxGetStreamPriorityRange(NULL, NULL));
    ASSERT(least == 0 && greatest < 0);
    CHECK(cuCtxPushCurrent_v2(context));
    CHECK(cuCtxPopCurrent_v2(NULL));
    ANSWERS(INVALID_VALUE, cuDeviceComputeCapability(&major, NULL, 0));
    ANSWERS(INVALID_VALUE, cuDeviceComputeCapability(NULL, &minor, 0));
    ASSERT(major == 0 && minor == 9);
    ANSWERS(INVALID_VALUE, cuDevicePrimaryCtxGetState(0, &flags, NULL));
    ANSWERS(INVALID_VALUE, cuDevicePrimaryCtxGetState(0, NULL, &active));
    ASSERT(flags == 9 && active == 9);
}

/* A module with a variable that the host may touch. */
static const char MANAGED[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                              ".visible .global .attribute(.managed) .align 4 .u32 both = 5;\n";

static void of_modules(void) {
    CUlibrary library, shared;
    CUfunction add;
    CUdeviceptr at = 0, managed = 0;
    CUlink link;
    size_t size = 0, offset = 9, bytes = 0;
    void *image = NULL, *found = NULL;
    int grid = 0, block = 0;
    CHECK(cuLibraryLoadData(&library, ADD, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&add, library, "add"));
    CHECK(cuLibraryGetGlobal(&at, NULL, library, "more"));
    CHECK(cuLibraryGetGlobal(NULL, &size, library, "more"));
    CHECK(cuModuleGetGlobal_v2(&at, NULL, (CUmodule)library, "more"));
    CHECK(cuModuleGetGlobal_v2(NULL, &size, (CUmodule)library, "more"));
    ASSERT(at != 0 && size == 8);
    /* One of them is wanted. */
    ANSWERS(INVALID_VALUE, cuLibraryGetGlobal(NULL, NULL, library, "more"));
    ANSWERS(INVALID_VALUE, cuModuleGetGlobal_v2(NULL, NULL, (CUmodule)library, "more"));
    CHECK(cuLibraryLoadData(&shared, MANAGED, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetGlobal(&at, NULL, shared, "both"));
    ANSWERS(INVALID_VALUE, cuLibraryGetManaged(NULL, NULL, shared, "both"));
    ANSWERS(500, cuLibraryGetManaged(&managed, NULL, library, "more"));
    CHECK(cuLibraryGetManaged(&managed, NULL, shared, "both"));
    ASSERT(managed == at);
    CHECK(cuLibraryUnload(shared));
    CHECK(cuKernelGetParamInfo(add, 1, &offset, NULL));
    ASSERT(offset == 8);
    ANSWERS(INVALID_VALUE, cuKernelGetParamInfo(add, 1, NULL, &bytes));
    ASSERT(bytes == 0);
    CHECK(cuOccupancyMaxPotentialBlockSize(&grid, NULL, add, NULL, 0, 0));
    CHECK(cuOccupancyMaxPotentialBlockSize(NULL, &block, add, NULL, 0, 0));
    ASSERT(grid > 0 && block > 0);
    CHECK(cuLinkCreate_v2(0, NULL, NULL, &link));
    CHECK(cuLinkAddData_v2(link, 1, (void *)ADD, strlen(ADD) + 1, NULL, 0, NULL, NULL));
    ANSWERS(INVALID_VALUE, cuLinkComplete(link, NULL, &size));
    CHECK(cuLinkComplete(link, &image, NULL));
    CHECK(cuLinkDestroy(link));
    CHECK(cuGetProcAddress_v2("cuInit", &found, 12000, 0, NULL));
    ASSERT(found != NULL);
}

static void of_graphs(void) {
    CUstream stream;
    CUgraph graph;
    CUnode node;
    CUexec exec;
    CUcontext of = NULL;
    int status = 9;
    unsigned long long id = 9;
    size_t count = 9;
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuStreamGetCaptureInfo(stream, &status, NULL));
    CHECK(cuStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, NULL, NULL));
    CHECK(cuStreamGetCaptureInfo_v3(stream, &status, NULL, NULL, NULL, NULL, NULL));
    ASSERT(status == 0);
    ANSWERS(INVALID_VALUE, cuStreamGetCaptureInfo(stream, NULL, &id));
    CHECK(cuStreamBeginCapture_v2(stream, 0));
    CHECK(cuStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, NULL, NULL));
    ASSERT(status == 1);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuStreamGetCtx_v2(stream, &of, NULL));
    ASSERT(of == context);
    CHECK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    CHECK(cuGraphGetEdges(graph, NULL, NULL, &count));
    ASSERT(count == 0);
    ANSWERS(INVALID_VALUE, cuGraphGetEdges(graph, NULL, NULL, NULL));
    ANSWERS(INVALID_VALUE, cuGraphNodeGetDependencies(node, NULL, NULL));
    CHECK(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
    CHECK(cuGraphExecUpdate(exec, graph, NULL, NULL));
}

int main(int count, char **arguments) {
    (void)count;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&memory, BYTES));
    of_memory();
    of_contexts();
    of_modules();
    of_graphs();
    printf("%s: well\n", arguments[1]);
    return 0;
}
