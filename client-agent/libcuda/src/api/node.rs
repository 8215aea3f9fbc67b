//! Nodes of graphs: adding them, and their parameters.

use crate::abi::{Count, Handle, In, List, Out, Unused};
use crate::context::Context;
use crate::copy3d::Copy3D;
use crate::current_context::current_device;
use crate::fill::Fill;
use crate::graph::params::{
    AwaitedEvent, ChildGraph, HostParams, KernelParams, KernelParams2, NodeParams, Params,
    RecordedEvent, Shown, ShownKernel, ShownKernel2,
};
use crate::graph::{Exec, Graph, Node, Work};
use crate::guard::api;
use crate::status::Result;

/// Destination of a new node: the place for its handle, its graph, and its dependencies.
struct Place<'o, 'c>(
    Out<'o, Handle<Node>>,
    Handle<Graph>,
    List<'c, Handle<Node>>,
    Count<'c>,
);

impl Place<'_, '_> {
    fn add(self, work: impl FnOnce(&Graph) -> Result<Work>) -> Result {
        let Self(node, graph, after, count) = self;
        current_device()?;
        let graph = graph.get()?;
        node.put_made(|| {
            let after: Vec<_> = after.items(count)?.collect();
            let work = work(&graph)?;
            graph.add(work.clone(), &after).inspect_err(|_| {
                if let Work::Child(child) = &work {
                    child.give_back();
                }
            })
        })
    }
}

/// Replaces a node's work with other work of the same kind.
fn set(node: Handle<Node>, params: impl Params) -> Result {
    let new = params.work()?;
    let graph = node.graph()?;
    if let Work::Child(child) = &new {
        child.own(graph.handle);
    }
    let old = node.with_work(|work| work.replace(new))?;
    if let Work::Child(child) = old {
        child.destroy();
    }
    Ok(())
}

/// The same for an executable graph.
fn set_exec(exec: Handle<Exec>, node: Handle<Node>, params: impl Params) -> Result {
    let new = params.work()?;
    exec.get()?.with(node, |step| step.work.replace(new))?;
    Ok(())
}

/// Defines the functions of node kinds, one kind in each row. A row has the type of the parameters,
/// and the functions that add a node and set its parameters in a graph or executable graph. The
/// function that answers with the parameters follows, if there is one, with the type of its answer.
/// `context` stands where adding and setting name a context, which is not needed: work belongs to
/// the device.
macro_rules! nodes {
    ($($params:ty: $add:ident, $set:ident, $set_exec:ident $(, $get:ident: $shown:ty)? $([$context:ident])?;)*) => {$(
        api! {
            fn $add<'c>(
                node: Out<'_, Handle<Node>>,
                graph: Handle<Graph>,
                after: List<'c, Handle<Node>>,
                count: Count<'c>,
                params: $params
                $(, $context: Handle<Context>)?
            ) {
                $(let _ = $context;)?
                Place(node, graph, after, count).add(|graph| params.work_in(graph))
            }

            fn $set(node: Handle<Node>, params: $params) => set(node, params);

            fn $set_exec(
                exec: Handle<Exec>,
                node: Handle<Node>,
                params: $params
                $(, $context: Handle<Context>)?
            ) {
                $(let _ = $context;)?
                set_exec(exec, node, params)
            }

            $(fn $get(node: Handle<Node>, params: Out<'_, $shown>) {
                params.put(node.with_work(|work| <$shown>::of(work))?)
            })?
        }
    )*};
}

nodes! {
    In<'_, KernelParams<'_>>: cuGraphAddKernelNode, cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams,
        cuGraphKernelNodeGetParams: ShownKernel;
    In<'_, KernelParams2<'_>>: cuGraphAddKernelNode_v2, cuGraphKernelNodeSetParams_v2,
        cuGraphExecKernelNodeSetParams_v2, cuGraphKernelNodeGetParams_v2: ShownKernel2;
    In<'_, Copy3D<'_>>: cuGraphAddMemcpyNode, cuGraphMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams,
        cuGraphMemcpyNodeGetParams: Copy3D<'static> [context];
    In<'_, Fill>: cuGraphAddMemsetNode, cuGraphMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams,
        cuGraphMemsetNodeGetParams: Fill [context];
    In<'_, HostParams<'_>>: cuGraphAddHostNode, cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams,
        cuGraphHostNodeGetParams: HostParams<'static>;
    RecordedEvent: cuGraphAddEventRecordNode, cuGraphEventRecordNodeSetEvent,
        cuGraphExecEventRecordNodeSetEvent, cuGraphEventRecordNodeGetEvent: RecordedEvent;
    AwaitedEvent: cuGraphAddEventWaitNode, cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent,
        cuGraphEventWaitNodeGetEvent: AwaitedEvent;
    In<'_, NodeParams<'_>>: cuGraphAddNode, cuGraphNodeSetParams, cuGraphExecNodeSetParams;
}

api! {
    fn cuGraphAddNode_v2<'c>(
        node: Out<'_, Handle<Node>>,
        graph: Handle<Graph>,
        after: List<'c, Handle<Node>>,
        _data: Unused<'_>,
        count: Count<'c>,
        params: In<'_, NodeParams<'_>>,
    ) => Place(node, graph, after, count).add(|graph| params.work_in(graph));

    fn cuGraphAddEmptyNode<'c>(
        node: Out<'_, Handle<Node>>,
        graph: Handle<Graph>,
        after: List<'c, Handle<Node>>,
        count: Count<'c>,
    ) => Place(node, graph, after, count).add(|_| Ok(Work::Empty));

    fn cuGraphAddChildGraphNode<'c>(
        node: Out<'_, Handle<Node>>,
        graph: Handle<Graph>,
        after: List<'c, Handle<Node>>,
        count: Count<'c>,
        child: ChildGraph,
    ) => Place(node, graph, after, count).add(|_| child.work());

    fn cuGraphExecChildGraphNodeSetParams(exec: Handle<Exec>, node: Handle<Node>, child: Handle<Graph>) {
        let steps = child.get()?.steps()?;
        exec.get()?.replace_child(node, steps)
    }
}
