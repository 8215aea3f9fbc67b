/* The tables of variants.c: each variant of an export, and how its difference shows. */
#include <pthread.h>

typedef int (*Any)();
typedef struct {
    int kind, id;
} Location;
typedef struct {
    KernelNode first;
    CUfunction kernel;
    CUcontext context;
} KernelNode2;
typedef struct {
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void *attributes;
    unsigned count;
} LaunchConfig;
typedef struct {
    int kind, reserved[3];
    long long params[29], last;
} NodeParams;
typedef struct {
    unsigned long long flags;
    CUstream stream;
    CUnode node;
    int result;
} InstantiateParams;
typedef struct {
    char bytes[64];
} IpcHandle;

int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);
int cuDriverGetVersion(int *);
int cuMemFreeAsync(CUdeviceptr, CUstream);
int cuDeviceGetDefaultMemPool(void **, int);
int cuStreamGetId(CUstream, unsigned long long *);
int cuGraphRemoveDependencies(CUgraph, const CUnode *, const CUnode *, size_t);
int cuGraphAddDependencies(CUgraph, const CUnode *, const CUnode *, size_t);
int cuStreamUpdateCaptureDependencies(CUstream, CUnode *, size_t, unsigned);

enum { BYTES = 64 };
#define S(number) ((size_t)(number))
#define OWN ((CUstream)2)

static CUcontext context;
static CUdeviceptr memory, source, managed, at;
static CUstream other;
static CUevent event, first, last;
static CUarray array;
static CUmodule module;
static CUfunction function;
static CUgraph graph, borrowed;
static CUexec exec;
static CUnode kernel_node, a, b, node;
static CUlink linker;
static void *handle, *more, *pool, *page;
static size_t one;
static int number;
static float milliseconds;
static unsigned long long id, other_id;
static char host[4096], words[64];

static unsigned by = 1, threads_of_kernel = 4;
static void *parameters[3] = {&memory, &by, &threads_of_kernel};
static KernelNode kernel1;
static KernelNode2 kernel2, shown;
static LaunchConfig config = {{1, 1, 1}, {4, 1, 1}, 0, NULL, NULL, 0};
static NodeParams empty = {5, {0}, {0}, 0};
static InstantiateParams instantiate;
static const ArrayFlat flat = {16, 0, 0x20, 1};
static const ArrayBox box = {16, 0, 0, 0x20, 1, 0};
static ArrayFlat told;
static ArrayBox told_box;
static const Location here = {1, 0};
static Copy2D rows;
static Copy3D boxes;
static CUdeviceptr targets[1], sources[1];
static size_t sizes[1] = {BYTES}, indices[1];
static long long attributes[4] = {1};
static long long update[3];
static IpcHandle nothing;
static long long hint[8];

static void do_nothing(void *unused) { (void)unused; }

/* Makes what the rows use. */
static void prepare(void) {
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&memory, 1 << 16));
    CHECK(cuMemAlloc_v2(&source, 1 << 16));
    CHECK(cuMemAllocManaged(&managed, 4096, 1));
    CHECK(cuStreamCreate(&other, 1));
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventCreate(&first, 0));
    CHECK(cuEventCreate(&last, 0));
    CHECK(cuEventRecord(first, other));
    CHECK(cuEventRecord(last, other));
    CHECK(cuEventSynchronize(last));
    CHECK(cuArrayCreate_v2(&array, &flat));
    CHECK(cuModuleLoadData(&module, ADD));
    CHECK(cuModuleGetFunction(&function, module, "add"));
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    ASSERT(posix_memalign(&page, 4096, 4096) == 0);
    kernel1 = (KernelNode){function, {1, 1, 1}, {4, 1, 1}, 0, parameters, NULL};
    kernel2 = (KernelNode2){kernel1, function, context};
    kernel2.first.function = NULL;
    CHECK(cuGraphCreate(&borrowed, 0));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddKernelNode(&kernel_node, graph, NULL, 0, &kernel1));
    CHECK(cuGraphAddEmptyNode(&a, graph, NULL, 0));
    CHECK(cuGraphAddEmptyNode(&b, graph, NULL, 0));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    rows.from.kind = rows.to.kind = boxes.from.kind = boxes.to.kind = 2;
    rows.from.device = boxes.from.device = sources[0] = source;
    rows.to.device = boxes.to.device = targets[0] = memory;
    rows.from.pitch = rows.to.pitch = boxes.from.pitch = boxes.to.pitch = BYTES;
    boxes.from.height = boxes.to.height = 1;
    rows.width = boxes.width = BYTES;
    rows.height = boxes.height = boxes.depth = 1;
}

