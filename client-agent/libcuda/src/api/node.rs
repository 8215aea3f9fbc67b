//! Nodes of graphs: adding them, and what they do.

use std::ffi::{c_int, c_uint, c_void};

use super::graph::nodes;
use super::put;
use crate::context::current_device;
use crate::event::EVENTS;
use crate::graph::{EXECS, Fill, HostCall, Launch, Work, graph, graph_of};
use crate::guard::api;
use crate::launch::{Arguments, Shape};
use crate::status::{Result, Status};
use crate::volume::Copy3D;

/// `CUDA_KERNEL_NODE_PARAMS`, which begins its later versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelParams {
    function: usize,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    pointers: *const *const c_void,
    extra: *const *const c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2` and `_v3`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelParams2 {
    first: KernelParams,
    kernel: usize,
    context: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`, which begins its later version.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FillParams {
    address: u64,
    pitch: usize,
    value: c_uint,
    width: c_uint,
    count: usize,
    rows: usize,
}

/// `CUDA_HOST_NODE_PARAMS`, which begins its later version.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct HostParams {
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: usize,
}

/// `CUDA_MEMCPY_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CopyParams {
    flags: [c_int; 2],
    context: usize,
    copy: Copy3D,
}

/// `CUgraphNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NodeParams {
    kind: c_int,
    reserved: [c_int; 3],
    params: Params,
}

/// By the kind of the node.
#[repr(C)]
#[derive(Clone, Copy)]
union Params {
    kernel: KernelParams2,
    copy: CopyParams,
    fill: FillParams,
    host: HostParams,
    /// A graph, or an event.
    handle: usize,
}

/// What an ordinary read of the caller's structure gives.
///
/// # Safety
/// The pointer is to one, or null.
unsafe fn take<T: Copy>(from: *const T) -> Result<T> {
    if from.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { from.read_unaligned() })
}

impl KernelParams {
    /// # Safety
    /// The parameters are what the kernel's image asks for.
    unsafe fn work(self) -> Result<Work> {
        let shape = Shape {
            grid: self.grid,
            block: self.block,
            shared: self.shared,
        };
        let arguments = Arguments {
            pointers: self.pointers,
            extra: self.extra,
        };
        // SAFETY: the caller vouches for them.
        Ok(Work::Kernel(unsafe {
            Launch::new(self.function, shape, arguments)?
        }))
    }

    fn of(work: &Work) -> Result<Self> {
        let Work::Kernel(launch) = work else {
            return Err(Status::INVALID_VALUE);
        };
        Ok(Self {
            function: launch.kernel,
            grid: launch.shape.grid,
            block: launch.shape.block,
            shared: launch.shape.shared,
            pointers: launch.pointers.as_ptr().cast(),
            extra: std::ptr::null(),
        })
    }
}

impl KernelParams2 {
    /// The kernel, by either of its names.
    fn params(self) -> KernelParams {
        let mut params = self.first;
        if params.function == 0 {
            params.function = self.kernel;
        }
        params
    }
}

impl FillParams {
    fn work(self) -> Result<Work> {
        if !matches!(self.width, 1 | 2 | 4) || self.count == 0 || self.rows == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let Self {
            address,
            pitch,
            value,
            width,
            count,
            rows,
        } = self;
        Ok(Work::Fill(Fill {
            address,
            pitch,
            value,
            width,
            count,
            rows,
        }))
    }
}

impl HostParams {
    fn work(self) -> Result<Work> {
        Ok(Work::Host(HostCall {
            function: self.function.ok_or(Status::INVALID_VALUE)?,
            data: self.data,
        }))
    }
}

impl NodeParams {
    /// # Safety
    /// The parameters are of the kind they say, and what they point to.
    unsafe fn work(&self) -> Result<Work> {
        // SAFETY: the caller vouches for it.
        unsafe {
            match self.kind {
                0 => self.params.kernel.params().work(),
                1 => Ok(Work::Copy(self.params.copy.copy)),
                2 => self.params.fill.work(),
                3 => self.params.host.work(),
                4 => Ok(Work::Child(graph(self.params.handle)?.copy())),
                5 => Ok(Work::Empty),
                6 => event(self.params.handle).map(Work::Wait),
                7 => event(self.params.handle).map(Work::Record),
                _ => Err(Status::NOT_SUPPORTED),
            }
        }
    }
}

fn event(handle: usize) -> Result<usize> {
    EVENTS
        .with(handle, |_| handle)
        .ok_or(Status::INVALID_HANDLE)
}

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
        unsafe { Place(node, graph, after, count).add(|| Ok(Work::Copy(take(copy)?))) }
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
        let found = KernelParams2 { first, kernel: 0, context: crate::context::top() };
        // SAFETY: as above.
        unsafe { put(params, found) }
    }

    fn cuGraphMemcpyNodeSetParams(node: usize, copy: *const Copy3D) {
        // SAFETY: the caller's pointer.
        set(node, Work::Copy(unsafe { take(copy)? }))
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
        set_exec(exec, node, Work::Copy(unsafe { take(copy)? }))
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
}
