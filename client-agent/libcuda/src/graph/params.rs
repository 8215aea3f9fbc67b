//! What nodes do, as the driver API's structures have it.

#![expect(unsafe_code, reason = "structures of the program's")]

use std::ffi::{c_int, c_uint, c_void};

use super::{Fill, HostCall, Launch, Work, graph};
use crate::event::EVENTS;
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
pub(crate) unsafe fn take<T: Copy>(from: *const T) -> Result<T> {
    if from.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { from.read_unaligned() })
}

impl KernelParams {
    /// # Safety
    /// The parameters are what the kernel's image asks for.
    pub(crate) unsafe fn work(self) -> Result<Work> {
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
        Ok(Self {
            function: Some(call.function),
            data: call.data,
        })
    }

    pub(crate) fn work(self) -> Result<Work> {
        Ok(Work::Host(HostCall {
            function: self.function.ok_or(Status::INVALID_VALUE)?,
            data: self.data,
        }))
    }
}

impl NodeParams {
    /// # Safety
    /// The parameters are of the kind they say, and what they point to.
    pub(crate) unsafe fn work(&self) -> Result<Work> {
        // SAFETY: the caller vouches for it.
        unsafe {
            match self.kind {
                0 => self.params.kernel.params().work(),
                1 => self.params.copy.copy.node(),
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

pub(crate) fn event(handle: usize) -> Result<usize> {
    EVENTS
        .with(handle, |_| handle)
        .ok_or(Status::INVALID_HANDLE)
}
