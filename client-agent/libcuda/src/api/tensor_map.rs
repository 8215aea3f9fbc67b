//! Tensor maps.

use std::ffi::{c_int, c_uint};

use bus_schemas::{TensorMap, TensorPart};

use crate::abi::{Count, InOut, List, Out};
use crate::guard::api;
use crate::status::{Result, Status};
use crate::tensor_map::{Encoded, encode, replaced};

/// Arguments common to both kinds. Fields for which a list is too short keep their defaults.
struct Common<'a> {
    kind: c_int,
    rank: Count<'a, c_uint>,
    address: u64,
    dims: List<'a, u64>,
    strides: List<'a, u64>,
    steps: List<'a, c_uint>,
    /// Modes: interleave, swizzle, promotion to L2, fill out of bounds.
    modes: [c_int; 4],
}

/// A number that is one byte in the recipe.
fn byte(value: impl TryInto<u8>) -> Result<u8> {
    value.try_into().map_err(|_| Status::INVALID_VALUE)
}

/// The first items of a list, followed by `rest`.
fn filled<const N: usize, T: Copy>(items: impl Iterator<Item = T>, rest: T) -> [T; N] {
    let mut all = [rest; N];
    all.iter_mut().zip(items).for_each(|(to, item)| *to = item);
    all
}

impl Common<'_> {
    /// Makes the recipe.
    fn map(&self, part: TensorPart) -> Result<TensorMap> {
        let rank = self.rank.whole();
        if !(1..=5).contains(&rank.number()) {
            return Err(Status::INVALID_VALUE);
        }
        let steps: [c_uint; 5] = filled(self.steps.items(rank)?, 1);
        let mut bytes = [0; 5];
        for (to, step) in bytes.iter_mut().zip(steps) {
            *to = byte(step)?;
        }
        let [interleave, swizzle, l2_promotion, fill] = self.modes;
        Ok(TensorMap {
            data_type: byte(self.kind)?,
            rank: byte(rank.number())?,
            interleave: byte(interleave)?,
            swizzle: byte(swizzle)?,
            l2_promotion: byte(l2_promotion)?,
            fill: byte(fill)?,
            address: self.address,
            dims: filled(self.dims.items(rank)?, 1),
            strides: filled(self.strides.items(rank.less(1))?, 0),
            steps: bytes,
            part,
        })
    }
}

/// The corner of a box of pixels.
fn corners<'a>(list: List<'a, c_int>, rank: Count<'a, c_uint>) -> Result<[i16; 3]> {
    let corner: [c_int; 3] = filled(list.items(rank.whole().less(2))?, 0);
    let mut narrow = [0; 3];
    for (to, side) in narrow.iter_mut().zip(corner) {
        *to = i16::try_from(side).map_err(|_| Status::INVALID_VALUE)?;
    }
    Ok(narrow)
}

fn narrow(value: c_uint) -> Result<u16> {
    u16::try_from(value).map_err(|_| Status::INVALID_VALUE)
}

api! {
    fn cuTensorMapEncodeTiled<'c>(
        map: Out<'_, Encoded>, kind: c_int, rank: Count<'c, c_uint>, address: u64, dims: List<'c, u64>,
        strides: List<'c, u64>, sides: List<'c, c_uint>, steps: List<'c, c_uint>, interleave: c_int,
        swizzle: c_int, promotion: c_int, fill: c_int,
    ) {
        let modes = [interleave, swizzle, promotion, fill];
        let common = Common { kind, rank, address, dims, strides, steps, modes };
        let sides: [c_uint; 5] = filled(sides.items(rank.whole())?, 1);
        let mut narrowed = [1; 5];
        for (to, side) in narrowed.iter_mut().zip(sides) {
            *to = narrow(side)?;
        }
        map.put(encode(&common.map(TensorPart::Tiled(narrowed))?)?)
    }

    fn cuTensorMapEncodeIm2col<'c>(
        map: Out<'_, Encoded>, kind: c_int, rank: Count<'c, c_uint>, address: u64, dims: List<'c, u64>,
        strides: List<'c, u64>, lower: List<'c, c_int>, upper: List<'c, c_int>, channels: c_uint,
        pixels: c_uint, steps: List<'c, c_uint>, interleave: c_int, swizzle: c_int, promotion: c_int,
        fill: c_int,
    ) {
        let modes = [interleave, swizzle, promotion, fill];
        let common = Common { kind, rank, address, dims, strides, steps, modes };
        let part = TensorPart::Im2col {
            lower: corners(lower, rank)?,
            upper: corners(upper, rank)?,
            channels: narrow(channels)?,
            pixels: narrow(pixels)?,
        };
        map.put(encode(&common.map(part)?)?)
    }

    fn cuTensorMapReplaceAddress(map: InOut<'_, Encoded>, address: u64)
        => map.put(replaced(map.take()?, address)?);
}
