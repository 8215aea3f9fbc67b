/* Walks through the driver API, one part of it for each argument. */
#include "driver.h"
#include "add.h"

#include <sys/wait.h>
#include <unistd.h>

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    STREAM_CAPTURE_UNSUPPORTED = 900,
    STREAM_CAPTURE_INVALIDATED = 901,
    GRAPH_EXEC_UPDATE_FAILURE = 910,
    N = 1000,
};


/* The same in two images. */
static const char *CALLER = ".version 7.0\n.target sm_70\n.address_size 64\n"
                            ".extern .func (.param .b32 r) twice(.param .b32 x);\n"
                            ".visible .entry store(.param .u64 to, .param .u32 x) {\n"
                            "  .reg .b32 %r<3>;\n  .reg .b64 %a;\n"
                            "  ld.param.u64 %a, [to];\n  cvta.to.global.u64 %a, %a;\n"
                            "  ld.param.u32 %r1, [x];\n"
                            "  { .param .b32 i; .param .b32 o; st.param.b32 [i], %r1;\n"
                            "    call (o), twice, (i); ld.param.b32 %r2, [o]; }\n"
                            "  st.global.u32 [%a], %r2;\n  ret;\n}\n";
static const char *CALLED = ".version 7.0\n.target sm_70\n.address_size 64\n"
                            ".visible .func (.param .b32 r) twice(.param .b32 x) {\n"
                            "  .reg .b32 %r;\n  ld.param.b32 %r, [x];\n  add.u32 %r, %r, %r;\n"
                            "  st.param.b32 [r], %r;\n  ret;\n}\n";

static CUcontext context;
static CUmodule module;
static CUfunction add;
static CUdeviceptr words;
static unsigned host[N];

static void begin(void) {
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoadData(&module, ADD));
    CHECK(cuModuleGetFunction(&add, module, "add"));
    CHECK(cuMemAlloc_v2(&words, sizeof host));
    CHECK(cuMemsetD8_v2(words, 0, sizeof host));
}

static int launch(CUdeviceptr to, unsigned by, unsigned count, CUstream stream) {
    void *parameters[] = {&to, &by, &count};
    return cuLaunchKernel(add, (count + 255) / 256, 1, 1, 256, 1, 1, 0, stream, parameters, NULL);
}

/* All words are this one. */
static void all(unsigned wanted) {
    memset(host, 0xcc, sizeof host);
    CHECK(cuMemcpyDtoH_v2(host, words, sizeof host));
    for (int at = 0; at < N; at++) ASSERT(host[at] == wanted);
}

static void contexts(void) {
    CUcontext primary, other, found;
    int device = -1, count;
    ANSWERS(NOT_INITIALIZED, cuDeviceGetCount(&count));
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    ASSERT(count == 1);
    ANSWERS(INVALID_CONTEXT, cuCtxGetDevice(&device));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxPushCurrent_v2(primary));
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuCtxGetCurrent(&found));
    ASSERT(found == other && other != primary);
    CHECK(cuCtxDestroy_v2(other));
    CHECK(cuCtxGetCurrent(&found));
    ASSERT(found == primary);
    CHECK(cuCtxGetDevice(&device));
    ASSERT(device == 0);
    CHECK(cuCtxPopCurrent_v2(&found));
    ASSERT(found == primary);
    ANSWERS(INVALID_CONTEXT, cuCtxPopCurrent_v2(&found));
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cuCtxSetCurrent(NULL));
    ANSWERS(INVALID_CONTEXT, cuCtxSynchronize());
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
}