/* X(name, effect, call with the NULL stream): forms for the thread's default stream. */
#define THREAD(X)                                                                                  \
    X(cuEventRecordWithFlags_ptsz, NODE, f(event, NULL, 1))                                        \
    X(cuEventRecord_ptsz, JOINS, f(event, NULL))                                                   \
    X(cuGraphInstantiateWithParams_ptsz, SAME, f(&handle, graph, &instantiate))                    \
    X(cuGraphLaunch_ptsz, NODE, f(exec, NULL))                                                     \
    X(cuGraphUpload_ptsz, CLOSED, f(exec, NULL))                                                   \
    X(cuLaunchCooperativeKernel_ptsz, NODE, f(function, 1, 1, 1, 4, 1, 1, 0, NULL, parameters))    \
    X(cuLaunchHostFunc_ptsz, NODE, f(NULL, do_nothing, NULL))                                      \
    X(cuLaunchKernelEx_ptsz, NODE, f(&config, function, parameters, NULL))                         \
    X(cuLaunchKernel_ptsz, NODE, f(function, 1, 1, 1, 4, 1, 1, 0, NULL, parameters, NULL))         \
    X(cuMemAllocAsync_ptsz, CLOSED, f(&at, S(BYTES), NULL))                                        \
    X(cuMemAllocFromPoolAsync_ptsz, CLOSED, f(&at, S(BYTES), pool, NULL))                          \
    X(cuMemFreeAsync_ptsz, CLOSED, f(memory, NULL))                                                \
    X(cuMemPrefetchAsync_ptsz, CLOSED, f(managed, S(4096), 0, NULL))                               \
    X(cuMemPrefetchAsync_v2_ptsz, CLOSED, f(managed, S(4096), here, 0, NULL))                      \
    X(cuMemcpy2DAsync_v2_ptsz, NODE, f(&rows, NULL))                                               \
    X(cuMemcpy2DUnaligned_v2_ptds, CLOSED, f(&rows))                                               \
    X(cuMemcpy2D_v2_ptds, CLOSED, f(&rows))                                                        \
    X(cuMemcpy3DAsync_v2_ptsz, NODE, f(&boxes, NULL))                                              \
    X(cuMemcpy3DPeerAsync_ptsz, NODE, f(&boxes, NULL))                                             \
    X(cuMemcpy3DPeer_ptds, CLOSED, f(&boxes))                                                      \
    X(cuMemcpy3D_v2_ptds, CLOSED, f(&boxes))                                                       \
    X(cuMemcpyAsync_ptsz, NODE, f(memory, source, S(BYTES), NULL))                                 \
    X(cuMemcpyAtoA_v2_ptds, CLOSED, f(array, S(0), array, S(8), S(8)))                             \
    X(cuMemcpyAtoD_v2_ptds, CLOSED, f(memory, array, S(0), S(8)))                                  \
    X(cuMemcpyAtoHAsync_v2_ptsz, NODE, f(host, array, S(0), S(8), NULL))                           \
    X(cuMemcpyAtoH_v2_ptds, CLOSED, f(host, array, S(0), S(8)))                                    \
    X(cuMemcpyBatchAsync_ptsz, NODE,                                                               \
      f(targets, sources, sizes, S(1), attributes, indices, S(1), &one, NULL))                     \
    X(cuMemcpyBatchAsync_v2_ptsz, NODE,                                                            \
      f(targets, sources, sizes, S(1), attributes, indices, S(1), NULL))                           \
    X(cuMemcpyDtoA_v2_ptds, CLOSED, f(array, S(0), memory, S(8)))                                  \
    X(cuMemcpyDtoDAsync_v2_ptsz, NODE, f(memory, source, S(BYTES), NULL))                          \
    X(cuMemcpyDtoD_v2_ptds, CLOSED, f(memory, source, S(BYTES)))                                   \
    X(cuMemcpyDtoHAsync_v2_ptsz, NODE, f(host, memory, S(BYTES), NULL))                            \
    X(cuMemcpyDtoH_v2_ptds, CLOSED, f(host, memory, S(BYTES)))                                     \
    X(cuMemcpyHtoAAsync_v2_ptsz, NODE, f(array, S(0), host, S(8), NULL))                           \
    X(cuMemcpyHtoA_v2_ptds, CLOSED, f(array, S(0), host, S(8)))                                    \
    X(cuMemcpyHtoDAsync_v2_ptsz, NODE, f(memory, host, S(BYTES), NULL))                            \
    X(cuMemcpyHtoD_v2_ptds, CLOSED, f(memory, host, S(BYTES)))                                     \
    X(cuMemcpyPeerAsync_ptsz, NODE, f(memory, context, source, context, S(BYTES), NULL))           \
    X(cuMemcpyPeer_ptds, CLOSED, f(memory, context, source, context, S(BYTES)))                    \
    X(cuMemcpy_ptds, CLOSED, f(memory, source, S(BYTES)))                                          \
    X(cuMemsetD16Async_ptsz, NODE, f(memory, 5, S(8), NULL))                                       \
    X(cuMemsetD16_v2_ptds, CLOSED, f(memory, 5, S(8)))                                             \
    X(cuMemsetD2D16Async_ptsz, NODE, f(memory, S(BYTES), 5, S(8), S(2), NULL))                     \
    X(cuMemsetD2D16_v2_ptds, CLOSED, f(memory, S(BYTES), 5, S(8), S(2)))                           \
    X(cuMemsetD2D32Async_ptsz, NODE, f(memory, S(BYTES), 5, S(8), S(2), NULL))                     \
    X(cuMemsetD2D32_v2_ptds, CLOSED, f(memory, S(BYTES), 5, S(8), S(2)))                           \
    X(cuMemsetD2D8Async_ptsz, NODE, f(memory, S(BYTES), 5, S(8), S(2), NULL))                      \
    X(cuMemsetD2D8_v2_ptds, CLOSED, f(memory, S(BYTES), 5, S(8), S(2)))                            \
    X(cuMemsetD32Async_ptsz, NODE, f(memory, 5, S(8), NULL))                                       \
    X(cuMemsetD32_v2_ptds, CLOSED, f(memory, 5, S(8)))                                             \
    X(cuMemsetD8Async_ptsz, NODE, f(memory, 5, S(8), NULL))                                        \
    X(cuMemsetD8_v2_ptds, CLOSED, f(memory, 5, S(8)))                                              \
    X(cuStreamAddCallback_ptsz, CLOSED, f(NULL, do_nothing, NULL, 0))                              \
    X(cuStreamAttachMemAsync_ptsz, CLOSED, f(NULL, managed, S(4096), 1))                           \
    X(cuStreamBeginCaptureToGraph_ptsz, BEGINS, f(NULL, borrowed, NULL, NULL, S(0), 0))            \
    X(cuStreamBeginCapture_ptsz, BEGINS, f(NULL))                                                  \
    X(cuStreamBeginCapture_v2_ptsz, BEGINS, f(NULL, 0))                                            \
    X(cuStreamCopyAttributes_ptsz, SAME, f(NULL, other))                                           \
    X(cuStreamEndCapture_ptsz, ENDS, f(NULL, &handle))                                             \
    X(cuStreamGetAttribute_ptsz, SAME, f(NULL, 1, hint))                                           \
    X(cuStreamGetCaptureInfo_ptsz, SEES, f(NULL, &number, &id) || number != 1)                     \
    X(cuStreamGetCaptureInfo_v2_ptsz, SEES,                                                        \
      f(NULL, &number, &id, &handle, &more, &one) || number != 1)                                  \
    X(cuStreamGetCaptureInfo_v3_ptsz, SEES,                                                        \
      f(NULL, &number, &id, &handle, &more, &page, &one) || number != 1)                           \
    X(cuStreamGetCtx_ptsz, SAME, f(NULL, &handle) || handle != context)                            \
    X(cuStreamGetCtx_v2_ptsz, SAME, f(NULL, &handle, &more) || handle != context)                  \
    X(cuStreamGetDevice_ptsz, SAME, f(NULL, &number) || number != 0)                               \
    X(cuStreamGetFlags_ptsz, SAME, f(NULL, &number) || number != 0)                                \
    X(cuStreamGetId_ptsz, SAME, f(NULL, &id) || cuStreamGetId(OWN, &other_id) || id != other_id)   \
    X(cuStreamGetPriority_ptsz, SAME, f(NULL, &number) || number != 0)                             \
    X(cuStreamIsCapturing_ptsz, SEES, f(NULL, &number) || number != 1)                             \
    X(cuStreamQuery_ptsz, CLOSED, f(NULL))                                                         \
    X(cuStreamSetAttribute_ptsz, SAME, f(NULL, 1, hint))                                           \
    X(cuStreamSynchronize_ptsz, CLOSED, f(NULL))                                                   \
    X(cuStreamUpdateCaptureDependencies_ptsz, SEES, f(NULL, NULL, S(0), 1))                        \
    X(cuStreamUpdateCaptureDependencies_v2_ptsz, SEES, f(NULL, NULL, NULL, S(0), 1))               \
    X(cuStreamWaitEvent_ptsz, NODE, f(NULL, event, 1))

