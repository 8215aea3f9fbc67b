//! The parameters of nodes, in the structures of the driver API.

#![expect(unsafe_code, reason = "a union of structures")]

use std::ffi::{c_int, c_void};

use super::recorded::{Graph, Launch, Work};
use crate::abi::{Data, Function, Handle, HostCall, HostFunction, In, Word};
use crate::context::Context;
use crate::copy3d::Copy3D;
use crate::event::Event;
use crate::fill::Fill;
use crate::launch::{Arguments, Callee, How, Parameters, Shape};
use crate::module::Kernel;
use crate::status::{Result, Status};

/// Parameters from which the work of a node is made.
pub(crate) trait Params {
    fn work(&self) -> Result<Work>;

    /// The work of a node that is added to a graph.
    fn work_in(&self, _graph: &Graph) -> Result<Work> {
        self.work()
    }
}

/// Parameters that a node of their kind answers with.
pub(crate) trait Shown: Sized {
    /// The parameters of a node.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a node of another kind.
    fn of(work: &Work) -> Result<Self>;
}

impl<T: Params + Copy> Params for In<'_, T> {
    fn work(&self) -> Result<Work> {
        self.take()?.work()
    }

    fn work_in(&self, graph: &Graph) -> Result<Work> {
        self.take()?.work_in(graph)
    }
}

/// `CUDA_KERNEL_NODE_PARAMS`, which is the begin of its later versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelParams<'a> {
    function: Callee<'a>,
    shape: Shape,
    pointers: Parameters<'a>,
    extra: Parameters<'a>,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2` and `_v3`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelParams2<'a> {
    first: KernelParams<'a>,
    kernel: Callee<'a>,
    context: Handle<Context>,
}

/// The same structure as an answer: its pointers are for the program, and are never followed here.
#[repr(C)]
pub(crate) struct ShownKernel {
    function: Handle<Kernel>,
    shape: Shape,
    pointers: *const *const c_void,
    extra: *const *const c_void,
}

/// The answer in the later versions.
#[repr(C)]
pub(crate) struct ShownKernel2 {
    first: ShownKernel,
    kernel: Handle<Kernel>,
    context: Handle<Context>,
}

/// `CUDA_HOST_NODE_PARAMS`, which is the begin of its later version.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct HostParams<'a> {
    function: Function<'a, HostFunction>,
    data: Data<'a>,
}

/// `CUDA_MEMCPY_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CopyParams<'a> {
    flags: [c_int; 2],
    context: Handle<Context>,
    copy: Copy3D<'a>,
}

/// The event that a node records.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct RecordedEvent(Handle<Event>);

/// The event that a node waits for.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct AwaitedEvent(Handle<Event>);

/// The graph of a child graph node.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct ChildGraph(Handle<Graph>);

impl Word for RecordedEvent {
    #[inline]
    fn word(&self) -> u64 {
        self.0.word()
    }
}

impl Word for AwaitedEvent {
    #[inline]
    fn word(&self) -> u64 {
        self.0.word()
    }
}

impl Word for ChildGraph {
    #[inline]
    fn word(&self) -> u64 {
        self.0.word()
    }
}

/// `CUDA_CHILD_GRAPH_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ChildParams {
    child: ChildGraph,
    ownership: c_int,
}

/// `CUgraphChildGraphNodeOwnership`: the node owns a copy of the graph, or the graph itself.
const CLONE: c_int = 0;
const MOVE: c_int = 1;
/// The kind of a child graph node.
const CHILD: c_int = 4;

/// `CUgraphNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NodeParams<'a> {
    kind: c_int,
    reserved: [c_int; 3],
    params: ByKind<'a>,
}

/// The parameters by the kind of the node.
#[repr(C)]
#[derive(Clone, Copy)]
union ByKind<'a> {
    kernel: KernelParams2<'a>,
    copy: CopyParams<'a>,
    fill: Fill,
    host: HostParams<'a>,
    child: ChildParams,
    awaited: AwaitedEvent,
    recorded: RecordedEvent,
}

impl Params for KernelParams<'_> {
    fn work(&self) -> Result<Work> {
        let arguments = Arguments::new(self.function, self.pointers, self.extra);
        let how = How::plain(self.shape);
        Ok(Work::Kernel(Launch::new(how, arguments)?))
    }
}

