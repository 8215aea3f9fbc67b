//! Ops and their packed descriptors.
//!
//! A descriptor is 48 little-endian bytes: kind, flags, stream (16 bit), payload length (32 bit),
//! then 40 bytes by kind. Payloads (parameters, inline copies) follow one another in the blob.

use crate::column::Fields;
use crate::id::{KernelKey, ModuleHash};
use crate::limits;

/// Bytes of one packed op descriptor.
pub const DESCRIPTOR_BYTES: usize = 48;

/// Grid or block dimensions: x, y, z.
pub type Dim = [u32; 3];

/// Why bytes are not a batch of ops.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The descriptor column's length does not match the op count.
    #[error("{bytes} descriptor bytes do not hold {count} ops")]
    Length {
        /// Bytes there are.
        bytes: usize,
        /// Ops announced.
        count: u32,
    },
    /// An op of a kind or with a field that has no meaning.
    #[error("op {index} of the batch is malformed: {why}")]
    Op {
        /// Index in the batch, from 0.
        index: u32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The blob is shorter or longer than the payloads it should hold.
    #[error("the blob has {have} bytes, the ops need {need}")]
    Blob {
        /// Bytes there are.
        have: usize,
        /// Bytes the payload lengths add up to.
        need: u64,
    },
}

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
    /// Answered by the addresses of a module's variables: a [`crate::Symbol`] for each name in
    /// `.global` or `.const` space, in the order in which the image first names them.
    Symbols {
        /// The session's module slot.
        slot: u32,
    },
}

/// An op with its stream and payload, borrowed from a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpRef<'a> {
    /// The op.
    pub op: Op,
    /// The session's stream number; 0 is the default stream.
    pub stream: u16,
    /// Parameters of a launch, bytes of an inline copy; else empty.
    pub payload: &'a [u8],
}

impl Op {
    /// Whether a slice ends behind this op and its batch is flushed at once.
    #[must_use]
    pub fn is_sync(&self) -> bool {
        self.has_result()
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

/// Appends the 48 bytes of an op's descriptor. Allocates only where `out` must grow.
pub fn write_descriptor(op: &Op, stream: u16, payload: u32, out: &mut Vec<u8>) {
    let mut bytes = [0_u8; DESCRIPTOR_BYTES];
    bytes[2..4].copy_from_slice(&stream.to_le_bytes());
    bytes[4..8].copy_from_slice(&payload.to_le_bytes());
    let mut at = 8;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    let kind = match *op {
        Op::Alloc { address, bytes } => {
            put(&address.to_le_bytes());
            put(&bytes.to_le_bytes());
            1
        }
        Op::Free { address } => {
            put(&address.to_le_bytes());
            2
        }
        Op::CopyIn {
            address,
            bytes,
            transfer,
        } => {
            [address, bytes, transfer]
                .iter()
                .for_each(|field| put(&field.to_le_bytes()));
            3
        }
        Op::CopyOut { address, bytes } => {
            [address, bytes]
                .iter()
                .for_each(|field| put(&field.to_le_bytes()));
            4
        }
        Op::Copy { to, from, bytes } => {
            [to, from, bytes]
                .iter()
                .for_each(|field| put(&field.to_le_bytes()));
            5
        }
        Op::Set {
            address,
            count,
            value,
            width,
        } => {
            [address, count]
                .iter()
                .for_each(|field| put(&field.to_le_bytes()));
            put(&value.to_le_bytes());
            put(&[width]);
            6
        }
        Op::LoadModule { slot, hash } => {
            put(&slot.to_le_bytes());
            put(&hash.0);
            7
        }
        Op::UnloadModule { slot } => {
            put(&slot.to_le_bytes());
            8
        }
        Op::Launch(launch) => {
            put(&launch.module.to_le_bytes());
            put(&launch.function.to_le_bytes());
            launch
                .grid
                .iter()
                .chain(&launch.block)
                .for_each(|field| put(&field.to_le_bytes()));
            put(&launch.shared.to_le_bytes());
            9
        }
        Op::Event { event, timed } => {
            put(&event.to_le_bytes());
            put(&[u8::from(timed)]);
            10
        }
        Op::Sync => 11,
        Op::Symbols { slot } => {
            put(&slot.to_le_bytes());
            12
        }
    };
    bytes[0] = kind;
    out.extend_from_slice(&bytes);
}

fn read_descriptor(bytes: &[u8]) -> Result<(Op, u16, u32), &'static str> {
    const SHORT: &str = "descriptor too short";
    let mut fields = Fields(bytes);
    let kind = fields.u8().ok_or(SHORT)?;
    let _flags = fields.u8().ok_or(SHORT)?;
    let stream = fields.u16().ok_or(SHORT)?;
    let payload = fields.u32().ok_or(SHORT)?;
    let op = read_body(kind, &mut fields).ok_or("unknown op kind")?;
    let inline = match op {
        Op::Launch(launch) => {
            if launch.module >= limits::MODULES || launch.function >= limits::FUNCTIONS {
                return Err("module slot or function index out of range");
            }
            payload as usize <= limits::PARAM_BYTES
        }
        Op::CopyIn {
            bytes, transfer: 0, ..
        } => u64::from(payload) == bytes && payload as usize <= limits::INLINE_BYTES,
        Op::LoadModule { slot, .. } | Op::UnloadModule { slot } | Op::Symbols { slot }
            if slot >= limits::MODULES =>
        {
            return Err("module slot out of range");
        }
        Op::Set { width, .. } if !matches!(width, 1 | 2 | 4) => {
            return Err("element width is not 1, 2 or 4");
        }
        _ => payload == 0,
    };
    if inline {
        Ok((op, stream, payload))
    } else {
        Err("payload length does not fit the op")
    }
}

fn read_body(kind: u8, fields: &mut Fields<'_>) -> Option<Op> {
    Some(match kind {
        1 => Op::Alloc {
            address: fields.u64()?,
            bytes: fields.u64()?,
        },
        2 => Op::Free {
            address: fields.u64()?,
        },
        3 => Op::CopyIn {
            address: fields.u64()?,
            bytes: fields.u64()?,
            transfer: fields.u64()?,
        },
        4 => Op::CopyOut {
            address: fields.u64()?,
            bytes: fields.u64()?,
        },
        5 => Op::Copy {
            to: fields.u64()?,
            from: fields.u64()?,
            bytes: fields.u64()?,
        },
        6 => Op::Set {
            address: fields.u64()?,
            count: fields.u64()?,
            value: fields.u32()?,
            width: fields.u8()?,
        },
        7 => Op::LoadModule {
            slot: fields.u32()?,
            hash: ModuleHash(fields.array()?),
        },
        8 => Op::UnloadModule {
            slot: fields.u32()?,
        },
        9 => Op::Launch(Launch {
            module: fields.u32()?,
            function: fields.u32()?,
            grid: [fields.u32()?, fields.u32()?, fields.u32()?],
            block: [fields.u32()?, fields.u32()?, fields.u32()?],
            shared: fields.u32()?,
        }),
        10 => Op::Event {
            event: fields.u32()?,
            timed: fields.u8()? != 0,
        },
        11 => Op::Sync,
        12 => Op::Symbols {
            slot: fields.u32()?,
        },
        _ => return None,
    })
}

/// The ops of one batch, checked once when made, then read without allocation.
#[derive(Debug, Clone, Copy)]
pub struct Ops<'a> {
    descriptors: &'a [u8],
    blob: &'a [u8],
}

