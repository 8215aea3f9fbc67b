//! Tensor maps. A program gets a recipe instead of the map that a device's driver would encode,
//! without a wait. The worker encodes it when it reaches the device: among a launch's parameters,
//! or in a small copy.

use std::sync::atomic::{AtomicBool, Ordering};

use bus_schemas::{TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, TENSOR_MAP_PARAMETER, TensorMap};

use crate::current_context::current_device;
use crate::device::Device;
use crate::status::{Result, Status, note};
use crate::work;

/// Maximum bytes of a copy to the device that is searched for recipes.
const SEARCHED: usize = 64 << 10;

/// True once the program has made a recipe; before that, nothing is searched.
static MADE: AtomicBool = AtomicBool::new(false);

/// The last `CUtensorMapSwizzle` that devices of compute capability 9 support.
const HOPPER_SWIZZLES: u8 = 3;

/// `CUtensorMap`.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct Encoded(pub(crate) [u8; TENSOR_MAP_BYTES]);

/// Encodes a recipe in the form that the program keeps.
pub(crate) fn encode(map: &TensorMap) -> Result<Encoded> {
    if !current_device()?.properties.takes_clusters() {
        let why = "tensor maps need a worker with a GPU of compute capability 9.0 or later";
        note(Status::NOT_SUPPORTED, why.to_owned());
        return Err(Status::NOT_SUPPORTED);
    }
    if map.swizzle > HOPPER_SWIZZLES && current_device()?.properties.compute().0 < 10 {
        return Err(Status::INVALID_VALUE);
    }
    map.check().map_err(|why| {
        note(Status::INVALID_VALUE, format!("tensor map: {why}"));
        Status::INVALID_VALUE
    })?;
    MADE.store(true, Ordering::Relaxed);
    Ok(Encoded(map.write()))
}

/// Sets another address in a recipe.
pub(crate) fn replaced(map: Encoded, address: u64) -> Result<Encoded> {
    let map = TensorMap::read(&map.0).map_err(|why| {
        note(Status::INVALID_VALUE, format!("tensor map: {why}"));
        Status::INVALID_VALUE
    })?;
    encode(&TensorMap { address, ..map })
}

/// Offsets of recipes in bytes, at multiples of `step` from `first`.
fn places(bytes: &[u8], first: usize, step: usize) -> impl Iterator<Item = usize> {
    let last = bytes.len().saturating_sub(TENSOR_MAP_BYTES - 1);
    let all = (first..last).step_by(step);
    all.filter(|at| TensorMap::begins(&bytes[*at..]))
}

/// True if a launch's parameters contain recipes.
#[inline]
pub(crate) fn stands_in(params: &[u8]) -> bool {
    params.len() >= TENSOR_MAP_BYTES
        && MADE.load(Ordering::Relaxed)
        && places(params, 0, TENSOR_MAP_PARAMETER).next().is_some()
}

/// Turns recipes in a finished copy to the device into tensor maps there.
pub(crate) fn copied(device: &Device, to: u64, bytes: &[u8]) -> Result {
    if !MADE.load(Ordering::Relaxed) || !(TENSOR_MAP_BYTES..=SEARCHED).contains(&bytes.len()) {
        return Ok(());
    }
    let behind = (to % TENSOR_MAP_ALIGNMENT as u64) as usize;
    let first = behind.next_multiple_of(TENSOR_MAP_ALIGNMENT) - behind;
    for at in places(bytes, first, TENSOR_MAP_ALIGNMENT) {
        let Some(recipe) = bytes[at..].first_chunk::<TENSOR_MAP_BYTES>() else {
            break;
        };
        work::submit(device, |session| {
            session.put_tensor_map(to + at as u64, recipe)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bus_schemas::TensorPart;

    use super::*;

    #[test]
    fn recipes_are_found_where_they_are_aligned_on_the_device() {
        let map = TensorMap {
            data_type: 6,
            rank: 1,
            interleave: 0,
            swizzle: 0,
            l2_promotion: 0,
            fill: 0,
            address: 1 << 44,
            dims: [64, 1, 1, 1, 1],
            strides: [0; 4],
            steps: [1; 5],
            part: TensorPart::Tiled([64, 1, 1, 1, 1]),
        };
        let recipe = map.write();
        let mut bytes = vec![0; 512];
        bytes[16..144].copy_from_slice(&recipe);
        bytes[320..448].copy_from_slice(&recipe);
        let found = |first, step| places(&bytes, first, step).collect::<Vec<_>>();
        assert_eq!(found(0, 64), [320]);
        assert_eq!(found(16, 64), [16]);
        // Among parameters, a map's alignment depends on their address on the device, which is not
        // known here.
        assert_eq!(found(0, 16), [16, 320]);
        assert_eq!(places(&bytes[..447], 0, 64).count(), 0);
        assert_eq!(places(&[], 0, 16).count(), 0);
    }
}
