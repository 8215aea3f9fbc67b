//! Nodes of graphs: adding them, and what they do.

use std::ffi::c_void;

use super::graph::nodes;
use super::put;
use crate::current::current_device;
use crate::graph::params::{
    FillParams, HostParams, KernelParams, KernelParams2, NodeParams, event, take,
};
use crate::graph::{EXECS, Work, graph, graph_of};
use crate::guard::api;
use crate::status::{Result, Status};
use crate::volume::Copy3D;

/// Where a new node goes: its handle's place, its graph, and what it comes behind.
#[derive(Clone, Copy)]
struct Place(*mut usize, usize, *const usize, usize);

impl Place {
    /// # Safety
    /// The handle's place is valid, and there are so many nodes.
    unsafe fn add(self, work: impl FnOnce() -> Result<Work>) -> Result {
        let Self(node, handle, after, count) = self;
        current_device()?;
        let graph = graph(handle)?;
        if node.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller vouches for it.
        unsafe { put(node, graph.add(work()?, nodes(after, count)?)?) }
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
        node: *mut usize,
        graph: usize,
        after: *const usize,
        count: usize,
        params: *const KernelParams,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { Place(node, graph, after, count).add(|| take(params)?.work()) }
    }

    fn cuGraphAddKernelNode_v2(
        node: *mut usize,
        graph: usize,
        after: *const usize,
        count: usize,
        params: *const KernelParams2,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { Place(node, graph, after, count).add(|| take(params)?.params().work()) }
    }

    fn cuGraphAddMemcpyNode(
        node: *mut usize,
        graph: usize,
        after: *const usize,
        count: usize,
        copy: *const Copy3D,
        context: usize,
    ) {
        let _ = context;
        // SAFETY: the caller's pointers.
        unsafe { Place(node, graph, after, count).add(|| take(copy)?.node()) }
    }

    fn cuGraphAddMemsetNode(
        node: *mut usize,
        graph: usize,
        after: *const usize,
        count: usize,
        fill: *const FillParams,
        context: usize,
    ) {
        let _ = context;
        // SAFETY: the caller's pointers.
        unsafe { Place(node, graph, after, count).add(|| take(fill)?.work()) }
    }

    fn cuGraphAddHostNode(
        node: *mut usize,
        graph: usize,
        after: *const usize,
        count: usize,
        params: *const HostParams,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { Place(node, graph, after, count).add(|| take(params)?.work()) }
    }

    fn cuGraphAddEmptyNode(node: *mut usize, graph: usize, after: *const usize, count: usize) {
        // SAFETY: the caller's pointers.
        unsafe { Place(node, graph, after, count).add(|| Ok(Work::Empty)) }
    }

    fn cuGraphAddChildGraphNode(
        node: *mut usize,
        handle: usize,
        after: *const usize,
        count: usize,
        child: usize,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { Place(node, handle, after, count).add(|| Ok(Work::Child(graph(child)?.copy()))) }
    }

    fn cuGraphAddEventRecordNode(
        node: *mut usize,
        graph: usize,
        after: *const usize,
        count: usize,
        handle: usize,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { Place(node, graph, after, count).add(|| event(handle).map(Work::Record)) }
    }

    fn cuGraphAddEventWaitNode(
        node: *mut usize,
        graph: usize,
        after: *const usize,
        count: usize,
        handle: usize,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { Place(node, graph, after, count).add(|| event(handle).map(Work::Wait)) }
    }

    fn cuGraphAddNode(
        node: *mut usize,
        graph: usize,
        after: *const usize,
        count: usize,
        params: *const NodeParams,
    ) {
        // SAFETY: the caller's pointers.
        unsafe { Place(node, graph, after, count).add(|| take(params)?.work()) }
    }

    fn cuGraphAddNode_v2(
        node: *mut usize,
        graph: usize,
        after: *const usize,
        data: *const c_void,
        count: usize,
        params: *const NodeParams,
    ) {
        let _ = data;
        // SAFETY: the caller's pointers.
        unsafe { Place(node, graph, after, count).add(|| take(params)?.work()) }
    }

    fn cuGraphKernelNodeSetParams(node: usize, params: *const KernelParams) {
        // SAFETY: the caller's pointer.
        set(node, unsafe { take(params)?.work()? })
    }

    fn cuGraphKernelNodeSetParams_v2(node: usize, params: *const KernelParams2) {
        // SAFETY: the caller's pointer.
        set(node, unsafe { take(params)?.params().work()? })
    }

