//! Packed descriptors of ops.
//!
//! A descriptor is 48 little-endian bytes: kind, flags, stream (16 bit), payload length (32 bit),
//! then 40 bytes by kind.

use crate::codec::column::{Fields, put};
use crate::id::ModuleHash;
use crate::launch_path::op::{Launch, Op};
use crate::limits;

/// Bytes of one packed op descriptor.
pub const DESCRIPTOR_BYTES: usize = 48;

/// Appends the 48 bytes of an op's descriptor. Allocates only where `out` must grow.
pub fn write_descriptor(op: &Op, stream: u16, payload: u32, out: &mut Vec<u8>) {
    let end = out.len() + DESCRIPTOR_BYTES;
    out.reserve(DESCRIPTOR_BYTES);
    out.extend_from_slice(&[kind(op), 0]);
    out.extend_from_slice(&stream.to_le_bytes());
    out.extend_from_slice(&payload.to_le_bytes());
    write_body(op, out);
    out.resize(end, 0);
}

/// The first byte of an op's descriptor.
fn kind(op: &Op) -> u8 {
    match op {
        Op::Alloc { .. } => 1,
        Op::Free { .. } => 2,
        Op::CopyIn { .. } => 3,
        Op::CopyOut { .. } => 4,
        Op::Copy { .. } => 5,
        Op::Set { .. } => 6,
        Op::LoadModule { .. } => 7,
        Op::UnloadModule { .. } => 8,
        Op::Launch(_) => 9,
        Op::Event { .. } => 10,
        Op::Sync => 11,
        Op::Symbols { .. } => 12,
    }
}

fn write_body(op: &Op, out: &mut Vec<u8>) {
    match *op {
        Op::Alloc { address, bytes } | Op::CopyOut { address, bytes } => {
            put(out, &[address, bytes]);
        }
        Op::Free { address } => put(out, &[address]),
        Op::CopyIn {
            address,
            bytes,
            transfer,
        } => put(out, &[address, bytes, transfer]),
        Op::Copy { to, from, bytes } => put(out, &[to, from, bytes]),
        Op::Set {
            address,
            count,
            value,
            width,
        } => {
            put(out, &[address, count]);
            put_words(out, &[value]);
            out.push(width);
        }
        Op::LoadModule { slot, hash } => {
            put_words(out, &[slot]);
            out.extend_from_slice(&hash.0);
        }
        Op::UnloadModule { slot } | Op::Symbols { slot } => put_words(out, &[slot]),
        Op::Launch(launch) => {
            let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
            let (module, function) = (launch.module, launch.function);
            let words = [module, function, gx, gy, gz, bx, by, bz, launch.shared];
            put_words(out, &words);
        }
        Op::Event { event, timed } => {
            put_words(out, &[event]);
            out.push(u8::from(timed));
        }
        Op::Sync => {}
    }
}

fn put_words<const N: usize>(out: &mut Vec<u8>, words: &[u32; N]) {
    out.extend_from_slice(words.map(u32::to_le_bytes).as_flattened());
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
