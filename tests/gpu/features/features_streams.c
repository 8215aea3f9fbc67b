// Streams, graphs and host memory, for `features`.
#include "features.h"

// Kernels of one thread. `slow_store` waits for some milliseconds; `meet` sets a flag and waits for another;
// `rounds` is run by all blocks of a cooperative grid.
static const char *KERNELS =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry slow_store(.param .u64 out, .param .u32 value, .param .u32 ms) {\n"
    "  .reg .u64 %o, %a, %b, %w; .reg .u32 %v, %m; .reg .pred %p;\n"
    "  ld.param.u64 %o, [out]; ld.param.u32 %v, [value]; ld.param.u32 %m, [ms];\n"
    "  mul.wide.u32 %w, %m, 1000000; mov.u64 %a, %globaltimer;\n"
    "again: mov.u64 %b, %globaltimer; sub.u64 %b, %b, %a; setp.lt.u64 %p, %b, %w; @%p bra again;\n"
    "  st.global.u32 [%o], %v; ret; }\n"
    ".visible .entry scale(.param .u64 out, .param .u32 by, .param .u32 plus) {\n"
    "  .reg .u64 %o; .reg .u32 %v, %b, %p;\n"
    "  ld.param.u64 %o, [out]; ld.param.u32 %b, [by]; ld.param.u32 %p, [plus];\n"
    "  ld.global.u32 %v, [%o]; mad.lo.u32 %v, %v, %b, %p; st.global.u32 [%o], %v; ret; }\n"
    ".visible .entry sum(.param .u64 out, .param .u64 from) {\n"
    "  .reg .u64 %o, %f; .reg .u32 %v, %w;\n"
    "  ld.param.u64 %o, [out]; ld.param.u64 %f, [from];\n"
    "  ld.global.u32 %v, [%o]; ld.global.u32 %w, [%f]; add.u32 %v, %v, %w; st.global.u32 [%o], %v; ret; }\n"
    ".visible .entry meet(.param .u64 mine, .param .u64 theirs, .param .u64 outcome, .param .u32 ms) {\n"
    "  .reg .u64 %m, %t, %o, %a, %b, %w; .reg .u32 %v, %s; .reg .pred %p;\n"
    "  ld.param.u64 %m, [mine]; ld.param.u64 %t, [theirs]; ld.param.u64 %o, [outcome]; ld.param.u32 %s, [ms];\n"
    "  mul.wide.u32 %w, %s, 1000000; mov.u64 %a, %globaltimer;\n"
    "  st.volatile.global.u32 [%m], 1; membar.gl;\n"
    "again: ld.volatile.global.u32 %v, [%t]; setp.ne.u32 %p, %v, 0; @%p bra met;\n"
    "  mov.u64 %b, %globaltimer; sub.u64 %b, %b, %a; setp.lt.u64 %p, %b, %w; @%p bra again;\n"
    "  st.global.u32 [%o], 2; ret;\n"
    "met: st.global.u32 [%o], 1; ret; }\n"
    // Block b moves values[b] to the next block's place, plus one; `count` is the barrier.
    ".visible .entry rounds(.param .u64 values, .param .u64 count, .param .u32 times) {\n"
    "  .reg .u64 %v, %c, %f, %t; .reg .u32 %b, %n, %r, %e, %x, %y, %z, %q; .reg .pred %p;\n"
    "  ld.param.u64 %v, [values]; ld.param.u64 %c, [count]; ld.param.u32 %e, [times];\n"
    "  mov.u32 %b, %ctaid.x; mov.u32 %n, %nctaid.x; mov.u32 %r, 0;\n"
    "next: setp.ge.u32 %p, %r, %e; @%p bra end;\n"
    // The round's number chooses which half is read and which is written.
    "  and.b32 %x, %r, 1; mad.lo.u32 %y, %x, %n, %b; mul.wide.u32 %f, %y, 4; add.u64 %f, %f, %v;\n"
    "  ld.volatile.global.u32 %q, [%f]; add.u32 %q, %q, 1;\n"
    "  add.u32 %y, %b, 1; rem.u32 %y, %y, %n; xor.b32 %x, %x, 1; mad.lo.u32 %y, %x, %n, %y;\n"
    "  mul.wide.u32 %t, %y, 4; add.u64 %t, %t, %v; st.volatile.global.u32 [%t], %q; membar.gl;\n"
    "  atom.global.add.u32 %z, [%c], 1; add.u32 %r, %r, 1; mul.lo.u32 %z, %r, %n;\n"
    "hold: ld.volatile.global.u32 %q, [%c]; setp.lt.u32 %p, %q, %z; @%p bra hold;\n"
    "  membar.gl; bra next;\n"
    "end: ret; }\n";

// Opens the driver and finds a kernel.
static CUhandle kernel(const char *name) {
    if (!driver_library) driver_open();
    return kernel_of(KERNELS, name);
}

static void store_slowly(CUhandle function, CUhandle stream, CUdeviceptr to, uint32_t value, uint32_t ms) {
    void *arguments[] = {&to, &value, &ms};
    start(function, 1, 1, stream, arguments);
}

static void *pinned(size_t bytes, unsigned flags) {
    void *host;
    ASK(cuMemHostAlloc, &host, bytes, flags);
    memset(host, 0, bytes);
    return host;
}

void cooperative(void) {
    enum { BLOCKS = 8, TIMES = 20 };
    CUhandle function = kernel("rounds");
    uint32_t values[2 * BLOCKS] = {0}, times = TIMES;
    for (int i = 0; i < BLOCKS; i++) values[i] = 100 * i;
    CUdeviceptr device = to_device(values, sizeof values), count = device_bytes(4);
    void *arguments[] = {&device, &count, &times};
    ASK(cuLaunchCooperativeKernel, function, (unsigned)BLOCKS, 1u, 1u, 1u, 1u, 1u, 0u, (CUhandle)NULL, arguments);
    to_host(values, device, sizeof values);
    for (int i = 0; i < BLOCKS; i++) {
        uint32_t right = 100 * ((i + BLOCKS * TIMES - TIMES) % BLOCKS) + TIMES;
        if (values[i] != right) fail("value %d is %u, not %u", i, values[i], right);
    }
    well(NULL);
}

// Without a live flag: what the kernel left is there after it, and what the host wrote before it.
void mapped(void) {
    CUhandle function = kernel("scale");
    uint32_t *host = pinned(4096, 2), by = 3, plus = 4;
    CUdeviceptr device;
    ASK(cuMemHostGetDevicePointer_v2, &device, host, 0u);
    void *arguments[] = {&device, &by, &plus};
    for (uint32_t round = 1; round <= 3; round++) {
        *host = round * 1000;
        start(function, 1, 1, NULL, arguments);
        finish();
        if (*host != round * 3000 + 4) fail("round %u: the host has %u, not %u", round, *host, round * 3000 + 4);
    }
    well("without a flag in a running kernel");
}

struct hand {
    uint32_t *host;
    int calls;
};

static void turn(void *with) {
    struct hand *hand = with;
    uint32_t seen = *hand->host;
    usleep(100000);
    *hand->host = seen * 10 + 2;
    hand->calls++;
}

void host_function(void) {
    CUhandle slow = kernel("slow_store"), scale = kernel("scale"), stream = new_stream();
    CUdeviceptr device = device_bytes(4);
    struct hand hand = {pinned(4, 0), 0};
    uint32_t by = 1, plus = 300, last;
    void *arguments[] = {&device, &by, &plus};
    double begun = now();
    store_slowly(slow, stream, device, 1, 100);
    ASK(cuMemcpyDtoHAsync_v2, hand.host, device, (size_t)4, stream);
    ASK(cuLaunchHostFunc, stream, turn, &hand);
    ASK(cuMemcpyHtoDAsync_v2, device, hand.host, (size_t)4, stream);
    start(scale, 1, 1, stream, arguments);
    double called = now() - begun;
    ASK(cuStreamSynchronize, stream);
    double all = now() - begun;
    to_host(&last, device, sizeof last);
    if (hand.calls != 1) fail("%d calls, not 1", hand.calls);
    if (last != 312) fail("the device has %u at the end, not 312", last);
    if (called > all / 4) fail("the caller was held for %.0f of %.0f ms", called * 1e3, all * 1e3);
    well(NULL);
}

void overlap(void) {
    CUhandle function = kernel("meet"), streams[2] = {new_stream(), new_stream()};
    uint32_t seen[2], ms = 2000;
    CUdeviceptr words = device_bytes(16);
    for (int i = 0; i < 2; i++) {
        CUdeviceptr mine = words + 4 * i, theirs = words + 4 - 4 * i, outcome = words + 8 + 4 * i;
        void *arguments[] = {&mine, &theirs, &outcome, &ms};
        start(function, 1, 1, streams[i], arguments);
    }
    to_host(seen, words + 8, sizeof seen);
    for (int i = 0; i < 2; i++)
        if (seen[i] != 1) fail("kernel %d did not meet the other one within %u ms", i, ms);
    well(NULL);
}

void async_copy(void) {
    CUhandle slow = kernel("slow_store"), stream = new_stream();
    CUdeviceptr device = device_bytes(4);
    uint32_t *host = pinned(4, 0);
    double called = 0;
    for (uint32_t round = 1; round <= 2; round++) {
        store_slowly(slow, stream, device, round, 200);
        double begun = now();
        ASK(cuMemcpyDtoHAsync_v2, host, device, (size_t)4, stream);
        called = now() - begun;
        ASK(cuStreamSynchronize, stream);
        if (*host != round) fail("the host has %u, not %u", *host, round);
    }
    if (called > 0.05) fail("the call took %.1f ms, the kernel 200", called * 1e3);
    well(NULL);
}

void event_step(void) {
    CUhandle slow = kernel("slow_store"), stream = new_stream(), events[3];
    CUdeviceptr device = device_bytes(8);
    for (int i = 0; i < 3; i++) ASK(cuEventCreate, &events[i], 0u);
    store_slowly(slow, stream, device, 1, 1);
    finish();
    double begun = now();
    ASK(cuEventRecord, events[0], stream);
    store_slowly(slow, stream, device, 11, 20);
    ASK(cuEventRecord, events[1], stream);
    store_slowly(slow, stream, device + 4, 22, 300);
    ASK(cuEventRecord, events[2], stream);
    ASK(cuEventSynchronize, events[1]);
    double early = now() - begun;
    int later = TRY(cuEventQuery, events[2]);
    ASK(cuEventSynchronize, events[2]);
    uint32_t seen[2];
    to_host(seen, device, sizeof seen);
    if (seen[0] != 11 || seen[1] != 22) fail("the device has %u and %u, not 11 and 22", seen[0], seen[1]);
    if (later != 600) fail("the wait for the early event took %.0f ms, as long as all", early * 1e3);
    float first, second;
    ASK(cuEventElapsedTime, &first, events[0], events[1]);
    ASK(cuEventElapsedTime, &second, events[1], events[2]);
    if (first < 18 || second < 270) fail("the events are %.1f and %.1f ms apart, for 20 and 300", first, second);
    well(NULL);
}

void capture_alloc(void) {
    CUhandle slow = kernel("slow_store"), sum = kernel("sum"), stream = new_stream(), graph, ready;
    CUdeviceptr out = device_bytes(4), between = 0;
    ASK(cuStreamBeginCapture_v2, stream, 1);
    ASK(cuMemAllocAsync, &between, (size_t)4096, stream);
    store_slowly(slow, stream, between, 5, 0);
    void *arguments[] = {&out, &between};
    start(sum, 1, 1, stream, arguments);
    ASK(cuMemFreeAsync, between, stream);
    ASK(cuStreamEndCapture, stream, &graph);
    ASK(cuGraphInstantiateWithFlags, &ready, graph, 0ull);
    for (uint32_t round = 1, seen; round <= 3; round++) {
        ASK(cuGraphLaunch, ready, stream);
        to_host(&seen, out, sizeof seen);
        if (seen != 5 * round) fail("round %u: the sum is %u, not %u", round, seen, 5 * round);
    }
    well(NULL);
}

// The parameters of a kernel node, second version.
struct node_params {
    CUhandle function;
    unsigned grid[3], block[3], shared;
    void **arguments, **extra;
    CUhandle kernel, context;
};

static CUhandle graph_of(struct node_params *params, CUhandle *node) {
    CUhandle graph;
    ASK(cuGraphCreate, &graph, 0u);
    ASK(cuGraphAddKernelNode_v2, node, graph, NULL, (size_t)0, params);
    return graph;
}

static void expect_value(CUhandle ready, CUhandle stream, CUdeviceptr from, uint32_t right, const char *what) {
    uint32_t seen;
    ASK(cuGraphLaunch, ready, stream);
    to_host(&seen, from, sizeof seen);
    if (seen != right) fail("%s: the value is %u, not %u", what, seen, right);
}

void graph_update(void) {
    CUhandle function = kernel("scale"), stream = new_stream(), node, other, ready;
    uint32_t by = 3, plus = 1, value = 1;
    CUdeviceptr device = to_device(&value, sizeof value);
    void *arguments[] = {&device, &by, &plus};
    struct node_params params = {function, {1, 1, 1}, {1, 1, 1}, 0, arguments, NULL, NULL, NULL};
    CUhandle graph = graph_of(&params, &node);
    ASK(cuGraphInstantiateWithFlags, &ready, graph, 0ull);
    expect_value(ready, stream, device, 4, "as made");
    by = 10, plus = 2;
    ASK(cuGraphExecKernelNodeSetParams_v2, ready, node, &params);
    expect_value(ready, stream, device, 42, "with a node's new parameters");
    by = 2, plus = 0;
    struct {
        int result;
        CUhandle node, from;
    } info = {0, NULL, NULL};
    ASK(cuGraphExecUpdate_v2, ready, graph_of(&params, &other), &info);
    expect_value(ready, stream, device, 84, "updated from another graph");
    well(NULL);
}
