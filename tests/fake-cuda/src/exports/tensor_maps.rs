//! Tensor maps. Their encoding is not NVIDIA's: it begins with a mark and holds address and rank.

use super::abi::Out;
use crate::codes::INVALID_VALUE;
use crate::driver::{CallKind, call};

/// Bytes of a map, and the alignment of its place and of its tensor.
const BYTES: usize = 128;
const PLACE: u64 = 64;
const TENSOR: u64 = 16;
/// Maximum number of dimensions.
const DIMENSIONS: u32 = 5;

fn encode(name: &'static str, to: Out<[u8; BYTES]>, rank: u32, tensor: u64, least: u32) -> u32 {
    call(CallKind::new(name).of_device(), |_, _| {
        let aligned = to.address().is_multiple_of(PLACE) && tensor.is_multiple_of(TENSOR);
        if !aligned || !(least..=DIMENSIONS).contains(&rank) {
            return Err(INVALID_VALUE);
        }
        let mut map = [0; BYTES];
        map[..8].copy_from_slice(b"fake-map");
        map[8..16].copy_from_slice(&tensor.to_le_bytes());
        map[16..20].copy_from_slice(&rank.to_le_bytes());
        to.put(map)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuTensorMapEncodeTiled(
    to: Out<[u8; BYTES]>,
    _kind: u32,
    rank: u32,
    tensor: u64,
    _dims: u64,
    _strides: u64,
    _sides: u64,
    _steps: u64,
    _interleave: u32,
    _swizzle: u32,
    _promotion: u32,
    _fill: u32,
) -> u32 {
    encode("cuTensorMapEncodeTiled", to, rank, tensor, 1)
}

#[unsafe(no_mangle)]
extern "C" fn cuTensorMapEncodeIm2col(
    to: Out<[u8; BYTES]>,
    _kind: u32,
    rank: u32,
    tensor: u64,
    _dims: u64,
    _strides: u64,
    _lower: u64,
    _upper: u64,
    _channels: u32,
    _pixels: u32,
    _steps: u64,
    _interleave: u32,
    _swizzle: u32,
    _promotion: u32,
    _fill: u32,
) -> u32 {
    encode("cuTensorMapEncodeIm2col", to, rank, tensor, 3)
}
