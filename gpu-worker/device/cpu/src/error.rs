//! Errors of building, launching and running a program.

pub use bus_schemas::FaultKind;
use bus_schemas::{FaultAccess, KernelFault, SourceLine};
use ptx::PtxError;
use std::fmt;
use thiserror::Error;

/// The error for a module that this engine cannot run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// The text is not PTX, or uses features that the engine does not support.
    #[error(transparent)]
    Ptx(#[from] PtxError),
    /// The module is too large or contradicts itself.
    #[error("{0}")]
    Module(String),
    /// The build was given up.
    #[error("{0}")]
    Halted(device::Halt),
}

/// Result of decoding a module, or a part of it.
pub(crate) type BuildResult<T> = Result<T, BuildError>;

/// The reason why a launch was refused or ended early.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LaunchError {
    /// The module has no entry of this name.
    #[error("no entry called `{0}`")]
    UnknownEntry(String),
    /// A grid dimension is zero or too large.
    #[error("invalid grid {0:?}: dimensions must be 1 to (2147483647, 65535, 65535)")]
    Grid([u32; 3]),
    /// A block dimension is zero or the block is too large.
    #[error("invalid block {0:?}: dimensions must be 1 to (1024, 1024, 64), at most 1024 threads")]
    Block([u32; 3]),
    /// The block differs from the one that the entry was compiled for.
    #[error("block {block:?} does not fit the entry, which was compiled for {limit:?}")]
    BlockLimit {
        /// The requested block.
        block: [u32; 3],
        /// `.reqntid` or `.maxntid`.
        limit: [u32; 3],
    },
    /// More shared memory than a block may have.
    #[error("{0} bytes of shared memory exceed the limit of {1}")]
    Shared(u64, u64),
    /// The parameter block has the wrong size.
    #[error("{given} bytes of parameters given, the entry takes {wanted}")]
    Params {
        /// Bytes given.
        given: usize,
        /// Bytes that the entry takes.
        wanted: usize,
    },
    /// There is no room for the registers, local and shared memory of one block.
    #[error(
        "a block takes {needed} bytes of registers, local and shared memory: there is room for {room}"
    )]
    BlockMemory {
        /// Bytes of one block.
        needed: u64,
        /// Maximum bytes for the launch.
        room: u64,
    },
    /// The kernel itself failed.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

/// A kernel's fault: its kind, place and thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// The entry that ran.
    pub kernel: String,
    /// Line of the instruction in the module's text.
    pub line: u32,
    /// Line of the source, if the module has lines.
    pub source: Option<SourceLine>,
    /// Block index in the grid.
    pub block: [u32; 3],
    /// Thread index in the block.
    pub thread: [u32; 3],
    /// The accessed address, if any, as the kernel formed it, in the space that it named.
    pub address: Option<u64>,
    /// The access at this address.
    pub access: Option<FaultAccess>,
    /// Further explanation: for an address outside of the session's memory, the allocation that it missed.
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        KernelFault::from(self).fmt(f)
    }
}

impl std::error::Error for Fault {}

impl From<&Fault> for KernelFault {
    fn from(fault: &Fault) -> Self {
        let place = (fault.block, fault.thread);
        Self::new(fault.kind, &fault.kernel, fault.line, place)
            .at(fault.source.clone())
            .of(fault.access, fault.address)
            .because(&fault.detail)
    }
}

/// The reason why an operation on a session's memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// Not within one live allocation.
    #[error("{len} bytes at {addr:#x} are not within a live allocation")]
    IllegalAddress {
        /// First byte.
        addr: u64,
        /// Number of bytes.
        len: u64,
    },
    /// The address is not a multiple of the width.
    #[error("address {0:#x} is misaligned for this width")]
    Misaligned(u64),
    /// A fill width other than 1, 2 or 4.
    #[error("fill width must be 1, 2 or 4, not {0}")]
    Width(u32),
    /// The range overlaps another allocation or leaves the window.
    #[error("{len} bytes at {addr:#x} are not free in the session's window")]
    Occupied {
        /// First byte.
        addr: u64,
        /// Number of bytes.
        len: u64,
    },
    /// No allocation starts here.
    #[error("no allocation starts at {0:#x}")]
    NotAllocated(u64),
    /// The capacity, or the machine's memory, is not sufficient.
    #[error("out of memory: {0} bytes more do not fit")]
    OutOfMemory(u64),
}
