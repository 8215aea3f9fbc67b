//! Loads from and stores to surfaces.

use super::address;
use super::objects::{Objects, nowhere};
use super::texel;
use crate::decode::form::{Bounds, Inst, Place, Slot, Surface};
use crate::engine::context::Context;
use crate::error::FaultKind;
use crate::lane_loop::{source, store};
use crate::lane_value::{LANES, Row};
use bus_schemas::Texture;
use std::ptr;

/// Maximum bytes of one access.
const BYTES: usize = 16;

/// Target of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    /// A byte of a row of a slice.
    At(u64, [u32; 2]),
    /// Outside, without a fault.
    Nowhere,
    /// Outside, with a fault.
    Fault,
}

/// Position of an access along one dimension, among `count` possible ones.
fn along(at: i64, count: u64, bounds: Bounds) -> Result<u64, Spot> {
    match (u64::try_from(at), bounds) {
        (Ok(at), _) if at < count => Ok(at),
        (_, Bounds::Trap) => Err(Spot::Fault),
        (_, Bounds::Clamp) if count > 0 && at < 0 => Ok(0),
        (_, Bounds::Clamp) if count > 0 => Ok(count - 1),
        _ => Err(Spot::Nowhere),
    }
}

/// Target of an access to a surface; `size` is its bytes within a row.
fn resolve(
    texture: &Texture,
    surface: &Surface,
    layer: u32,
    place: [i32; 3],
    size: u64,
) -> Result<Spot, Spot> {
    let bounds = surface.bounds;
    let [width, height, depth] = address::extents(texture);
    let element = texture.element();
    let x = i64::from(place[0]);
    let x = if surface.formatted {
        along(x, u64::from(width), bounds)? * element
    } else {
        // The last aligned position where the whole access is inside.
        let row = u64::from(width) * element;
        let starts = (row + 1).saturating_sub(size);
        match along(x, starts, bounds)? {
            at if u64::try_from(x) == Ok(at) => at,
            at => at / size * size,
        }
    };
    let dimensions = surface.geometry.dimensions;
    let rest = |axis: u8, count: u32| {
        if dimensions <= axis {
            return Ok(0);
        }
        let at = along(
            i64::from(place[usize::from(axis)]),
            u64::from(count),
            bounds,
        )?;
        Ok(at as u32)
    };
    let y = rest(1, height)?;
    let z = if surface.geometry.layered {
        let layers = u64::from(address::layers(texture));
        along(i64::from(layer), layers, bounds)? as u32
    } else {
        rest(2, depth)?
    };
    Ok(Spot::At(x, [y, z]))
}

/// The values of a lane, one behind the other.
///
/// # Safety
/// Decode gave the slots.
unsafe fn gathered(cx: &Context<'_>, slots: &[Slot], size: usize, lane: usize) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (slot, part) in slots.iter().zip(bytes.chunks_exact_mut(size)) {
        // SAFETY: the caller vouches for the slots.
        let value = unsafe { value(cx, *slot, size, lane) };
        part.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    bytes
}

/// # Safety
/// As [`gathered`].
unsafe fn value(cx: &Context<'_>, slot: Slot, size: usize, lane: usize) -> u64 {
    // SAFETY: the caller vouches for the slot; only values of 8 bytes are in the other bank.
    unsafe {
        if size == 8 {
            source::<u64>(cx, slot)[lane]
        } else {
            u64::from(source::<u32>(cx, slot)[lane])
        }
    }
}

/// The bytes that a lane stores.
///
/// # Safety
/// As [`gathered`].
unsafe fn stored(
    cx: &Context<'_>,
    texture: &Texture,
    (surface, slots): (&Surface, &[Slot]),
    lane: usize,
) -> [u8; BYTES] {
    let size = surface.ty.size() as usize;
    // SAFETY: forwarded from the caller.
    unsafe {
        if !surface.formatted {
            return gathered(cx, slots, size, lane);
        }
        let mut values = [0; 4];
        for (value, slot) in values.iter_mut().zip(slots) {
            *value = source::<u32>(cx, *slot)[lane];
        }
        texel::written(texture, &values)
    }
}