impl Shown for ShownKernel {
    /// The pointers stay valid until the node's work changes.
    fn of(work: &Work) -> Result<Self> {
        let Work::Kernel(launch) = work else {
            return Err(Status::INVALID_VALUE);
        };
        Ok(Self {
            function: launch.kernel,
            shape: launch.how.shape,
            pointers: launch.pointers.as_ptr().cast(),
            extra: std::ptr::null(),
        })
    }
}

/// Implements [`Shown`] for parameters that are all of a kind's work.
macro_rules! shown {
    ($($kind:ident($work:ident) => $params:ty: $made:expr;)*) => {$(
        impl Shown for $params {
            fn of(work: &Work) -> Result<Self> {
                match work {
                    Work::$kind($work) => Ok($made),
                    _ => Err(Status::INVALID_VALUE),
                }
            }
        }
    )*};
}

shown! {
    Copy(copy) => Copy3D<'static>: *copy;
    Fill(fill) => Fill: *fill;
    Record(event) => RecordedEvent: Self(*event);
    Wait(event) => AwaitedEvent: Self(*event);
}

impl Params for KernelParams2<'_> {
    fn work(&self) -> Result<Work> {
        let mut params = self.first;
        // The kernel is in one of two fields.
        if params.function.kernel().is_null() {
            params.function = self.kernel;
        }
        params.work()
    }
}

impl Shown for ShownKernel2 {
    fn of(work: &Work) -> Result<Self> {
        Ok(Self {
            first: ShownKernel::of(work)?,
            kernel: Handle::NULL,
            context: crate::stack::top(),
        })
    }
}

impl Params for Copy3D<'_> {
    fn work(&self) -> Result<Work> {
        self.node()
    }
}

impl Params for Fill {
    fn work(&self) -> Result<Work> {
        if !matches!(self.width, 1 | 2 | 4) || self.count == 0 || self.rows == 0 {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Work::Fill(*self))
    }
}

impl Params for HostParams<'_> {
    fn work(&self) -> Result<Work> {
        HostCall::new(self.function, self.data).map(Work::Host)
    }
}

impl Shown for HostParams<'static> {
    fn of(work: &Work) -> Result<Self> {
        let Work::Host(call) = work else {
            return Err(Status::INVALID_VALUE);
        };
        let (function, data) = call.named();
        Ok(Self { function, data })
    }
}

impl Params for RecordedEvent {
    fn work(&self) -> Result<Work> {
        self.0.check()?;
        Ok(Work::Record(self.0))
    }
}

impl Params for AwaitedEvent {
    fn work(&self) -> Result<Work> {
        self.0.check()?;
        Ok(Work::Wait(self.0))
    }
}

impl Params for ChildGraph {
    fn work(&self) -> Result<Work> {
        let graph = self.0.get()?;
        graph.is_whole()?;
        Ok(Work::Child(graph.copy()))
    }
}

impl Params for ChildParams {
    fn work(&self) -> Result<Work> {
        match self.ownership {
            CLONE => self.child.work(),
            // An existing node does not get another graph.
            _ => Err(Status::INVALID_VALUE),
        }
    }

    fn work_in(&self, graph: &Graph) -> Result<Work> {
        if self.ownership != MOVE {
            return self.work();
        }
        let child = self.child.0.get()?;
        child.move_into(graph)?;
        Ok(Work::Child(child))
    }
}

impl Params for NodeParams<'_> {
    fn work(&self) -> Result<Work> {
        // SAFETY: the program writes the parameters of the kind that it states; a function among
        // them is one of its own, or null.
        unsafe {
            match self.kind {
                0 => self.params.kernel.work(),
                1 => self.params.copy.copy.work(),
                2 => self.params.fill.work(),
                3 => self.params.host.work(),
                CHILD => self.params.child.work(),
                kind => self.of_handle(kind),
            }
        }
    }

    fn work_in(&self, graph: &Graph) -> Result<Work> {
        match self.kind {
            // SAFETY: the program writes the parameters of the kind that it states.
            CHILD => unsafe { self.params.child }.work_in(graph),
            _ => self.work(),
        }
    }
}

impl NodeParams<'_> {
    /// Work of nodes with no parameters, or with a handle.
    fn of_handle(&self, kind: c_int) -> Result<Work> {
        // SAFETY: any eight bytes are a handle, and the parameters of every kind begin with as
        // many.
        let (awaited, recorded) = unsafe { (self.params.awaited, self.params.recorded) };
        match kind {
            5 => Ok(Work::Empty),
            6 => awaited.work(),
            7 => recorded.work(),
            _ => Err(Status::NOT_SUPPORTED),
        }
    }
}
