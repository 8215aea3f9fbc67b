//! Packed descriptors of ops.
//!
//! A descriptor is 48 little-endian bytes: kind, flags, stream (16 bit), payload length (32 bit),
//! then 40 bytes by kind.

use crate::column::Fields;
use crate::id::ModuleHash;
use crate::limits;
use crate::op::{Launch, Op};

/// Bytes of one packed op descriptor.
pub const DESCRIPTOR_BYTES: usize = 48;

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

/// Reads an op, its stream and the length of its payload; what is wrong where it means nothing.
pub(crate) fn read_descriptor(bytes: &[u8]) -> Result<(Op, u16, u32), &'static str> {
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