static void launches(void) {
    size_t offset, size;
    int threads;
    CUfunction other;
    CUdeviceptr variable;
    begin();
    CHECK(cuModuleGetGlobal_v2(&variable, &size, module, "more"));
    ASSERT(size == 8);
    CHECK(cuMemcpyDtoH_v2(host, variable, 8));
    ASSERT(host[0] == 5 && host[1] == 6);
    CHECK(launch(variable, 10, 2, NULL));
    CHECK(cuMemcpyDtoH_v2(host, variable, 8));
    ASSERT(host[0] == 15 && host[1] == 16);
    ANSWERS(NOT_FOUND, cuModuleGetGlobal_v2(&variable, &size, module, "less"));
    CHECK(cuFuncGetAttribute(&threads, 0, add));
    ASSERT(threads == 1024);
    CHECK(cuFuncGetParamInfo(add, 1, &offset, &size));
    ASSERT(offset == 8 && size == 4);
    ANSWERS(INVALID_VALUE, cuFuncGetParamInfo(add, 3, &offset, &size));
    ANSWERS(NOT_FOUND, cuModuleGetFunction(&other, module, "subtract"));
    CHECK(launch(words, 3, N, NULL));
    struct {
        CUdeviceptr to;
        unsigned by, count;
    } packed = {words, 4, N};
    size = sizeof packed;
    void *extra[] = {(void *)1, &packed, (void *)2, &size, NULL};
    CHECK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    all(7);
    ANSWERS(INVALID_VALUE, cuLaunchKernel(add, 0, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    ANSWERS(INVALID_VALUE, cuLaunchKernel(add, 1, 1, 1, 2048, 1, 1, 0, NULL, NULL, extra));
    CHECK(cuModuleUnload(module));
    ANSWERS(INVALID_HANDLE, launch(words, 1, N, NULL));
    all(7);
}

static void called(void *data) { ++*(int *)data; }

static void streams(void) {
    CUstream one, two;
    CUevent start, event, untimed;
    float took = -1;
    int calls = 0;
    begin();
    CHECK(cuStreamCreate(&one, 0));
    CHECK(cuStreamCreate(&two, 1));
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventCreate(&start, 0));
    CHECK(cuEventCreate(&untimed, 2));
    ANSWERS(INVALID_HANDLE, cuEventElapsedTime(&took, start, event));
    CHECK(cuEventRecord(start, one));
    CHECK(cuEventRecord(untimed, one));
    for (int at = 0; at < N; at++) host[at] = 10;
    CHECK(cuMemcpyHtoDAsync_v2(words, host, sizeof host, one));
    memset(host, 0, sizeof host);
    CHECK(launch(words, 1, N, one));
    CHECK(cuEventRecord(event, one));
    CHECK(cuStreamWaitEvent(two, event, 0));
    CHECK(launch(words, 1, N, two));
    CHECK(cuLaunchHostFunc(two, called, &calls));
    CHECK(cuStreamSynchronize(two));
    ASSERT(calls == 1);
    CHECK(cuEventSynchronize(event));
    CHECK(cuEventQuery(event));
    CHECK(cuEventElapsedTime(&took, start, event));
    ASSERT(took > 0);
    ANSWERS(INVALID_HANDLE, cuEventElapsedTime(&took, untimed, event));
    all(12);
    CHECK(cuMemsetD32Async(words, 5, N, one));
    CHECK(cuMemcpyDtoDAsync_v2(words + 4, words, 4, one));
    all(5);
    CHECK(cuEventDestroy_v2(event));
    CHECK(cuStreamDestroy_v2(one));
    ANSWERS(INVALID_HANDLE, cuStreamSynchronize(one));
    ANSWERS(INVALID_HANDLE, launch(words, 1, N, one));
}

static void memory(void) {
    size_t before, after, total, size;
    CUdeviceptr start, mapped, managed, big;
    unsigned *pinned, kind, box[2][3][4] = {0};
    begin();
    CHECK(cuMemGetInfo_v2(&before, &total));
    ASSERT(before <= total);
    ANSWERS(OUT_OF_MEMORY, cuMemAlloc_v2(&big, total + 1));
    ANSWERS(INVALID_VALUE, cuMemAlloc_v2(&big, 0));
    CHECK(cuMemAlloc_v2(&big, 1 << 20));
    CHECK(cuMemGetInfo_v2(&after, &total));
    ASSERT(after + (1 << 20) <= before);
    CHECK(cuMemFree_v2(big));
    CHECK(cuMemGetInfo_v2(&after, &total));
    ASSERT(after == before);
    ANSWERS(INVALID_VALUE, cuMemFree_v2(big));
    ANSWERS(INVALID_VALUE, cuMemFree_v2(words + 8));
    CHECK(cuMemGetAddressRange_v2(&start, &size, words + 8));
    ASSERT(start == words && size >= sizeof host);
    CHECK(cuPointerGetAttribute(&kind, 2, words));
    ASSERT(kind == 2);

    CHECK(cuMemHostAlloc((void **)&pinned, sizeof host, 2));
    CHECK(cuMemHostGetDevicePointer_v2(&mapped, pinned, 0));
    for (unsigned round = 1; round < 4; round++) {
        for (int at = 0; at < N; at++) pinned[at] = at * round;
        CHECK(launch(mapped, round, N, NULL));
        CHECK(cuCtxSynchronize());
        for (int at = 0; at < N; at++) ASSERT(pinned[at] == at * round + round);
    }
    /* Addresses are unified: the program's own pointer will do, and one into the middle as well. */
    CHECK(launch((CUdeviceptr)(uintptr_t)(pinned + 1), 1, N - 1, NULL));
    CHECK(cuCtxSynchronize());
    ASSERT(pinned[0] == 3 && pinned[1] == 3 + 3 + 1 && pinned[N - 1] == (N - 1) * 3 + 3 + 1);
    CHECK(cuMemFreeHost(pinned));
    ANSWERS(INVALID_VALUE, cuMemFreeHost(pinned));
    CHECK(cuMemHostRegister_v2(host, sizeof host, 2));
    for (int at = 0; at < N; at++) host[at] = at;
    CHECK(launch((CUdeviceptr)(uintptr_t)host, 5, N, NULL));
    CHECK(cuCtxSynchronize());
    ASSERT(host[0] == 5 && host[N - 1] == N - 1 + 5);
    CHECK(cuMemHostUnregister(host));

    CHECK(cuMemAllocManaged(&managed, sizeof host, 1));
    unsigned *both = (unsigned *)(uintptr_t)managed;
    memset(both, 0, sizeof host);
    both[N - 1] = 41;
    CHECK(launch(managed, 1, N, NULL));
    CHECK(cuCtxSynchronize());
    ASSERT(both[0] == 1 && both[N - 1] == 42);
    CHECK(cuMemFree_v2(managed));

    /* A box of 2 x 2 x 2 words out of one of 2 x 3 x 4. */
    for (int at = 0; at < N; at++) host[at] = at;
    CHECK(cuMemcpyHtoD_v2(words, host, sizeof host));
    Copy3D copy = {.width = 8, .height = 2, .depth = 2};
    copy.from = (Side){.x = 4, .y = 1, .kind = 2, .device = words, .pitch = 16, .height = 3};
    copy.to = (Side){.kind = 1, .host = box, .pitch = 16, .height = 3};
    CHECK(cuMemcpy3D_v2(&copy));
    ASSERT(box[0][0][0] == 5 && box[0][0][1] == 6 && box[0][0][2] == 0);
    ASSERT(box[0][1][0] == 9 && box[1][0][0] == 17 && box[1][1][1] == 22);
    copy.from.pitch = 4;
    ANSWERS(INVALID_VALUE, cuMemcpy3D_v2(&copy));
}

/* A graph that sets the words and adds to them. */
static CUgraph graph_of(unsigned value, unsigned by, CUnode *kernel) {
    CUgraph graph;
    CUnode set, last;
    unsigned count = N;
    void *parameters[] = {&words, &by, &count};
    SetNode sets = {words, 0, value, 4, N, 1};
    KernelNode adds = {add, {4, 1, 1}, {256, 1, 1}, 0, parameters, NULL};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &sets, context));
    CHECK(cuGraphAddKernelNode(kernel, graph, &set, 1, &adds));
    CHECK(cuGraphAddEmptyNode(&last, graph, kernel, 1));
    return graph;
}

