//! One op: a unit of a session's program order.

use crate::id::ModuleHash;
use crate::limits;

/// Grid or block dimensions: x, y, z.
pub type Dim = [u32; 3];

/// A kernel launch. Its parameters are the op's payload, laid out as the kernel's image says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// The session's module slot, set by [`Op::LoadModule`].
    pub module: u32,
    /// Index of the entry among the module's entries in source order.
    pub function: u32,
    /// Blocks.
    pub grid: Dim,
    /// Threads of a block.
    pub block: Dim,
    /// Dynamic shared bytes.
    pub shared: u32,
    /// Attributes beyond the shape.
    pub attributes: LaunchAttributes,
}

/// Attributes of a launch beyond its shape; the default is a plain launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaunchAttributes {
    /// Blocks of a cluster: x, y, z. All 0 where the launch names none; then the kernel's image says.
    pub cluster: [u8; 3],
    /// All blocks of the grid run at a time, and may wait for one another.
    pub cooperative: bool,
    /// The cluster may have more blocks than every device of the architecture takes.
    pub non_portable: bool,
    /// Recipes of tensor maps stand among the parameters, in place of the maps: see [`crate::TensorMap`].
    pub tensor_maps: bool,
}

/// One unit of a session's program order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Backs `[address, address + bytes)` with memory. The client picks the address, a multiple
    /// of 256, inside the session's window.
    Alloc {
        /// First device address.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Frees the allocation that begins at `address`.
    Free {
        /// First device address.
        address: u64,
    },
    /// Host to device. The bytes are the payload, or transfer `transfer` where that is not 0.
    CopyIn {
        /// Destination.
        address: u64,
        /// Bytes.
        bytes: u64,
        /// The staged transfer that holds the bytes, or 0.
        transfer: u64,
    },
    /// Device to host; answered by a result.
    CopyOut {
        /// Source.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Device to device, within the session.
    Copy {
        /// Destination.
        to: u64,
        /// Source.
        from: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Sets `count` elements of `width` bytes (1, 2 or 4) to `value`.
    Set {
        /// Destination, aligned to `width`.
        address: u64,
        /// Elements.
        count: u64,
        /// The element's bits.
        value: u32,
        /// Bytes of an element.
        width: u8,
    },
    /// Puts the module of this hash into a slot. Its image was staged before by some session of
    /// the tenant on this worker, or as `transfer` of this one.
    LoadModule {
        /// The session's slot.
        slot: u32,
        /// The image's hash.
        hash: ModuleHash,
    },
    /// Empties a slot.
    UnloadModule {
        /// The session's slot.
        slot: u32,
    },
    /// Runs a kernel.
    Launch(Launch),
    /// Records an event: its time is when all earlier ops of the session were done.
    Event {
        /// The session's event number.
        event: u32,
        /// Whether its time is told, with the session's next result.
        timed: bool,
    },
    /// Answered by a result once every earlier op is done.
    Sync,
    /// Writes the tensor map of the payload's recipe, 128 bytes as the device's driver encodes it.
    TensorMap {
        /// Destination, a multiple of 64.
        address: u64,
    },
    /// Answered by the addresses of a module's variables: a [`crate::Symbol`] for each name in
    /// `.global` or `.const` space, in the order in which the image first names them.
    Symbols {
        /// The session's module slot.
        slot: u32,
    },
    /// Moves an allocation, with its bytes and its charge, to another address. No other session uses
    /// the allocation, and it is mapped nowhere. All numbers are multiples of
    /// [`crate::limits::MAP_ALIGN`].
    Move {
        /// Its new first address.
        to: u64,
        /// Its old first address.
        from: u64,
        /// Its bytes.
        bytes: u64,
        /// Leaves a map at the old address, as [`Op::Map`] makes one.
        keep: bool,
    },
    /// Maps an allocation at a second address, until [`Op::Free`] of that address or of the allocation.
    /// A map takes no memory. All numbers are multiples of [`crate::limits::MAP_ALIGN`].
    Map {
        /// First address of the map.
        to: u64,
        /// First address of the allocation.
        from: u64,
        /// Bytes of the allocation.
        bytes: u64,
    },
}

/// An op with its stream and payload, borrowed from a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpRef<'a> {
    /// The op.
    pub op: Op,
    /// The session's stream number; 0 is the default stream.
    pub stream: u16,
    /// Parameters of a launch, bytes of an inline copy, a tensor map's recipe; else empty.
    pub payload: &'a [u8],
}

impl Op {
    /// Whether a slice ends behind this op and its batch is flushed at once.
    #[must_use]
    pub fn is_sync(&self) -> bool {
        self.has_result()
    }

    /// Tells whether the numbers of a move or a map are multiples of [`limits::MAP_ALIGN`]; true for ops of
    /// other kinds.
    #[must_use]
    pub fn is_of_whole_units(&self) -> bool {
        match *self {
            Self::Move {
                to, from, bytes, ..
            }
            | Self::Map { to, from, bytes } => {
                bytes > 0 && (to | from | bytes).is_multiple_of(limits::MAP_ALIGN)
            }
            _ => true,
        }
    }

    /// Whether the op is answered by a result.
    #[must_use]
    pub fn has_result(&self) -> bool {
        matches!(
            self,
            Self::Sync | Self::CopyOut { .. } | Self::Symbols { .. }
        )
    }
}