impl<'a> Ops<'a> {
    /// Checks a batch's columns: the count, every op, and that the payloads fill the blob exactly.
    ///
    /// # Errors
    /// [`OpError`] with the first thing that is wrong.
    pub fn new(count: u32, descriptors: &'a [u8], blob: &'a [u8]) -> Result<Self, OpError> {
        if descriptors.len() as u64 != u64::from(count) * DESCRIPTOR_BYTES as u64 {
            return Err(OpError::Length {
                bytes: descriptors.len(),
                count,
            });
        }
        let mut need = 0_u64;
        for (index, bytes) in (0..).zip(descriptors.chunks_exact(DESCRIPTOR_BYTES)) {
            let (_, _, payload) =
                read_descriptor(bytes).map_err(|why| OpError::Op { index, why })?;
            need += u64::from(payload);
        }
        if need != blob.len() as u64 {
            return Err(OpError::Blob {
                have: blob.len(),
                need,
            });
        }
        Ok(Self { descriptors, blob })
    }

    /// The ops of columns that [`Ops::new`] has found right before: a second look costs as much as
    /// the first. Iterating over others panics.
    #[must_use]
    pub fn checked_before(descriptors: &'a [u8], blob: &'a [u8]) -> Self {
        Self { descriptors, blob }
    }

    /// Number of ops.
    #[must_use]
    pub fn len(&self) -> usize {
        self.descriptors.len() / DESCRIPTOR_BYTES
    }

    /// Whether there are no ops.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// The ops in order.
    pub fn iter(&self) -> impl Iterator<Item = OpRef<'a>> + use<'a> {
        let mut blob = self.blob;
        self.descriptors
            .chunks_exact(DESCRIPTOR_BYTES)
            .map(move |bytes| {
                let (op, stream, length) =
                    read_descriptor(bytes).expect("every op was checked when the batch was made");
                let (payload, rest) = blob.split_at(length as usize);
                blob = rest;
                OpRef {
                    op,
                    stream,
                    payload,
                }
            })
    }
}

/// Fingerprint of (module hash, function name): computed once per function, extended by each
/// launch's dimensions to its kernel key without touching memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FunctionFingerprint(pub u64);

impl FunctionFingerprint {
    /// The first 8 bytes (little-endian) of BLAKE3(module hash ‖ function name).
    #[must_use]
    pub fn new(module: &ModuleHash, function: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&module.0);
        hasher.update(function.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Self(u64::from_le_bytes(first))
    }

    /// The key of a launch: SplitMix64 over the fingerprint and, one after the other, grid x, y,
    /// z, block x, y, z and shared bytes.
    #[must_use]
    pub fn key(self, grid: Dim, block: Dim, shared: u32) -> KernelKey {
        let pairs = [
            u64::from(grid[0]) | u64::from(grid[1]) << 32,
            u64::from(grid[2]) | u64::from(block[0]) << 32,
            u64::from(block[1]) | u64::from(block[2]) << 32,
            u64::from(shared),
        ];
        KernelKey(
            pairs
                .into_iter()
                .fold(self.0, |state, pair| mix(state ^ pair)),
        )
    }
}

/// One step of SplitMix64.
pub(crate) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