static void graphs(void) {
    CUgraph graph, clone, other;
    CUexec exec, again;
    CUnode kernel, ignored, node, nodes[4];
    size_t count = 4;
    int kind, how;
    unsigned by = 9, n = N;
    begin();
    graph = graph_of(100, 1, &kernel);
    CHECK(cuGraphGetNodes(graph, nodes, &count));
    ASSERT(count == 3 && nodes[1] == kernel);
    CHECK(cuGraphNodeGetType(nodes[0], &kind));
    ASSERT(kind == 2);
    CHECK(cuGraphInstantiate_v2(&exec, graph, &node, NULL, 0));
    CHECK(cuGraphClone(&clone, graph));
    CHECK(cuGraphInstantiateWithFlags(&again, clone, 0));
    all(0);
    CHECK(cuGraphLaunch(exec, NULL));
    all(101);
    void *parameters[] = {&words, &by, &n};
    KernelNode adds = {add, {4, 1, 1}, {256, 1, 1}, 0, parameters, NULL};
    CHECK(cuGraphExecKernelNodeSetParams(exec, kernel, &adds));
    CHECK(cuGraphLaunch(exec, NULL));
    all(109);
    CHECK(cuGraphLaunch(again, NULL));
    all(101);
    other = graph_of(200, 2, &ignored);
    CHECK(cuGraphExecUpdate(exec, other, &node, &how));
    CHECK(cuGraphLaunch(exec, NULL));
    all(202);
    CHECK(cuGraphAddEmptyNode(&node, other, NULL, 0));
    ANSWERS(GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, other, &node, &how));
    ASSERT(how == 2);
    CHECK(cuGraphDestroy(graph));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuGraphExecDestroy(exec));
    ANSWERS(INVALID_HANDLE, cuGraphLaunch(exec, NULL));
    all(202);
}

