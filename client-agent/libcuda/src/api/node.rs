//! Nodes of graphs: adding them, and what they do.

use std::ffi::c_void;

use crate::abi::{Count, In, List, Out};
use crate::copy3d::Copy3D;
use crate::current_context::current_device;
use crate::graph::params::{
    FillParams, HostParams, KernelParams, KernelParams2, NodeParams, event,
};
use crate::graph::{EXECS, Work, graph, graph_of};
use crate::guard::api;
use crate::status::{Result, Status};

/// Where a new node goes: its handle's place, its graph, and what it comes behind.
struct Place<'a>(Out<'a, usize>, usize, List<'a, usize>, Count<'a>);

impl Place<'_> {
    fn add(self, work: impl FnOnce() -> Result<Work>) -> Result {
        let Self(node, handle, after, count) = self;
        current_device()?;
        let graph = graph(handle)?;
        node.check()?;
        let work = work()?;
        let after: Vec<_> = after.items(count)?.collect();
        node.put(graph.add(work, &after)?)
    }
}

/// Gives a node other work of the same kind.
fn set(node: usize, new: Work) -> Result {
    graph_of(node)?.with(node, |work| replace(work, new))
}

/// The same for a graph that can be launched.
fn set_exec(exec: usize, node: usize, new: Work) -> Result {
    let exec = EXECS.get(exec).ok_or(Status::INVALID_HANDLE)?;
    exec.with(node, |step| replace(&mut step.work, new))
}

fn replace(work: &mut Work, new: Work) -> Result {
    if work.kind() != new.kind() {
        return Err(Status::INVALID_VALUE);
    }
    *work = new;
    Ok(())
}

