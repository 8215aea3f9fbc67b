//! One op: a unit of a session's program order.

use crate::id::ModuleHash;
use crate::limits;

/// Grid or block dimensions: x, y, z.
pub type Dim = [u32; 3];

/// A kernel launch. Its parameters are the op's payload, in the layout of the kernel's image.
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
    /// Blocks of a cluster: x, y, z. If all are 0, the launch names none and the kernel's image
    /// decides.
    pub cluster: [u8; 3],
    /// True if all blocks of the grid run at the same time, and may wait for each other.
    pub cooperative: bool,
    /// True if the cluster may have more blocks than every device of the architecture supports.
    pub non_portable: bool,
    /// True if the parameters contain recipes of tensor maps instead of the maps: see
    /// [`crate::TensorMap`].
    pub tensor_maps: bool,
}

/// One unit of a session's program order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Backs `[address, address + bytes)` with memory. The client chooses the address, a multiple
    /// of 256 inside the session's window.
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
    /// Copies from host to device. The bytes are the payload, or transfer `transfer` if that is not
    /// 0.
    CopyIn {
        /// Destination.
        address: u64,
        /// Bytes.
        bytes: u64,
        /// The staged transfer that holds the bytes, or 0.
        transfer: u64,
    },
    /// Copies from device to host; answered by a result.
    CopyOut {
        /// Source.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Copies from device to device, within the session.
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
    /// Loads the module with this hash into a slot. Its image was staged earlier by any session of
    /// the tenant on this worker, or as `transfer` of this session.
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
    /// Records an event. Its time is that at which all earlier ops of the session were done.
    Event {
        /// The session's event number.
        event: u32,
        /// True if the session's next result reports its time.
        timed: bool,
    },
    /// Answered by a result once every earlier op is done.
    Sync,
    /// Writes the tensor map of the payload's recipe: 128 bytes, as encoded by the device's driver.
    TensorMap {
        /// Destination, a multiple of 64.
        address: u64,
    },
    /// Answered by the addresses of a module's variables: a [`crate::Symbol`] for each name in
    /// `.global` or `.const` space, in the order of their first mention in the image.
    Symbols {
        /// The session's module slot.
        slot: u32,
    },
    /// Moves an allocation, with its bytes and its charge, to another address. No other session may
    /// use the allocation, and it must not be mapped. All numbers are multiples of
    /// [`crate::limits::MAP_ALIGN`].
    Move {
        /// The allocation's new first address.
        to: u64,
        /// The allocation's old first address.
        from: u64,
        /// Size of the allocation in bytes.
        bytes: u64,
        /// True to leave a map at the old address, as [`Op::Map`] makes one.
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
    /// True if the numbers of a move or a map are multiples of [`limits::MAP_ALIGN`], and for all
    /// other ops.
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

    /// True if the op is answered by a result.
    #[must_use]
    pub fn has_result(&self) -> bool {
        matches!(
            self,
            Self::Sync | Self::CopyOut { .. } | Self::Symbols { .. }
        )
    }
}
