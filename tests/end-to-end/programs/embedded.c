/* Graphs in nodes of other graphs: copied there, or moved. */
#include "driver.h"

enum { INVALID_VALUE = 1, INVALID_HANDLE = 400, CHILD = 4, CLONE = 0, MOVE = 1, BYTES = 192 };

typedef struct {
    int kind, reserved[3];
    CUgraph graph;
    int ownership;
    char more[28 * 8 + 4];
    long long last;
} NodeParams;

int cuGraphAddNode_v2(CUnode *, CUgraph, const CUnode *, const void *, size_t, NodeParams *);
int cuGraphNodeSetParams(CUnode, NodeParams *);
int cuGraphAddChildGraphNode(CUnode *, CUgraph, const CUnode *, size_t, CUgraph);
int cuGraphChildGraphNodeGetGraph(CUnode, CUgraph *);
int cuGraphMemcpyNodeSetParams(CUnode, const Copy3D *);
int cuGraphExecMemcpyNodeSetParams(CUexec, CUnode, const Copy3D *, CUcontext);
int cuGraphDestroyNode(CUnode);
int cuGraphNodeGetContainingGraph(CUnode, CUgraph *);

static CUcontext context;
static CUdeviceptr from, to, other;
static unsigned char bytes[4096];

static Copy3D copy(CUdeviceptr source, CUdeviceptr target) {
    Copy3D it = {0};
    it.from.kind = it.to.kind = 2;
    it.from.device = source;
    it.to.device = target;
    it.width = BYTES;
    it.height = it.depth = 1;
    return it;
}

/* A graph with one copy. */
static CUgraph copying(CUnode *node) {
    CUgraph graph;
    Copy3D params = copy(from, to);
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(node, graph, NULL, 0, &params, context));
    return graph;
}

static int add(CUnode *node, CUgraph parent, CUgraph child, int ownership) {
    NodeParams params = {CHILD, {0}, child, ownership, {0}, 0};
    return cuGraphAddNode_v2(node, parent, NULL, NULL, 0, &params);
}

/* Launches, and looks for what lies `offset` bytes behind the beginning of the source. */
static void arrives(CUexec exec, CUdeviceptr at, size_t offset) {
    unsigned char found[BYTES];
    CHECK(cuMemsetD8_v2(to, 0, BYTES));
    CHECK(cuMemsetD8_v2(other, 0, BYTES));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH_v2(found, at, BYTES));
    ASSERT(memcmp(found, bytes + offset, BYTES) == 0);
}

static void updates(int ownership) {
    CUgraph parent, child, embedded;
    CUnode node, inner, of_child;
    CUexec exec;
    Copy3D params = copy(from + 64, other);
    size_t count = 1;
    CHECK(cuGraphCreate(&parent, 0));
    child = copying(&of_child);
    CHECK(add(&node, parent, child, ownership));
    CHECK(cuGraphChildGraphNodeGetGraph(node, &embedded));
    CHECK(cuGraphGetNodes(embedded, &inner, &count));
    ASSERT((embedded == child) == (ownership == MOVE) && (inner == of_child) == (ownership == MOVE));
    CHECK(cuGraphInstantiateWithFlags(&exec, parent, 0));
    arrives(exec, to, 0);
    CHECK(cuGraphExecMemcpyNodeSetParams(exec, inner, &params, context));
    arrives(exec, other, 64);
    params = copy(from + 128, to);
    ANSWERS(ownership == MOVE ? 0 : INVALID_VALUE,
            cuGraphExecMemcpyNodeSetParams(exec, of_child, &params, context));
    if (ownership == MOVE)
        arrives(exec, to, 128);
    /* The node's graph is the node's. */
    ANSWERS(INVALID_VALUE, cuGraphDestroy(embedded));
    ANSWERS(ownership == MOVE ? INVALID_VALUE : 0, cuGraphDestroy(child));
    CHECK(cuGraphDestroy(parent));
    ANSWERS(INVALID_HANDLE, cuGraphNodeGetContainingGraph(inner, &embedded));
    ANSWERS(INVALID_HANDLE, cuGraphDestroy(child));
    arrives(exec, ownership == MOVE ? to : other, ownership == MOVE ? 128 : 64);
    CHECK(cuGraphExecDestroy(exec));
}