/* X(name, base, what holds): later forms. Those of CUDA 3.2 are of 64 bits, and what came before is refused. */
#define OF_64_BITS (old() == 801)
#define VERSIONS(X)                                                                                \
    X(cuArray3DCreate_v2, cuArray3DCreate,                                                         \
      !f(&handle, &box) && !cuArrayDestroy(handle) && OF_64_BITS)                                  \
    X(cuArray3DGetDescriptor_v2, cuArray3DGetDescriptor,                                           \
      !f(&told_box, array) && told_box.width == 16 && OF_64_BITS)                                  \
    X(cuArrayCreate_v2, cuArrayCreate, !f(&handle, &flat) && !cuArrayDestroy(handle) && OF_64_BITS) \
    X(cuArrayGetDescriptor_v2, cuArrayGetDescriptor,                                               \
      !f(&told, array) && told.width == 16 && OF_64_BITS)                                          \
    X(cuCtxCreate_v2, cuCtxCreate, !f(&handle, 0, 0) && !cuCtxDestroy_v2(handle))                  \
    /* With an affinity, and with parameters; devices here have neither. */                        \
    X(cuCtxCreate_v3, cuCtxCreate,                                                                 \
      !f(&handle, NULL, 0, 0, 0) && !cuCtxDestroy_v2(handle) && f(&handle, words, 1, 0, 0) == 224) \
    X(cuCtxCreate_v4, cuCtxCreate,                                                                 \
      !f(&handle, NULL, 0, 0) && !cuCtxDestroy_v2(handle) && f(&handle, words, 0, 0) == 801)       \
    X(cuCtxDestroy_v2, cuCtxDestroy, !cuCtxCreate_v2((void *)&handle, 0, 0) && !f(handle) &&       \
                                         old(handle) == 201)                                       \
    /* Of a context that is named. */                                                              \
    X(cuCtxGetDevice_v2, cuCtxGetDevice,                                                           \
      !f(&number, context) && !f(&number, NULL) && f(&number, S(7)) == 201 && !old(&number))       \
    X(cuCtxPopCurrent_v2, cuCtxPopCurrent,                                                         \
      !cuCtxPushCurrent_v2(context) && !f(&handle) && handle == context)                           \
    X(cuCtxPushCurrent_v2, cuCtxPushCurrent, !f(context) && !cuCtxPopCurrent_v2((void *)&handle))  \
    X(cuCtxSynchronize_v2, cuCtxSynchronize, !f(context) && f(S(7)) == 201 && !old())              \
    X(cuDeviceGetUuid_v2, cuDeviceGetUuid,                                                         \
      !f(words, 0) && !old(words + 16, 0) && !memcmp(words, words + 16, 16))                       \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease,                                     \
      !cuDevicePrimaryCtxRetain((void *)&handle, 0) && !f(0) && old(0) == 201)                     \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, !f(0) && !old(0))                       \
    X(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags, !f(0, 0) && !old(0, 0))           \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem, !f(&one, 0) && one > 0 && OF_64_BITS)                 \
    X(cuEventDestroy_v2, cuEventDestroy,                                                           \
      !cuEventCreate((void *)&handle, 0) && !f(handle) && old(handle) == 400)                      \
    X(cuEventElapsedTime_v2, cuEventElapsedTime,                                                   \
      !f(&milliseconds, first, last) && !old(&milliseconds, first, last))                          \
    /* With a reason. */                                                                           \
    X(cuGetProcAddress_v2, cuGetProcAddress,                                                       \
      !f("cuInit", &handle, 12000, S(0), &number) && number == 0 &&                                \
          !old("cuInit", &more, 12000, S(0)) && handle == more)                                    \
    /* With data of edges. */                                                                      \
    X(cuGraphAddDependencies_v2, cuGraphAddDependencies,                                           \
      !f(graph, &a, &b, NULL, S(1)) && !cuGraphRemoveDependencies(graph, &a, &b, 1))               \
    X(cuGraphRemoveDependencies_v2, cuGraphRemoveDependencies,                                     \
      !cuGraphAddDependencies(graph, &a, &b, 1) && !f(graph, &a, &b, NULL, S(1)))                  \
    X(cuGraphGetEdges_v2, cuGraphGetEdges, !f(graph, NULL, NULL, NULL, &one) && one == 0)          \
    X(cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependencies, !f(b, NULL, NULL, &one))          \
    X(cuGraphNodeGetDependentNodes_v2, cuGraphNodeGetDependentNodes, !f(a, NULL, NULL, &one))      \
    X(cuGraphAddNode_v2, cuGraphAddNode,                                                           \
      !f(&node, borrowed, NULL, NULL, S(0), &empty) && !old(&node, borrowed, NULL, S(0), &empty))  \
    /* With a kernel beside the function. */                                                       \
    X(cuGraphAddKernelNode_v2, cuGraphAddKernelNode,                                               \
      !f(&node, borrowed, NULL, S(0), &kernel2) && old(&node, borrowed, NULL, S(0), &kernel2))     \
    X(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams,                                   \
      !f(kernel_node, &kernel2) && old(kernel_node, &kernel2))                                     \
    X(cuGraphKernelNodeGetParams_v2, cuGraphKernelNodeGetParams,                                   \
      !f(kernel_node, &shown) && shown.context == context)                                         \
    X(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams,                           \
      !f(exec, kernel_node, &kernel2) && old(exec, kernel_node, &kernel2))                         \
    X(cuGraphExecUpdate_v2, cuGraphExecUpdate, !f(exec, graph, update) && !old(exec, graph, &node, &number)) \
    X(cuGraphInstantiate_v2, cuGraphInstantiate, !f(&handle, graph, &node, words, S(64)))          \
    X(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle,                                                   \
      f(&at, nothing, 1) == 1 && old(&at, nothing, 1) == 1)                                        \
    X(cuLinkCreate_v2, cuLinkCreate, !f(0, NULL, NULL, &linker))                                   \
    X(cuLinkAddData_v2, cuLinkAddData,                                                             \
      !f(linker, 1, ADD, S(strlen(ADD) + 1), "add", 0, NULL, NULL))                                \
    X(cuLinkAddFile_v2, cuLinkAddFile,                                                             \
      f(linker, 1, "/no/such/file", 0, NULL, NULL) == 301 && !cuLinkDestroy(linker))               \
    /* At a location. */                                                                           \
    X(cuMemAdvise_v2, cuMemAdvise,                                                                 \
      !f(managed, S(4096), 3, here) && !old(managed, S(4096), 3, 0))                               \
    X(cuMemPrefetchAsync_v2, cuMemPrefetchAsync,                                                   \
      !f(managed, S(4096), here, 0, NULL) && !old(managed, S(4096), 0, NULL))                      \
    X(cuMemAllocHost_v2, cuMemAllocHost, !f(&handle, S(BYTES)) && !cuMemFreeHost(handle))          \
    X(cuMemAllocPitch_v2, cuMemAllocPitch,                                                         \
      !f(&at, &one, S(100), S(3), 4) && one == 512 && !cuMemFree_v2(at) && OF_64_BITS)             \
    X(cuMemAlloc_v2, cuMemAlloc, !f(&at, S(BYTES)) && !cuMemFree_v2(at) && OF_64_BITS)             \
    X(cuMemFree_v2, cuMemFree, !cuMemAlloc_v2(&at, BYTES) && !f(at) && OF_64_BITS)                 \
    X(cuMemGetAddressRange_v2, cuMemGetAddressRange,                                               \
      !f(&at, &one, memory + 5) && at == memory && one == 1 << 16 && OF_64_BITS)                   \
    X(cuMemGetInfo_v2, cuMemGetInfo, !f(&one, &sizes[0]) && sizes[0] >= one && OF_64_BITS)         \
    X(cuMemHostRegister_v2, cuMemHostRegister, !f(host, S(BYTES), 0) && !cuMemHostUnregister(host)) \
    X(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer,                                     \
      !cuMemHostAlloc(&handle, BYTES, 2) && !f(&at, handle, 0) && !cuMemFreeHost(handle) && OF_64_BITS) \
    X(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, !f(&rows, other) && OF_64_BITS)                         \
    X(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, !f(&rows) && OF_64_BITS)                        \
    X(cuMemcpy2D_v2, cuMemcpy2D, !f(&rows) && OF_64_BITS)                                          \
    X(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, !f(&boxes, other) && OF_64_BITS)                        \
    X(cuMemcpy3D_v2, cuMemcpy3D, !f(&boxes) && OF_64_BITS)                                         \
    X(cuMemcpyAtoA_v2, cuMemcpyAtoA, !f(array, S(0), array, S(8), S(8)) && OF_64_BITS)             \
    X(cuMemcpyAtoD_v2, cuMemcpyAtoD, !f(memory, array, S(0), S(8)) && OF_64_BITS)                  \
    X(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync, !f(host, array, S(0), S(8), other) && OF_64_BITS)   \
    X(cuMemcpyAtoH_v2, cuMemcpyAtoH, !f(host, array, S(0), S(8)) && OF_64_BITS)                    \
    /* Without the number of the copy that failed. */                                              \
    X(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync,                                                   \
      !f(targets, sources, indices, S(1), attributes, indices, S(1), other) &&                     \
          !old(targets, sources, indices, S(1), attributes, indices, S(1), &one, other))           \
    X(cuMemcpyDtoA_v2, cuMemcpyDtoA, !f(array, S(0), memory, S(8)) && OF_64_BITS)                  \
    X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, !f(memory, source, S(8), other) && OF_64_BITS)      \
    X(cuMemcpyDtoD_v2, cuMemcpyDtoD, !f(memory, source, S(8)) && OF_64_BITS)                       \
    X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, !f(host, memory, S(8), other) && OF_64_BITS)        \
    X(cuMemcpyDtoH_v2, cuMemcpyDtoH, !f(host, memory, S(8)) && OF_64_BITS)                         \
    X(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync, !f(array, S(0), host, S(8), other) && OF_64_BITS)   \
    X(cuMemcpyHtoA_v2, cuMemcpyHtoA, !f(array, S(0), host, S(8)) && OF_64_BITS)                    \
    X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, !f(memory, host, S(8), other) && OF_64_BITS)        \
    X(cuMemcpyHtoD_v2, cuMemcpyHtoD, !f(memory, host, S(8)) && OF_64_BITS)                         \
    X(cuMemsetD16_v2, cuMemsetD16, !f(memory, 5, S(8)) && OF_64_BITS)                              \
    X(cuMemsetD2D16_v2, cuMemsetD2D16, !f(memory, S(BYTES), 5, S(8), S(2)) && OF_64_BITS)          \
    X(cuMemsetD2D32_v2, cuMemsetD2D32, !f(memory, S(BYTES), 5, S(8), S(2)) && OF_64_BITS)          \
    X(cuMemsetD2D8_v2, cuMemsetD2D8, !f(memory, S(BYTES), 5, S(8), S(2)) && OF_64_BITS)            \
    X(cuMemsetD32_v2, cuMemsetD32, !f(memory, 5, S(8)) && OF_64_BITS)                              \
    X(cuMemsetD8_v2, cuMemsetD8, !f(memory, 5, S(8)) && OF_64_BITS)                                \
    X(cuModuleGetGlobal_v2, cuModuleGetGlobal,                                                     \
      !f(&at, &one, module, "more") && one == 8 && OF_64_BITS)                                     \
    /* With a mode. */                                                                             \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture,                                               \
      !f(other, 1) && !cuStreamEndCapture(other, (void *)&handle))                                 \
    X(cuStreamDestroy_v2, cuStreamDestroy,                                                         \
      !cuStreamCreate((void *)&handle, 0) && !f(handle) && old(handle) == 400)                     \
    /* With more answers. */                                                                       \
    X(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo,                                           \
      !f(other, &number, &id, &handle, &more, &one) && !old(other, &number, &id))                  \
    X(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo,                                           \
      !f(other, &number, &id, &handle, &more, &page, &one) && !old(other, &number, &id))           \
    X(cuStreamGetCtx_v2, cuStreamGetCtx,                                                           \
      !f(other, &handle, &more) && handle == context && !more && !old(other, &handle))             \
    X(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies,                     \
      f(other, NULL, NULL, S(0), 1) == 401 && old(other, NULL, S(0), 1) == 401)

