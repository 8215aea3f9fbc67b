//! Lookups: texels of a texture object, for the lanes of an instruction.

use super::address;
use super::objects::{Objects, nowhere};
use super::sample::{self, Coordinates, Request};
use super::texel::{self, Texel};
use crate::decode::form::{Given, Inst, Place, Sample, Slot};
use crate::engine::context::Context;
use crate::lane_loop::{source, store};
use crate::lane_value::{LANES, Row};
use bus_schemas::Texture;
use std::ptr;

/// A texel that a lane reads; records a fault otherwise.
fn fetch(
    cx: &mut Context<'_>,
    (handle, texture): (u64, &Texture),
    place: [u32; 3],
    lane: u32,
) -> Option<Texel> {
    let Some(address) = address::texel(texture, place) else {
        nowhere(cx, handle, lane);
        return None;
    };
    let size = texture.element();
    let at = cx.resolve(Place::Global, address, (size, 1), false, lane)?;
    let mut bytes = [0; texel::BYTES];
    let size = (size as usize).min(texel::BYTES);
    // SAFETY: the check allows reading a whole element; the buffer has room for any.
    unsafe { ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), size) };
    Some(texel::read(texture, &bytes))
}

/// Registers of a lookup, by lanes.
struct Lookup<'c> {
    handles: &'c Row<u64>,
    layers: Option<&'c Row<u32>>,
    coordinates: [Option<&'c Row<u32>>; 3],
    offsets: [Option<&'c Row<u32>>; 3],
}

impl Lookup<'_> {
    /// The registers that an instruction names; `slots` follow those of the results.
    ///
    /// # Safety
    /// As [`crate::lane_loop::Kernel::run`].
    unsafe fn new(cx: &Context<'_>, handle: Slot, slots: &[Slot], sample: Sample) -> Self {
        let (layer, slots) = slots.split_at(usize::from(sample.geometry.layered));
        let (places, rest) = slots.split_at(usize::from(sample.geometry.dimensions));
        let count = if sample.offsets { places.len() } else { 0 };
        let rows = |slots: &[Slot]| {
            // SAFETY: decode gave the slots.
            std::array::from_fn(|at| slots.get(at).map(|slot| unsafe { source(cx, *slot) }))
        };
        Self {
            // SAFETY: the caller vouches for the slot.
            handles: unsafe { source(cx, handle) },
            // SAFETY: decode gave the slots.
            layers: layer.first().map(|slot| unsafe { source(cx, *slot) }),
            coordinates: rows(places),
            offsets: rows(&rest[..count]),
        }
    }

    /// A lane's request.
    fn request(&self, sample: Sample, lane: usize) -> Request {
        let at = self.coordinates.map(|row| row.map_or(0, |row| row[lane]));
        Request {
            dimensions: usize::from(sample.geometry.dimensions),
            layer: self.layers.map_or(0, |row| row[lane]),
            at: if sample.integers {
                Coordinates::Integers(at.map(|bits| bits as i32))
            } else {
                Coordinates::Floats(at.map(f32::from_bits))
            },
            offsets: self
                .offsets
                .map(|row| row.map_or(0, |row| row[lane] as i32)),
            gather: sample.gather,
        }
    }
}

/// A texel in the form of the instruction's registers.
fn given(given: Given, texture: &Texture, texel: Texel) -> Texel {
    let half = |bits: u32| {
        if texel::floats(texture) {
            texel::halved(bits)
        } else {
            bits & 0xffff
        }
    };
    match given {
        Given::Words => texel,
        Given::Halves => texel.map(half),
        Given::Pairs => {
            let [r, g, b, a] = texel.map(half);
            [g << 16 | r, a << 16 | b, 0, 0]
        }
    }
}

/// Looks up for the lanes of a mask.
///
/// # Safety
/// As [`crate::lane_loop::Kernel::run`].
pub(super) unsafe fn look_up(cx: &mut Context<'_>, inst: &Inst, sample: Sample, mask: u32) -> bool {
    let pool = &cx.operands[inst.target as usize..];
    let (results, rest) = pool.split_at(sample.given.registers());
    let mut rows = [[0_u32; LANES]; 4];
    // SAFETY: the caller vouches for the slot, and decode gave the others.
    let lookup = unsafe { Lookup::new(cx, inst.slots[0], rest, sample) };
    let mut objects = Objects::default();
    for lane in 0..LANES {
        if mask >> lane & 1 == 0 {
            continue;
        }
        let (handle, index) = (lookup.handles[lane], lane as u32);
        let Some(texture) = objects.find(cx, handle, false, index) else {
            return false;
        };
        let request = lookup.request(sample, lane);
        let read = |place| fetch(cx, (handle, &texture), place, index);
        let Some(texel) = sample::sample(&texture, &request, read) else {
            return false;
        };
        let texel = given(sample.given, &texture, texel);
        for (row, bits) in rows.iter_mut().zip(texel) {
            row[lane] = bits;
        }
    }
    for (slot, row) in results.iter().zip(&rows) {
        // SAFETY: decode gave the slots.
        unsafe { store(cx, *slot, mask, row) };
    }
    true
}