static void capture(void) {
    CUstream one, two;
    CUevent fork, join;
    CUgraph graph;
    CUexec exec;
    unsigned back[N] = {0};
    size_t count = 0;
    int capturing;
    begin();
    CHECK(cuStreamCreate(&one, 0));
    CHECK(cuStreamCreate(&two, 0));
    CHECK(cuEventCreate(&fork, 0));
    CHECK(cuEventCreate(&join, 0));
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture_v2(NULL, 0));
    CHECK(cuStreamBeginCapture_v2(one, 0));
    CHECK(cuMemsetD32Async(words, 1, N, one));
    CHECK(cuEventRecord(fork, one));
    CHECK(cuStreamWaitEvent(two, fork, 0));
    CHECK(launch(words, 2, N, two));
    CHECK(cuEventRecord(join, two));
    CHECK(cuStreamWaitEvent(one, join, 0));
    CHECK(launch(words, 4, N, one));
    CHECK(cuMemcpyDtoHAsync_v2(back, words, sizeof back, one));
    CHECK(cuStreamIsCapturing(two, &capturing));
    ASSERT(capturing == 1);
    CHECK(cuStreamEndCapture(one, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &count));
    ASSERT(count == 4);
    all(0);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, two));
    CHECK(cuStreamSynchronize(two));
    ASSERT(back[0] == 7 && back[N - 1] == 7);
    all(7);
    /* What cannot be captured ends the capture. */
    CHECK(cuStreamBeginCapture_v2(one, 0));
    ANSWERS(STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(one));
    ANSWERS(STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(one, &graph));
    CHECK(cuStreamSynchronize(one));
}

static void linking(void) {
    CUlink link;
    CUmodule linked;
    CUfunction store;
    void *image;
    size_t size;
    unsigned x = 21, got = 0;
    begin();
    CHECK(cuLinkCreate_v2(0, NULL, NULL, &link));
    CHECK(cuLinkAddData_v2(link, 1, (void *)CALLER, strlen(CALLER) + 1, "a", 0, NULL, NULL));
    CHECK(cuLinkAddData_v2(link, 1, (void *)CALLED, strlen(CALLED) + 1, "b", 0, NULL, NULL));
    CHECK(cuLinkComplete(link, &image, &size));
    CHECK(cuModuleLoadData(&linked, image));
    CHECK(cuLinkDestroy(link));
    CHECK(cuModuleGetFunction(&store, linked, "store"));
    void *parameters[] = {&words, &x};
    CHECK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    CHECK(cuMemcpyDtoH_v2(&got, words, 4));
    ASSERT(got == 42);
}