/* X(name): what Warploom does not support. */
#define REFUSED(X)                                                                                 \
    X(cuFabricCpyBatchAsync_ptsz) X(cuGLCtxCreate_v2) X(cuGLGetDevices_v2) X(cuGLMapBufferObjectAsync_v2) \
    X(cuGLMapBufferObjectAsync_v2_ptsz) X(cuGLMapBufferObject_v2) X(cuGLMapBufferObject_v2_ptds)   \
    X(cuGraphAddNode_v3) X(cuGraphNodeSetParams_v2) X(cuGraphicsMapResources_ptsz)                 \
    X(cuGraphicsResourceGetMappedPointer_v2) X(cuGraphicsResourceSetMapFlags_v2)                   \
    X(cuGraphicsUnmapResources_ptsz) X(cuLaunchHostFunc_v2) X(cuLaunchHostFunc_v2_ptsz)            \
    X(cuMemBatchDecompressAsync_ptsz) X(cuMemDiscardAndPrefetchBatchAsync_ptsz)                    \
    X(cuMemDiscardBatchAsync_ptsz) X(cuMemMapArrayAsync_ptsz) X(cuMemPrefetchBatchAsync_ptsz)      \
    X(cuMemcpy3DBatchAsync_ptsz) X(cuMemcpy3DBatchAsync_v2) X(cuMemcpy3DBatchAsync_v2_ptsz)        \
    X(cuMemcpy3DWithAttributesAsync_ptsz) X(cuMemcpyWithAttributesAsync_ptsz) X(cuMulticastBindAddr_v2) \
    X(cuMulticastBindMem_v2) X(cuSignalExternalSemaphoresAsync_ptsz) X(cuStreamBatchMemOp_ptsz)    \
    X(cuStreamBatchMemOp_v2) X(cuStreamBatchMemOp_v2_ptsz) X(cuStreamBeginCaptureToCig_ptsz)       \
    X(cuStreamBeginRecaptureToGraph_ptsz) X(cuStreamEndCaptureToCig_ptsz) X(cuStreamGetDevResource_ptsz) \
    X(cuStreamWaitValue32_ptsz) X(cuStreamWaitValue32_v2) X(cuStreamWaitValue32_v2_ptsz)           \
    X(cuStreamWaitValue64_ptsz) X(cuStreamWaitValue64_v2) X(cuStreamWaitValue64_v2_ptsz)           \
    X(cuStreamWriteValue32_ptsz) X(cuStreamWriteValue32_v2) X(cuStreamWriteValue32_v2_ptsz)        \
    X(cuStreamWriteValue64_ptsz) X(cuStreamWriteValue64_v2) X(cuStreamWriteValue64_v2_ptsz)        \
    X(cuTexRefGetAddress_v2) X(cuTexRefSetAddress2D_v2) X(cuTexRefSetAddress2D_v3)                 \
    X(cuTexRefSetAddress_v2) X(cuVDPAUCtxCreate_v2) X(cuWaitExternalSemaphoresAsync_ptsz)          \
    
