//! What nodes do, as the driver API's structures have it.

#![expect(
    unsafe_code,
    reason = "a union of structures, and pointers to parameters in them"
)]

use std::ffi::{c_int, c_uint, c_void};

use super::recorded::{Fill, Launch, Work, graph};
use crate::abi::{Data, Function, HostCall, HostFunction, List};
use crate::copy3d::Copy3D;
use crate::event::EVENTS;
use crate::launch::{Arguments, Shape};
use crate::status::{Result, Status};

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
    pub(crate) first: KernelParams,
    pub(crate) kernel: usize,
    pub(crate) context: usize,
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
    function: Function<HostFunction>,
    data: Data,
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

impl KernelParams {
    pub(crate) fn work(self) -> Result<Work> {
        let shape = Shape {
            grid: self.grid,
            block: self.block,
            shared: self.shared,
        };
        // SAFETY: a program that gives this structure promises of both what it does of a launch's.
        let (pointers, extra) = unsafe { (List::at(self.pointers), List::at(self.extra)) };
        let arguments = Arguments::new(self.function, pointers, extra);
        Ok(Work::Kernel(Launch::new(shape, arguments)?))
    }

    pub(crate) fn of(work: &Work) -> Result<Self> {
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
    pub(crate) fn params(self) -> KernelParams {
        let mut params = self.first;
        if params.function == 0 {
            params.function = self.kernel;
        }
        params
    }
}

impl FillParams {
    pub(crate) fn work(self) -> Result<Work> {
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

impl FillParams {
    pub(crate) fn of(work: &Work) -> Result<Self> {
        let Work::Fill(fill) = *work else {
            return Err(Status::INVALID_VALUE);
        };
        Ok(Self {
            address: fill.address,
            pitch: fill.pitch,
            value: fill.value,
            width: fill.width,
            count: fill.count,
            rows: fill.rows,
        })
    }
}

impl HostParams {
    pub(crate) fn of(work: &Work) -> Result<Self> {
        let Work::Host(call) = *work else {
            return Err(Status::INVALID_VALUE);
        };
        let (function, data) = call.named();
        Ok(Self { function, data })
    }

    pub(crate) fn work(self) -> Result<Work> {
        Ok(Work::Host(HostCall::new(self.function, self.data)?))
    }
}

impl NodeParams {
    pub(crate) fn work(&self) -> Result<Work> {
        // SAFETY: the parameters are of the kind that the structure says; all of them are plain numbers.
        unsafe {
            match self.kind {
                0 => self.params.kernel.params().work(),
                1 => self.params.copy.copy.node(),
                2 => self.params.fill.work(),
                3 => self.params.host.work(),
                kind => of_handle(kind, self.params.handle),
            }
        }
    }
}

/// Nodes that have nothing or a handle for parameters.
fn of_handle(kind: c_int, handle: usize) -> Result<Work> {
    match kind {
        4 => Ok(Work::Child(graph(handle)?.copy())),
        5 => Ok(Work::Empty),
        6 => event(handle).map(Work::Wait),
        7 => event(handle).map(Work::Record),
        _ => Err(Status::NOT_SUPPORTED),
    }
}

pub(crate) fn event(handle: usize) -> Result<usize> {
    EVENTS
        .with(handle, |_| handle)
        .ok_or(Status::INVALID_HANDLE)
}
