//! Packed descriptors of ops.
//!
//! A descriptor is 48 little-endian bytes: kind, flags, stream (16 bit), payload length (32 bit),
//! then 40 bytes by kind. The flags of a launch are 1 if the last four of its bytes hold
//! attributes: the cluster's sides and a byte of bits. Workers of an earlier build know neither.

use crate::codec::column::{Fields, put};
use crate::id::ModuleHash;
use crate::launch_path::op::{Launch, LaunchAttributes, Op};
use crate::launch_path::tensor_map::{TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES};
use crate::limits;

/// Bytes of one packed op descriptor.
pub const DESCRIPTOR_BYTES: usize = 48;

/// Appends the 48 bytes of an op's descriptor. Allocates only if `out` must grow.
pub fn write_descriptor(op: &Op, stream: u16, payload: u32, out: &mut Vec<u8>) {
    let end = out.len() + DESCRIPTOR_BYTES;
    out.reserve(DESCRIPTOR_BYTES);
    out.extend_from_slice(&[kind(op), flags(op)]);
    out.extend_from_slice(&stream.to_le_bytes());
    out.extend_from_slice(&payload.to_le_bytes());
    write_body(op, out);
    out.resize(end, 0);
}

/// Returns the first byte of an op's descriptor.
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
        Op::Launch(_) => LAUNCH,
        Op::Event { .. } => 10,
        Op::Sync => 11,
        Op::Symbols { .. } => 12,
        Op::TensorMap { .. } => 13,
        Op::Move { .. } => 14,
        Op::Map { .. } => 15,
    }
}

/// The flag of a launch that has attributes.
const ATTRIBUTES: u8 = 1;

/// Returns the second byte of an op's descriptor.
fn flags(op: &Op) -> u8 {
    match op {
        Op::Launch(launch) if launch.attributes != LaunchAttributes::default() => ATTRIBUTES,
        _ => 0,
    }
}

/// Bits of a launch's last byte.
const COOPERATIVE: u8 = 1;
const NON_PORTABLE: u8 = 2;
const TENSOR_MAPS: u8 = 4;

/// Returns the last four bytes of a launch with attributes.
fn attribute_bytes(of: LaunchAttributes) -> [u8; 4] {
    let [x, y, z] = of.cluster;
    let bit = |set: bool, bit: u8| if set { bit } else { 0 };
    let bits = bit(of.cooperative, COOPERATIVE)
        | bit(of.non_portable, NON_PORTABLE)
        | bit(of.tensor_maps, TENSOR_MAPS);
    [x, y, z, bits]
}

/// Reads the attributes from a launch's last four bytes; `None` if an unknown bit is set.
fn read_attributes([x, y, z, bits]: [u8; 4]) -> Option<LaunchAttributes> {
    (bits & !(COOPERATIVE | NON_PORTABLE | TENSOR_MAPS) == 0).then_some(LaunchAttributes {
        cluster: [x, y, z],
        cooperative: bits & COOPERATIVE != 0,
        non_portable: bits & NON_PORTABLE != 0,
        tensor_maps: bits & TENSOR_MAPS != 0,
    })
}

fn write_body(op: &Op, out: &mut Vec<u8>) {
    match *op {
        Op::Alloc { address, bytes } | Op::CopyOut { address, bytes } => {
            put(out, &[address, bytes]);
        }
        Op::Free { address } | Op::TensorMap { address } => put(out, &[address]),
        Op::CopyIn {
            address,
            bytes,
            transfer,
        } => put(out, &[address, bytes, transfer]),
        Op::Copy { to, from, bytes } | Op::Map { to, from, bytes } => {
            put(out, &[to, from, bytes]);
        }
        Op::Move {
            to,
            from,
            bytes,
            keep,
        } => {
            put(out, &[to, from, bytes]);
            out.push(u8::from(keep));
        }
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
            out.extend_from_slice(&attribute_bytes(launch.attributes));
        }
        Op::Event { event, timed } => {
            put_words(out, &[event]);
            out.push(u8::from(timed));
        }
        Op::Sync => {}
    }
}

