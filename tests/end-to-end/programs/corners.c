/* Corners of the driver API that few programs visit, one part for each argument. */
#include "driver.h"

enum { INVALID_VALUE = 1, N = 64 };

typedef struct {
    int kind, id;
} Location;
typedef struct {
    void (*function)(void *);
    void *data;
} HostNode;

int cuMemsetD2D8Async(CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream);
int cuMemsetD2D16Async(CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream);
int cuMemsetD2D32Async(CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream);
int cuMemcpyBatchAsync(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t,
                       size_t *, CUstream);
int cuMemcpyBatchAsync_v2(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t,
                          CUstream);
int cuMemPrefetchAsync_v2(CUdeviceptr, size_t, Location, unsigned, CUstream);
int cuMemAdvise_v2(CUdeviceptr, size_t, int, Location);
int cuMemRangeGetAttribute(void *, size_t, int, CUdeviceptr, size_t);
int cuMemRangeGetAttributes(void **, size_t *, int *, size_t, CUdeviceptr, size_t);
int cuMemGetDefaultMemPool(void **, Location *, int);
int cuMemGetMemPool(void **, Location *, int);
int cuMemSetMemPool(Location *, int, void *);
int cuDeviceGraphMemTrim(int);
int cuDeviceGetGraphMemAttribute(int, int, void *);
int cuCtxResetPersistingL2Cache(void);
int cuStreamGetCtx_v2(CUstream, CUcontext *, void **);
int cuStreamGetGreenCtx(CUstream, void **);
int cuStreamGetAttribute(CUstream, int, void *);
int cuStreamSetAttribute(CUstream, int, void *);
int cuStreamCopyAttributes(CUstream, CUstream);
int cuKernelGetParamCount(CUfunction, size_t *);
int cuFuncGetParamCount(CUfunction, size_t *);
int cuOccupancyAvailableDynamicSMemPerBlock(size_t *, CUfunction, int, int);
int cuOccupancyMaxPotentialBlockSize(int *, int *, CUfunction, size_t (*)(int), size_t, int);
int cuGraphAddHostNode(CUnode *, CUgraph, const CUnode *, size_t, const HostNode *);
int cuGraphHostNodeGetParams(CUnode, HostNode *);
int cuGraphMemsetNodeGetParams(CUnode, SetNode *);
int cuGraphAddEventRecordNode(CUnode *, CUgraph, const CUnode *, size_t, CUevent);
int cuGraphAddEventWaitNode(CUnode *, CUgraph, const CUnode *, size_t, CUevent);
int cuGraphEventRecordNodeGetEvent(CUnode, CUevent *);
int cuGraphEventWaitNodeGetEvent(CUnode, CUevent *);
int cuGraphEventRecordNodeSetEvent(CUnode, CUevent);
int cuGraphEventWaitNodeSetEvent(CUnode, CUevent);
int cuGraphExecEventRecordNodeSetEvent(CUexec, CUnode, CUevent);
int cuGraphExecEventWaitNodeSetEvent(CUexec, CUnode, CUevent);
int cuGraphAddChildGraphNode(CUnode *, CUgraph, const CUnode *, size_t, CUgraph);
int cuGraphExecChildGraphNodeSetParams(CUexec, CUnode, CUgraph);
int cuGraphGetEdges_v2(CUgraph, CUnode *, CUnode *, void *, size_t *);
int cuGraphNodeGetDependencies_v2(CUnode, CUnode *, void *, size_t *);
int cuGraphNodeGetDependentNodes_v2(CUnode, CUnode *, void *, size_t *);
int cuGraphDebugDotPrint(CUgraph, const char *, unsigned);

static CUcontext context;
static CUdeviceptr bytes;
static unsigned char host[N];

static void begin(void) {
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&bytes, N));
    CHECK(cuMemsetD8_v2(bytes, 0, N));
}

static void fetch(void) { CHECK(cuMemcpyDtoH_v2(host, bytes, N)); }