/* What a moved graph is not any more. */
static void restrictions(void) {
    CUgraph parent, child, third, copied, found;
    CUnode node, of_child, failed, others;
    CUexec exec, of_third;
    int result = 0;
    size_t count = 0;
    CHECK(cuGraphCreate(&parent, 0));
    child = copying(&of_child);
    third = copying(&others);
    ANSWERS(INVALID_VALUE, add(&node, parent, child, 7));
    ANSWERS(INVALID_VALUE, add(&node, parent, parent, MOVE));
    /* Behind a node that is not there: the graph is the program's still. */
    NodeParams params = {CHILD, {0}, child, MOVE, {0}, 0};
    ANSWERS(INVALID_VALUE, cuGraphAddNode_v2(&node, parent, &others, NULL, 1, &params));
    CHECK(cuGraphInstantiateWithFlags(&exec, child, 0));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(add(&node, parent, child, MOVE));
    CHECK(cuGraphNodeGetContainingGraph(of_child, &found));
    ASSERT(found == child);
    ANSWERS(INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, child, 0));
    ANSWERS(INVALID_VALUE, cuGraphDestroy(child));
    ANSWERS(INVALID_VALUE, add(&failed, third, child, MOVE));
    ANSWERS(INVALID_VALUE, add(&failed, third, child, CLONE));
    ANSWERS(INVALID_VALUE, cuGraphAddChildGraphNode(&failed, third, NULL, 0, child));
    ANSWERS(INVALID_VALUE, add(&failed, child, parent, MOVE));
    CHECK(cuGraphInstantiateWithFlags(&of_third, third, 0));
    ANSWERS(INVALID_VALUE, cuGraphExecUpdate(of_third, child, &failed, &result));
    params.graph = third;
    ANSWERS(INVALID_VALUE, cuGraphNodeSetParams(node, &params));
    /* Changes of the moved graph are the node's. */
    Copy3D changed = copy(from + 32, other);
    CHECK(cuGraphMemcpyNodeSetParams(of_child, &changed));
    CHECK(cuGraphInstantiateWithFlags(&exec, parent, 0));
    arrives(exec, other, 32);
    CHECK(cuGraphExecDestroy(exec));
    /* A copy of the parent has a copy of it. */
    CHECK(cuGraphClone(&copied, parent));
    CHECK(cuGraphInstantiateWithFlags(&exec, copied, 0));
    arrives(exec, other, 32);
    CHECK(cuGraphDestroy(copied));
    /* It ends with its node. */
    CHECK(cuGraphDestroyNode(node));
    ANSWERS(INVALID_HANDLE, cuGraphGetNodes(child, NULL, &count));
    ANSWERS(INVALID_HANDLE, cuGraphNodeGetContainingGraph(of_child, &found));
    CHECK(cuGraphDestroy(third));
    CHECK(cuGraphDestroy(parent));
}

int main(int count, char **arguments) {
    (void)count;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    for (size_t at = 0; at < sizeof bytes; at++)
        bytes[at] = (unsigned char)(at * 7 + at / 256);
    CHECK(cuMemAlloc_v2(&from, sizeof bytes));
    CHECK(cuMemAlloc_v2(&to, sizeof bytes));
    CHECK(cuMemAlloc_v2(&other, sizeof bytes));
    CHECK(cuMemcpyHtoD_v2(from, bytes, sizeof bytes));
    updates(CLONE);
    updates(MOVE);
    restrictions();
    printf("%s: well\n", arguments[1]);
    return 0;
}