fn put_words<const N: usize>(out: &mut Vec<u8>, words: &[u32; N]) {
    let mut bytes = [[0; 4]; N];
    for (to, word) in bytes.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    out.extend_from_slice(bytes.as_flattened());
}

/// The kind of a launch.
const LAUNCH: u8 = 9;
const MISFIT: &str = "payload length does not fit the op";

/// Reads an op, its stream and the length of its payload; the error says what is invalid.
#[inline(always)]
pub(crate) fn read_descriptor(bytes: &[u8]) -> Result<(Op, u16, u32), &'static str> {
    const SHORT: &str = "descriptor too short";
    let mut fields = Fields(bytes);
    let kind = fields.u8().ok_or(SHORT)?;
    let flags = fields.u8().ok_or(SHORT)?;
    let stream = fields.u16().ok_or(SHORT)?;
    let payload = fields.u32().ok_or(SHORT)?;
    let op = match kind {
        LAUNCH => read_launch(flags, payload, &mut fields)?,
        _ => read_other(kind, payload, &mut fields)?,
    };
    Ok((op, stream, payload))
}

/// Reads a launch in place: programs send mostly launches, and a copy of an op costs as much as
/// reading it.
#[inline(always)]
fn read_launch(flags: u8, payload: u32, fields: &mut Fields<'_>) -> Result<Op, &'static str> {
    const UNKNOWN: &str = "unknown op kind";
    let words: [u8; 36] = fields.array().ok_or(UNKNOWN)?;
    let words = <[[u8; 4]; 9]>::try_from(words.as_chunks().0).map_err(|_| UNKNOWN)?;
    let [
        module,
        function,
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        shared,
    ] = words;
    let word = u32::from_le_bytes;
    let launch = Launch {
        module: word(module),
        function: word(function),
        grid: [word(grid_x), word(grid_y), word(grid_z)],
        block: [word(block_x), word(block_y), word(block_z)],
        shared: word(shared),
        attributes: match flags & ATTRIBUTES {
            0 => LaunchAttributes::default(),
            _ => fields.array().and_then(read_attributes).ok_or(UNKNOWN)?,
        },
    };
    if launch.module >= limits::MODULES || launch.function >= limits::FUNCTIONS {
        return Err("module slot or function index out of range");
    }
    if payload as usize > limits::PARAM_BYTES {
        return Err(MISFIT);
    }
    Ok(Op::Launch(launch))
}

#[inline(never)]
fn read_other(kind: u8, payload: u32, fields: &mut Fields<'_>) -> Result<Op, &'static str> {
    let op = read_body(kind, fields).ok_or("unknown op kind")?;
    let fits = match op {
        Op::CopyIn {
            bytes, transfer: 0, ..
        } => u64::from(payload) == bytes && payload as usize <= limits::INLINE_BYTES,
        Op::LoadModule { slot, .. } | Op::UnloadModule { slot } | Op::Symbols { slot }
            if slot >= limits::MODULES =>
        {
            return Err("module slot out of range");
        }
        Op::TensorMap { address } => {
            if !address.is_multiple_of(TENSOR_MAP_ALIGNMENT as u64) {
                return Err("a tensor map's address is no multiple of 64");
            }
            payload as usize == TENSOR_MAP_BYTES
        }
        Op::Set { width, .. } if !matches!(width, 1 | 2 | 4) => {
            return Err("element width is not 1, 2 or 4");
        }
        Op::Move { .. } | Op::Map { .. } if !op.is_of_whole_units() => {
            return Err("what is moved or mapped is no multiple of 2 MiB");
        }
        _ => payload == 0,
    };
    if fits { Ok(op) } else { Err(MISFIT) }
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
        10 => Op::Event {
            event: fields.u32()?,
            timed: fields.u8()? != 0,
        },
        11 => Op::Sync,
        12 => Op::Symbols {
            slot: fields.u32()?,
        },
        13 => Op::TensorMap {
            address: fields.u64()?,
        },
        14 => Op::Move {
            to: fields.u64()?,
            from: fields.u64()?,
            bytes: fields.u64()?,
            keep: fields.u8()? != 0,
        },
        15 => Op::Map {
            to: fields.u64()?,
            from: fields.u64()?,
            bytes: fields.u64()?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