static void rows(void) {
    unsigned char from[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    CUdeviceptr to[] = {bytes, 0}, sources[] = {0, 0};
    size_t sizes[] = {4, 4}, failed = 0;
    begin();
    CHECK(cuMemsetD2D8Async(bytes, 8, 7, 3, 2, NULL));
    CHECK(cuMemsetD2D16Async(bytes + 16, 8, 0x0909, 1, 2, NULL));
    CHECK(cuMemsetD2D32Async(bytes + 32, 16, 0x0b0b0b0b, 1, 2, NULL));
    fetch();
    for (int at = 0; at < N; at++) {
        int wanted = at < 16 ? (at % 8 < 3 ? 7 : 0) : at < 32 ? (at % 8 < 2 ? 9 : 0)
                                                               : (at % 16 < 4 ? 11 : 0);
        ASSERT(host[at] == wanted);
    }
    to[0] = bytes, to[1] = bytes + 8;
    sources[0] = (uintptr_t)from[0], sources[1] = (uintptr_t)from[1];
    CHECK(cuMemcpyBatchAsync_v2(to, sources, sizes, 2, NULL, NULL, 0, NULL));
    sources[0] = bytes + 8, to[0] = bytes + 4;
    CHECK(cuMemcpyBatchAsync(to, sources, sizes, 1, NULL, NULL, 0, &failed, NULL));
    fetch();
    ASSERT(!memcmp(host, "\1\2\3\4\5\6\7\10\5\6\7\10", 12));
}

static void advice(void) {
    Location here = {1, 0}, other = {2, 0};
    CUdeviceptr managed;
    void *pool = NULL, *again = NULL;
    int first = 9, second[2] = {9, 9};
    void *data[] = {&first, second};
    size_t sizes[] = {4, 8};
    int attributes[] = {1, 3};
    uint64_t held = 9;
    begin();
    CHECK(cuMemAllocManaged(&managed, 16384, 1));
    /* Nothing was said of it yet. */
    CHECK(cuMemRangeGetAttribute(&first, 4, 2, managed, 4096));
    ASSERT(first == -2);
    CHECK(cuMemRangeGetAttributes(data, sizes, attributes, 2, managed, 4096));
    ASSERT(first == 0 && second[0] == -2 && second[1] == -2);
    /* Mostly read, of the first page; wanted on the device, accessed by it and by the host, all of it. */
    CHECK(cuMemAdvise_v2(managed, 4096, 1, here));
    CHECK(cuMemAdvise_v2(managed, 16384, 3, here));
    CHECK(cuMemAdvise_v2(managed, 16384, 5, here));
    CHECK(cuMemAdvise_v2(managed, 16384, 5, other));
    CHECK(cuMemRangeGetAttributes(data, sizes, attributes, 2, managed, 4096));
    ASSERT(first == 1 && second[0] == -1 && second[1] == 0);
    CHECK(cuMemRangeGetAttribute(&first, 4, 1, managed, 8192));
    ASSERT(first == 0);
    CHECK(cuMemRangeGetAttribute(&first, 4, 2, managed + 5000, 1000));
    ASSERT(first == 0);
    CHECK(cuMemRangeGetAttribute(&first, 4, 5, managed, 16384));
    ASSERT(first == 1);
    CHECK(cuMemAdvise_v2(managed, 16384, 6, other));
    CHECK(cuMemAdvise_v2(managed, 16384, 4, here));
    CHECK(cuMemRangeGetAttributes(data, sizes, attributes, 2, managed, 4096));
    ASSERT(second[0] == 0 && second[1] == -2);
    /* Prefetched, last to the host. */
    CHECK(cuMemPrefetchAsync_v2(managed, 16384, here, 0, NULL));
    CHECK(cuMemPrefetchAsync_v2(managed + 8192, 8192, other, 0, NULL));
    CHECK(cuMemRangeGetAttribute(&first, 4, 4, managed, 8192));
    ASSERT(first == 0);
    CHECK(cuMemRangeGetAttribute(&first, 4, 4, managed + 8192, 8192));
    ASSERT(first == -1);
    CHECK(cuMemRangeGetAttribute(&first, 4, 4, managed, 16384));
    ASSERT(first == -2);
    /* No managed memory, too much of it, no such advice, no such device. */
    ANSWERS(INVALID_VALUE, cuMemAdvise_v2(16, 4096, 1, here));
    ANSWERS(INVALID_VALUE, cuMemAdvise_v2(bytes, N, 1, here));
    ANSWERS(INVALID_VALUE, cuMemAdvise_v2(managed, 16385, 1, here));
    ANSWERS(INVALID_VALUE, cuMemAdvise_v2(managed, 0, 1, here));
    ANSWERS(INVALID_VALUE, cuMemAdvise_v2(managed, 4096, 9, here));
    ANSWERS(101, cuMemAdvise_v2(managed, 4096, 3, (Location){1, 77}));
    ANSWERS(INVALID_VALUE, cuMemPrefetchAsync_v2(bytes, N, here, 0, NULL));
    ANSWERS(101, cuMemPrefetchAsync_v2(managed, 4096, (Location){1, 77}, 0, NULL));
    ANSWERS(INVALID_VALUE, cuMemRangeGetAttribute(&first, 4, 2, bytes, N));
    ANSWERS(INVALID_VALUE, cuMemRangeGetAttribute(&first, 4, 9, managed, 4096));
    CHECK(cuMemGetDefaultMemPool(&pool, &here, 1));
    CHECK(cuMemGetMemPool(&again, &here, 1));
    ASSERT(pool && pool == again);
    CHECK(cuMemSetMemPool(&here, 1, pool));
    ANSWERS(801, cuMemGetDefaultMemPool(&pool, &other, 1));
    CHECK(cuDeviceGraphMemTrim(0));
    CHECK(cuDeviceGetGraphMemAttribute(0, 0, &held));
    ASSERT(held == 0);
    CHECK(cuCtxResetPersistingL2Cache());
}

static void attributes(void) {
    CUstream stream;
    CUcontext found = NULL;
    CUmodule module;
    CUfunction kernel;
    void *green = &green;
    uint64_t value[8] = {9};
    size_t count = 0, shared = 0;
    int grid = 0, block = 0, registers = 0, binary = 0;
    begin();
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuStreamGetCtx_v2(stream, &found, &green));
    ASSERT(found == context && !green);
    green = &green;
    CHECK(cuStreamGetGreenCtx(stream, &green));
    ASSERT(!green);
    CHECK(cuStreamGetAttribute(stream, 8, value));
    ASSERT(value[0] == 0);
    CHECK(cuStreamSetAttribute(stream, 3, value));
    CHECK(cuStreamCopyAttributes(stream, NULL));
    ANSWERS(INVALID_VALUE, cuStreamSetAttribute(stream, 77, value));
    CHECK(cuModuleLoadData(&module,
                           ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry k(.param .u64 a, .param .u32 b) {\n"
                           "  .reg .b32 %r<200>;\n  .shared .b8 s[1024];\n  ret;\n}\n"));
    CHECK(cuModuleGetFunction(&kernel, module, "k"));
    CHECK(cuKernelGetParamCount(kernel, &count));
    ASSERT(count == 2);
    CHECK(cuFuncGetParamCount(kernel, &count));
    ASSERT(count == 2);
    CHECK(cuFuncGetAttribute(&registers, 4, kernel));
    CHECK(cuFuncGetAttribute(&binary, 6, kernel));
    ASSERT(registers == 64 && binary == 80);
    CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, kernel, NULL, 0, 0));
    ASSERT(block == 1024 && grid > 0);
    CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, kernel, 1, 32));
    ASSERT(shared > 32 << 10);
}