api! {
    fn cuGraphAddKernelNode(
        node: Out<'_, usize>,
        graph: usize,
        after: List<'_, usize>,
        count: Count<'_>,
        params: In<'_, KernelParams>,
    ) {
        Place(node, graph, after, count).add(|| params.take()?.work())
    }

    fn cuGraphAddKernelNode_v2(
        node: Out<'_, usize>,
        graph: usize,
        after: List<'_, usize>,
        count: Count<'_>,
        params: In<'_, KernelParams2>,
    ) {
        Place(node, graph, after, count).add(|| params.take()?.params().work())
    }

    fn cuGraphAddMemcpyNode(
        node: Out<'_, usize>,
        graph: usize,
        after: List<'_, usize>,
        count: Count<'_>,
        copy: In<'_, Copy3D>,
        context: usize,
    ) {
        let _ = context;
        Place(node, graph, after, count).add(|| copy.take()?.node())
    }

    fn cuGraphAddMemsetNode(
        node: Out<'_, usize>,
        graph: usize,
        after: List<'_, usize>,
        count: Count<'_>,
        fill: In<'_, FillParams>,
        context: usize,
    ) {
        let _ = context;
        Place(node, graph, after, count).add(|| fill.take()?.work())
    }

    fn cuGraphAddHostNode(
        node: Out<'_, usize>,
        graph: usize,
        after: List<'_, usize>,
        count: Count<'_>,
        params: In<'_, HostParams>,
    ) {
        Place(node, graph, after, count).add(|| params.take()?.work())
    }

    fn cuGraphAddEmptyNode(
        node: Out<'_, usize>,
        graph: usize,
        after: List<'_, usize>,
        count: Count<'_>,
    ) {
        Place(node, graph, after, count).add(|| Ok(Work::Empty))
    }

    fn cuGraphAddChildGraphNode(
        node: Out<'_, usize>,
        handle: usize,
        after: List<'_, usize>,
        count: Count<'_>,
        child: usize,
    ) {
        Place(node, handle, after, count).add(|| Ok(Work::Child(graph(child)?.copy())))
    }

    fn cuGraphAddEventRecordNode(
        node: Out<'_, usize>,
        graph: usize,
        after: List<'_, usize>,
        count: Count<'_>,
        handle: usize,
    ) {
        Place(node, graph, after, count).add(|| event(handle).map(Work::Record))
    }

    fn cuGraphAddEventWaitNode(
        node: Out<'_, usize>,
        graph: usize,
        after: List<'_, usize>,
        count: Count<'_>,
        handle: usize,
    ) {
        Place(node, graph, after, count).add(|| event(handle).map(Work::Wait))
    }

    fn cuGraphAddNode(
        node: Out<'_, usize>,
        graph: usize,
        after: List<'_, usize>,
        count: Count<'_>,
        params: In<'_, NodeParams>,
    ) {
        Place(node, graph, after, count).add(|| params.take()?.work())
    }

    fn cuGraphAddNode_v2(
        node: Out<'_, usize>,
        graph: usize,
        after: List<'_, usize>,
        data: *const c_void,
        count: Count<'_>,
        params: In<'_, NodeParams>,
    ) {
        let _ = data;
        Place(node, graph, after, count).add(|| params.take()?.work())
    }

    fn cuGraphKernelNodeSetParams(node: usize, params: In<'_, KernelParams>) {
        set(node, params.take()?.work()?)
    }

    fn cuGraphKernelNodeSetParams_v2(node: usize, params: In<'_, KernelParams2>) {
        set(node, params.take()?.params().work()?)
    }

    fn cuGraphKernelNodeGetParams(node: usize, params: Out<'_, KernelParams>) {
        let found = graph_of(node)?.with(node, |work| KernelParams::of(work))?;
        // The parameters stay until the node's work changes.
        params.put(found)
    }

    fn cuGraphKernelNodeGetParams_v2(node: usize, params: Out<'_, KernelParams2>) {
        let first = graph_of(node)?.with(node, |work| KernelParams::of(work))?;
        let found = KernelParams2 { first, kernel: 0, context: crate::stack::top() };
        params.put(found)
    }

    fn cuGraphMemcpyNodeSetParams(node: usize, copy: In<'_, Copy3D>) {
        set(node, copy.take()?.node()?)
    }

    fn cuGraphMemcpyNodeGetParams(node: usize, copy: Out<'_, Copy3D>) {
        let found = graph_of(node)?.with(node, |work| match work {
            Work::Copy(copy) => Ok(*copy),
            _ => Err(Status::INVALID_VALUE),
        })?;
        copy.put(found)
    }

    fn cuGraphMemsetNodeSetParams(node: usize, fill: In<'_, FillParams>) {
        set(node, fill.take()?.work()?)
    }

    fn cuGraphHostNodeSetParams(node: usize, params: In<'_, HostParams>) {
        set(node, params.take()?.work()?)
    }

    fn cuGraphExecKernelNodeSetParams(exec: usize, node: usize, params: In<'_, KernelParams>) {
        set_exec(exec, node, params.take()?.work()?)
    }

    fn cuGraphExecKernelNodeSetParams_v2(exec: usize, node: usize, params: In<'_, KernelParams2>) {
        set_exec(exec, node, params.take()?.params().work()?)
    }

    fn cuGraphExecMemcpyNodeSetParams(
        exec: usize,
        node: usize,
        copy: In<'_, Copy3D>,
        context: usize,
    ) {
        let _ = context;
        set_exec(exec, node, copy.take()?.node()?)
    }

    fn cuGraphExecMemsetNodeSetParams(
        exec: usize,
        node: usize,
        fill: In<'_, FillParams>,
        context: usize,
    ) {
        let _ = context;
        set_exec(exec, node, fill.take()?.work()?)
    }

    fn cuGraphExecHostNodeSetParams(exec: usize, node: usize, params: In<'_, HostParams>) {
        set_exec(exec, node, params.take()?.work()?)
    }

    fn cuGraphNodeSetParams(node: usize, params: In<'_, NodeParams>) {
        set(node, params.take()?.work()?)
    }

    fn cuGraphExecNodeSetParams(exec: usize, node: usize, params: In<'_, NodeParams>) {
        set_exec(exec, node, params.take()?.work()?)
    }

    fn cuGraphMemsetNodeGetParams(node: usize, fill: Out<'_, FillParams>) {
        let found = graph_of(node)?.with(node, |work| FillParams::of(work))?;
        fill.put(found)
    }

    fn cuGraphHostNodeGetParams(node: usize, params: Out<'_, HostParams>) {
        let found = graph_of(node)?.with(node, |work| HostParams::of(work))?;
        params.put(found)
    }

    fn cuGraphEventRecordNodeGetEvent(node: usize, handle: Out<'_, usize>) {
        let found = graph_of(node)?.with(node, |work| match work {
            Work::Record(event) => Ok(*event),
            _ => Err(Status::INVALID_VALUE),
        })?;
        handle.put(found)
    }

    fn cuGraphEventWaitNodeGetEvent(node: usize, handle: Out<'_, usize>) {
        let found = graph_of(node)?.with(node, |work| match work {
            Work::Wait(event) => Ok(*event),
            _ => Err(Status::INVALID_VALUE),
        })?;
        handle.put(found)
    }

    fn cuGraphEventRecordNodeSetEvent(node: usize, handle: usize) {
        set(node, event(handle).map(Work::Record)?)
    }

    fn cuGraphEventWaitNodeSetEvent(node: usize, handle: usize) {
        set(node, event(handle).map(Work::Wait)?)
    }

    fn cuGraphExecEventRecordNodeSetEvent(exec: usize, node: usize, handle: usize) {
        set_exec(exec, node, event(handle).map(Work::Record)?)
    }

    fn cuGraphExecEventWaitNodeSetEvent(exec: usize, node: usize, handle: usize) {
        set_exec(exec, node, event(handle).map(Work::Wait)?)
    }

    fn cuGraphExecChildGraphNodeSetParams(exec: usize, node: usize, child: usize) {
        let steps = graph(child)?.steps()?;
        EXECS.get(exec).ok_or(Status::INVALID_HANDLE)?.replace_child(node, steps)
    }
}