static void bad_image(void) {
    char log[256] = "untouched";
    int keys[] = {5, 6};
    void *values[] = {log, (void *)sizeof log};
    CUmodule bad;
    begin();
    const char *text = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry f() {\n"
                       "  .reg .b32 %r<2;\n}\n";
    ANSWERS(INVALID_PTX, cuModuleLoadDataEx(&bad, text, 2, keys, values));
    ASSERT(strstr(log, "line 5") && strlen(log) == (size_t)values[1]);
    /* It parses: what is wrong with it is what the worker's device says. */
    CUlibrary library;
    text = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry f() {\n"
           "  .reg .b32 %r<2>;\n  frobnicate.b32 %r1, 7;\n}\n";
    for (int times = 0; times < 2; times++) {
        strcpy(log, "untouched");
        values[1] = (void *)sizeof log;
        ANSWERS(INVALID_PTX, cuModuleLoadDataEx(&bad, text, 2, keys, values));
        ASSERT(strstr(log, "line 6") && strstr(log, "frobnicate"));
        ASSERT(strlen(log) == (size_t)values[1]);
        ANSWERS(INVALID_PTX, cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    }
    CHECK(launch(words, 1, N, NULL));
    all(1);
}

/* PTX for more than the device is loaded, and the log says so. */
static void higher_target(void) {
    char log[256] = "untouched";
    int keys[] = {3, 4};
    CUmodule module;
    begin();
    for (int higher = 0; higher < 2; higher++) {
        void *values[] = {log, (void *)sizeof log};
        const char *text = higher ? ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                    ".visible .entry f() { ret; }\n"
                                  : ".version 8.0\n.target sm_70\n.address_size 64\n"
                                    ".visible .entry f() { ret; }\n";
        CHECK(cuModuleLoadDataEx(&module, text, 2, keys, values));
        ASSERT(strlen(log) == (size_t)values[1]);
        ASSERT(higher ? strstr(log, "sm_90a") && strstr(log, "8.0") : log[0] == 0);
        CHECK(cuModuleUnload(module));
    }
}

static void sticky(void) {
    const char *name;
    begin();
    CHECK(launch(words, 1, N, NULL));
    CHECK(launch(words + sizeof host + (1 << 20), 1, N, NULL));
    ANSWERS(ILLEGAL_ADDRESS, cuCtxSynchronize());
    ANSWERS(ILLEGAL_ADDRESS, cuCtxSynchronize());
    ANSWERS(ILLEGAL_ADDRESS, cuMemcpyDtoH_v2(host, words, 4));
    ANSWERS(ILLEGAL_ADDRESS, cuMemAlloc_v2(&words, 4));
    CHECK(cuGetErrorName(ILLEGAL_ADDRESS, &name));
    ASSERT(!strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS"));
}

static void forks(void) {
    int status, count;
    begin();
    CHECK(launch(words, 1, N, NULL));
    pid_t child = fork();
    if (child == 0) {
        ANSWERS(NOT_INITIALIZED, cuDeviceGetCount(&count));
        ANSWERS(NOT_INITIALIZED, cuCtxSynchronize());
        ANSWERS(NOT_INITIALIZED, cuInit(0));
        exit(7);
    }
    ASSERT(waitpid(child, &status, 0) == child);
    ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    all(1);
}

/* Ends with work in flight. */
static void leaves(void) {
    begin();
    for (int at = 0; at < 500; at++) CHECK(launch(words, 1, N, NULL));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"contexts", contexts}, {"launches", launches},   {"streams", streams},
        {"memory", memory},     {"graphs", graphs},       {"capture", capture},
        {"linking", linking},   {"bad_image", bad_image}, {"sticky", sticky},
        {"higher_target", higher_target},
        {"forks", forks},       {"leaves", leaves},
    };
    for (size_t at = 0; argc == 2 && at < sizeof parts / sizeof *parts; at++) {
        if (strcmp(argv[1], parts[at].name)) continue;
        parts[at].run();
        printf("%s: well\n", argv[1]);
        return 0;
    }
    return 2;
}