static int called;
static void call(void *data) { called += *(int *)data; }

static void nodes(void) {
    CUgraph graph, child, other;
    CUexec exec;
    CUnode set, function, record, wait, inner, unused, from[4], to[4];
    CUevent event, second, found;
    SetNode fill = {bytes, 0, 5, 1, 4, 1}, got;
    int by = 3;
    HostNode host_node = {call, &by}, told;
    char data[4][8], line[256];
    size_t count = 4;
    begin();
    fill.address = bytes;
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventCreate(&second, 0));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphCreate(&child, 0));
    CHECK(cuGraphCreate(&other, 0));
    CHECK(cuGraphAddMemsetNode(&unused, child, NULL, 0, &fill, context));
    CHECK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, context));
    CHECK(cuGraphMemsetNodeGetParams(set, &got));
    ASSERT(got.address == bytes && got.value == 5 && got.count == 4 && got.rows == 1);
    CHECK(cuGraphAddHostNode(&function, graph, &set, 1, &host_node));
    CHECK(cuGraphHostNodeGetParams(function, &told));
    ASSERT(told.function == call && told.data == &by);
    CHECK(cuGraphAddEventRecordNode(&record, graph, &set, 1, event));
    CHECK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    CHECK(cuGraphEventRecordNodeSetEvent(record, second));
    CHECK(cuGraphEventRecordNodeGetEvent(record, &found));
    ASSERT(found == second);
    CHECK(cuGraphEventWaitNodeSetEvent(wait, second));
    CHECK(cuGraphEventWaitNodeGetEvent(wait, &found));
    ASSERT(found == second);
    CHECK(cuGraphGetEdges_v2(graph, from, to, data, &count));
    ASSERT(count == 3 && data[0][0] == 0);
    count = 4;
    CHECK(cuGraphNodeGetDependencies_v2(wait, from, data, &count));
    ASSERT(count == 1 && from[0] == record);
    count = 4;
    CHECK(cuGraphNodeGetDependentNodes_v2(set, to, NULL, &count));
    ASSERT(count == 2 && to[0] == function && to[1] == record);
    CHECK(cuGraphAddChildGraphNode(&inner, graph, &wait, 1, child));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    fill.value = 8;
    CHECK(cuGraphAddMemsetNode(&unused, other, NULL, 0, &fill, context));
    CHECK(cuGraphExecChildGraphNodeSetParams(exec, inner, other));
    CHECK(cuGraphExecEventRecordNodeSetEvent(exec, record, event));
    CHECK(cuGraphExecEventWaitNodeSetEvent(exec, wait, event));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuEventSynchronize(event));
    fetch();
    ASSERT(host[0] == 8 && host[3] == 8 && host[4] == 0 && called == 3);
    snprintf(line, sizeof line, "%s/graph.dot", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    CHECK(cuGraphDebugDotPrint(graph, line, 0));
    FILE *file = fopen(line, "r");
    ASSERT(file && fgets(line, sizeof line, file) && !strncmp(line, "digraph", 7));
    fclose(file);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"rows", rows}, {"advice", advice}, {"attributes", attributes}, {"nodes", nodes}};
    for (size_t at = 0; argc == 2 && at < sizeof parts / sizeof *parts; at++) {
        if (strcmp(argv[1], parts[at].name)) continue;
        parts[at].run();
        printf("%s: well\n", argv[1]);
        return 0;
    }
    return 2;
}
