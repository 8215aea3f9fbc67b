//! Graphs and user objects.

use super::rows;
use crate::role::Object::{Context as ContextObject, Event, Exec, Graph, Node, Stream, User};
use crate::role::ParameterRole::{
    Any, Callback, Count, Flags, Handle, HandleIf, In, InIf, List, OneOf, Out, OutIf, Path, Size,
};

/// Freed on launch, uploaded, launched by the device, priorities of nodes.
const INSTANTIATE: u64 = 15;
/// `CU_GRAPH_DEBUG_DOT_FLAGS_*`.
const DOT: u64 = 0xffff;
/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, which is required.
const USER_OBJECT: &[i64] = &[1];
/// `CU_GRAPH_USER_OBJECT_MOVE`.
const MOVE: u64 = 1;

rows! { ROWS:
    "Graph Management" {
        cuGraphCreate(Initialised) { phGraph: Out, flags: Flags(0) }
        cuGraphDestroy(Initialised) { hGraph: Handle(Graph) }
        cuGraphClone(Initialised) { phGraphClone: Out, originalGraph: Handle(Graph) }
        cuGraphGetId(Initialised) { hGraph: Handle(Graph), graphId: Out }
        cuGraphNodeFindInClone(Initialised) {
            phNode: Out, hOriginalNode: Handle(Node), hClonedGraph: Handle(Graph),
        }
        cuGraphAddDependencies(Initialised) { hGraph: Handle(Graph), from: List, to: List, numDependencies: Count }
        cuGraphAddDependencies_v2(Initialised) {
            hGraph: Handle(Graph), from: List, to: List, edgeData: InIf, numDependencies: Count,
        }
        cuGraphRemoveDependencies(Initialised) { hGraph: Handle(Graph), from: List, to: List, numDependencies: Count }
        cuGraphRemoveDependencies_v2(Initialised) {
            hGraph: Handle(Graph), from: List, to: List, edgeData: InIf, numDependencies: Count,
        }
        cuGraphGetNodes(Initialised) { hGraph: Handle(Graph), nodes: OutIf, numNodes: Out }
        cuGraphGetRootNodes(Initialised) { hGraph: Handle(Graph), rootNodes: OutIf, numRootNodes: Out }
        cuGraphGetEdges(Initialised) { hGraph: Handle(Graph), from: OutIf, to: OutIf, numEdges: Out }
        cuGraphGetEdges_v2(Initialised) {
            hGraph: Handle(Graph), from: OutIf, to: OutIf, edgeData: OutIf, numEdges: Out,
        }
        cuGraphNodeGetDependencies(Initialised) { hNode: Handle(Node), dependencies: OutIf, numDependencies: Out }
        cuGraphNodeGetDependencies_v2(Initialised) {
            hNode: Handle(Node), dependencies: OutIf, edgeData: OutIf, numDependencies: Out,
        }
        cuGraphNodeGetDependentNodes(Initialised) { hNode: Handle(Node), dependentNodes: OutIf, numDependentNodes: Out }
        cuGraphNodeGetDependentNodes_v2(Initialised) {
            hNode: Handle(Node), dependentNodes: OutIf, edgeData: OutIf, numDependentNodes: Out,
        }
        cuGraphNodeGetType(Initialised) { hNode: Handle(Node), r#type: Out }
        cuGraphNodeGetContainingGraph(Initialised) { hNode: Handle(Node), phGraph: Out }
        cuGraphDestroyNode(Initialised) { hNode: Handle(Node) }
        cuGraphChildGraphNodeGetGraph(Initialised) { hNode: Handle(Node), phGraph: Out }
        cuGraphDebugDotPrint(Initialised) { hGraph: Handle(Graph), path: Path, flags: Flags(DOT) }
        cuGraphAddNode(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, numDependencies: Count, nodeParams: In,
        }
        cuGraphAddNode_v2(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, dependencyData: InIf,
            numDependencies: Count, nodeParams: In,
        }
        cuGraphAddEmptyNode(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, numDependencies: Count,
        }
        cuGraphAddChildGraphNode(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, numDependencies: Count,
            childGraph: Handle(Graph),
        }
        cuGraphAddKernelNode(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, numDependencies: Count, nodeParams: In,
        }
        cuGraphAddKernelNode_v2(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, numDependencies: Count, nodeParams: In,
        }
        cuGraphAddMemcpyNode(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, numDependencies: Count, copyParams: In,
            ctx: HandleIf(ContextObject),
        }
        cuGraphAddMemsetNode(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, numDependencies: Count, memsetParams: In,
            ctx: HandleIf(ContextObject),
        }
        cuGraphAddHostNode(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, numDependencies: Count, nodeParams: In,
        }
        cuGraphAddEventRecordNode(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, numDependencies: Count, event: Handle(Event),
        }
        cuGraphAddEventWaitNode(Initialised) {
            phGraphNode: Out, hGraph: Handle(Graph), dependencies: List, numDependencies: Count, event: Handle(Event),
        }
        cuGraphKernelNodeGetParams(Initialised) { hNode: Handle(Node), nodeParams: Out }
        cuGraphKernelNodeGetParams_v2(Initialised) { hNode: Handle(Node), nodeParams: Out }
        cuGraphKernelNodeSetParams(Initialised) { hNode: Handle(Node), nodeParams: In }
        cuGraphKernelNodeSetParams_v2(Initialised) { hNode: Handle(Node), nodeParams: In }
        cuGraphMemcpyNodeGetParams(Initialised) { hNode: Handle(Node), nodeParams: Out }
        cuGraphMemcpyNodeSetParams(Initialised) { hNode: Handle(Node), nodeParams: In }
        cuGraphMemsetNodeGetParams(Initialised) { hNode: Handle(Node), nodeParams: Out }
        cuGraphMemsetNodeSetParams(Initialised) { hNode: Handle(Node), nodeParams: In }
        cuGraphHostNodeGetParams(Initialised) { hNode: Handle(Node), nodeParams: Out }
        cuGraphHostNodeSetParams(Initialised) { hNode: Handle(Node), nodeParams: In }
        cuGraphEventRecordNodeGetEvent(Initialised) { hNode: Handle(Node), event_out: Out }
        cuGraphEventRecordNodeSetEvent(Initialised) { hNode: Handle(Node), event: Handle(Event) }
        cuGraphEventWaitNodeGetEvent(Initialised) { hNode: Handle(Node), event_out: Out }
        cuGraphEventWaitNodeSetEvent(Initialised) { hNode: Handle(Node), event: Handle(Event) }
        cuGraphNodeSetParams(Initialised) { hNode: Handle(Node), nodeParams: In }
        cuGraphInstantiate(Initialised) {
            phGraphExec: Out, hGraph: Handle(Graph), phErrorNode: OutIf, logBuffer: OutIf, bufferSize: Count,
        }
        cuGraphInstantiate_v2(Initialised) {
            phGraphExec: Out, hGraph: Handle(Graph), phErrorNode: OutIf, logBuffer: OutIf, bufferSize: Count,
        }
        cuGraphInstantiateWithFlags(Initialised) { phGraphExec: Out, hGraph: Handle(Graph), flags: Flags(INSTANTIATE) }
        cuGraphInstantiateWithParams(Initialised) { phGraphExec: Out, hGraph: Handle(Graph), instantiateParams: In }
        cuGraphInstantiateWithParams_ptsz(Initialised) {
            phGraphExec: Out, hGraph: Handle(Graph), instantiateParams: In,
        }
        cuGraphExecGetFlags(Initialised) { hGraphExec: Handle(Exec), flags: Out }
        cuGraphExecUpdate(Initialised) {
            hGraphExec: Handle(Exec), hGraph: Handle(Graph), hErrorNode_out: OutIf, updateResult_out: OutIf,
        }
        cuGraphExecUpdate_v2(Initialised) { hGraphExec: Handle(Exec), hGraph: Handle(Graph), resultInfo: OutIf }
        cuGraphExecKernelNodeSetParams(Initialised) { hGraphExec: Handle(Exec), hNode: Handle(Node), nodeParams: In }
        cuGraphExecKernelNodeSetParams_v2(Initialised) { hGraphExec: Handle(Exec), hNode: Handle(Node), nodeParams: In }
        cuGraphExecMemcpyNodeSetParams(Initialised) {
            hGraphExec: Handle(Exec), hNode: Handle(Node), copyParams: In, ctx: HandleIf(ContextObject),
        }
        cuGraphExecMemsetNodeSetParams(Initialised) {
            hGraphExec: Handle(Exec), hNode: Handle(Node), memsetParams: In, ctx: HandleIf(ContextObject),
        }
        cuGraphExecHostNodeSetParams(Initialised) { hGraphExec: Handle(Exec), hNode: Handle(Node), nodeParams: In }
        cuGraphExecEventRecordNodeSetEvent(Initialised) {
            hGraphExec: Handle(Exec), hNode: Handle(Node), event: Handle(Event),
        }
        cuGraphExecEventWaitNodeSetEvent(Initialised) {
            hGraphExec: Handle(Exec), hNode: Handle(Node), event: Handle(Event),
        }
        cuGraphExecChildGraphNodeSetParams(Initialised) {
            hGraphExec: Handle(Exec), hNode: Handle(Node), childGraph: Handle(Graph),
        }
        cuGraphExecNodeSetParams(Initialised) { hGraphExec: Handle(Exec), hNode: Handle(Node), nodeParams: In }
        cuGraphNodeSetEnabled(Initialised) { hGraphExec: Handle(Exec), hNode: Handle(Node), isEnabled: Any }
        cuGraphNodeGetEnabled(Initialised) { hGraphExec: Handle(Exec), hNode: Handle(Node), isEnabled: Out }
        cuGraphUpload(Initialised) { hGraphExec: Handle(Exec), hStream: HandleIf(Stream) }
        cuGraphLaunch(Initialised) { hGraphExec: Handle(Exec), hStream: HandleIf(Stream) }
        cuGraphExecDestroy(Initialised) { hGraphExec: Handle(Exec) }
    }
    "Graph User Objects" {
        cuUserObjectCreate(Initialised) {
            object_out: Out, ptr: Any, destroy: Callback, initialRefcount: Size, flags: OneOf(USER_OBJECT),
        }
        cuUserObjectRetain(Initialised) { object: Handle(User), count: Size }
        cuUserObjectRelease(Initialised) { object: Handle(User), count: Size }
        cuGraphRetainUserObject(Initialised) {
            graph: Handle(Graph), object: Handle(User), count: Size, flags: Flags(MOVE),
        }
        cuGraphReleaseUserObject(Initialised) { graph: Handle(Graph), object: Handle(User), count: Size }
    }
}