/// Host address of a lane's access; records a fault otherwise. The inner `None` means that there is
/// nothing to do.
fn find(
    cx: &mut Context<'_>,
    (handle, texture): (u64, &Texture),
    surface: &Surface,
    (layer, place): (u32, [i32; 3]),
    lane: u32,
) -> Option<Option<(*mut u8, usize)>> {
    let (size, align) = if surface.formatted {
        (texture.element(), 1)
    } else {
        let size = surface.ty.size() * u64::from(surface.lanes);
        (size, size)
    };
    let found = resolve(texture, surface, layer, place, size).unwrap_or_else(|outcome| outcome);
    match found {
        Spot::At(x, rest) => {
            let Some(address) = address::byte(texture, x, rest) else {
                nowhere(cx, handle, lane);
                return None;
            };
            let at = cx.resolve(Place::Global, address, (size, align), surface.write, lane)?;
            Some(Some((at, (size as usize).min(BYTES))))
        }
        Spot::Nowhere => Some(None),
        Spot::Fault => {
            let detail = "outside the surface";
            cx.note(FaultKind::IllegalAddress, Some(handle), lane, detail);
            None
        }
    }
}

/// Loads or stores for the lanes of a mask.
///
/// # Safety
/// As [`crate::lane_loop::Kernel::run`].
pub(super) unsafe fn access(
    cx: &mut Context<'_>,
    inst: &Inst,
    surface: Surface,
    mask: u32,
) -> bool {
    let pool = &cx.operands[inst.target as usize..];
    let (layer, rest) = pool.split_at(usize::from(surface.geometry.layered));
    let (places, rest) = rest.split_at(usize::from(surface.geometry.dimensions));
    let values = &rest[..usize::from(surface.lanes)];
    let mut rows = [[0_u64; LANES]; 4];
    let mut objects = Objects::default();
    // SAFETY: the caller vouches for the slot, decode gave the others; each copy follows its check.
    unsafe {
        let handles = source::<u64>(cx, inst.slots[0]);
        let row = |slot: &Slot| -> &Row<u32> { source(cx, *slot) };
        let layers = layer.first().map(row);
        let places: [Option<&Row<u32>>; 3] = std::array::from_fn(|at| places.get(at).map(row));
        for lane in 0..LANES {
            if mask >> lane & 1 == 0 {
                continue;
            }
            let (handle, index) = (handles[lane], lane as u32);
            let Some(texture) = objects.find(cx, handle, true, index) else {
                return false;
            };
            let place = places.map(|row| row.map_or(0, |row| row[lane] as i32));
            let at = (layers.map_or(0, |row| row[lane]), place);
            let Some(found) = find(cx, (handle, &texture), &surface, at, index) else {
                return false;
            };
            let Some((at, size)) = found else {
                continue;
            };
            if surface.write {
                let bytes = stored(cx, &texture, (&surface, values), lane);
                ptr::copy_nonoverlapping(bytes.as_ptr(), at, size);
            } else {
                let mut bytes = [0; BYTES];
                ptr::copy_nonoverlapping(at, bytes.as_mut_ptr(), size);
                scatter(&bytes, surface.ty.size() as usize, &mut rows, lane);
            }
        }
        if !surface.write {
            for (slot, row) in values.iter().zip(&rows) {
                if surface.ty.size() == 8 {
                    store(cx, *slot, mask, row);
                } else {
                    store(cx, *slot, mask, &row.map(|value| value as u32));
                }
            }
        }
    }
    true
}

/// Distributes contiguous values to the rows of a lane.
fn scatter(bytes: &[u8; BYTES], size: usize, rows: &mut [Row<u64>; 4], lane: usize) {
    for (row, part) in rows.iter_mut().zip(bytes.chunks_exact(size)) {
        let mut value = [0; 8];
        value[..size].copy_from_slice(part);
        row[lane] = u64::from_le_bytes(value);
    }
}