    fn cuGraphKernelNodeGetParams(node: usize, params: *mut KernelParams) {
        let found = graph_of(node)?.with(node, |work| KernelParams::of(work))?;
        // SAFETY: the caller's pointer. The parameters stay until the node's work changes.
        unsafe { put(params, found) }
    }

    fn cuGraphKernelNodeGetParams_v2(node: usize, params: *mut KernelParams2) {
        let first = graph_of(node)?.with(node, |work| KernelParams::of(work))?;
        let found = KernelParams2 { first, kernel: 0, context: crate::stack::top() };
        // SAFETY: as above.
        unsafe { put(params, found) }
    }

    fn cuGraphMemcpyNodeSetParams(node: usize, copy: *const Copy3D) {
        // SAFETY: the caller's pointer.
        set(node, unsafe { take(copy)? }.node()?)
    }

    fn cuGraphMemcpyNodeGetParams(node: usize, copy: *mut Copy3D) {
        let found = graph_of(node)?.with(node, |work| match work {
            Work::Copy(copy) => Ok(*copy),
            _ => Err(Status::INVALID_VALUE),
        })?;
        // SAFETY: the caller's pointer.
        unsafe { put(copy, found) }
    }

    fn cuGraphMemsetNodeSetParams(node: usize, fill: *const FillParams) {
        // SAFETY: the caller's pointer.
        set(node, unsafe { take(fill)?.work()? })
    }

    fn cuGraphHostNodeSetParams(node: usize, params: *const HostParams) {
        // SAFETY: the caller's pointer.
        set(node, unsafe { take(params)?.work()? })
    }

    fn cuGraphExecKernelNodeSetParams(exec: usize, node: usize, params: *const KernelParams) {
        // SAFETY: the caller's pointer.
        set_exec(exec, node, unsafe { take(params)?.work()? })
    }

    fn cuGraphExecKernelNodeSetParams_v2(exec: usize, node: usize, params: *const KernelParams2) {
        // SAFETY: the caller's pointer.
        set_exec(exec, node, unsafe { take(params)?.params().work()? })
    }

    fn cuGraphExecMemcpyNodeSetParams(
        exec: usize,
        node: usize,
        copy: *const Copy3D,
        context: usize,
    ) {
        let _ = context;
        // SAFETY: the caller's pointer.
        set_exec(exec, node, unsafe { take(copy)? }.node()?)
    }

    fn cuGraphExecMemsetNodeSetParams(
        exec: usize,
        node: usize,
        fill: *const FillParams,
        context: usize,
    ) {
        let _ = context;
        // SAFETY: the caller's pointer.
        set_exec(exec, node, unsafe { take(fill)?.work()? })
    }

    fn cuGraphExecHostNodeSetParams(exec: usize, node: usize, params: *const HostParams) {
        // SAFETY: the caller's pointer.
        set_exec(exec, node, unsafe { take(params)?.work()? })
    }

    fn cuGraphNodeSetParams(node: usize, params: *const NodeParams) {
        // SAFETY: the caller's pointer.
        set(node, unsafe { take(params)?.work()? })
    }

    fn cuGraphExecNodeSetParams(exec: usize, node: usize, params: *const NodeParams) {
        // SAFETY: the caller's pointer.
        set_exec(exec, node, unsafe { take(params)?.work()? })
    }

    fn cuGraphMemsetNodeGetParams(node: usize, fill: *mut FillParams) {
        let found = graph_of(node)?.with(node, |work| FillParams::of(work))?;
        // SAFETY: the caller's pointer.
        unsafe { put(fill, found) }
    }

    fn cuGraphHostNodeGetParams(node: usize, params: *mut HostParams) {
        let found = graph_of(node)?.with(node, |work| HostParams::of(work))?;
        // SAFETY: the caller's pointer.
        unsafe { put(params, found) }
    }

    fn cuGraphEventRecordNodeGetEvent(node: usize, handle: *mut usize) {
        let found = graph_of(node)?.with(node, |work| match work {
            Work::Record(event) => Ok(*event),
            _ => Err(Status::INVALID_VALUE),
        })?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, found) }
    }

    fn cuGraphEventWaitNodeGetEvent(node: usize, handle: *mut usize) {
        let found = graph_of(node)?.with(node, |work| match work {
            Work::Wait(event) => Ok(*event),
            _ => Err(Status::INVALID_VALUE),
        })?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, found) }
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
