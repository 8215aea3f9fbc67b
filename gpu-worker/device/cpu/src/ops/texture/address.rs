//! The texels for a coordinate, and their addresses.
//!
//! Sizes and addresses come from the tenant's memory, so their sums are checked.

use bus_schemas::{AddressMode, Texture, TextureShape};

/// Maximum distance of a coordinate. Coordinates beyond it read the same, and with the limit sums
/// stay exact.
const FAR: f64 = (1_u64 << 48) as f64;
/// Denominator of a neighbour's weight.
pub(super) const WHOLE: u32 = 256;

/// The texels around a coordinate, if they are inside, and the weight of the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) at: [Option<u32>; 2],
    pub(super) weight: u32,
}

/// Elements, rows, and slices or layers; at least one for a missing dimension.
pub(super) fn extents(texture: &Texture) -> [u32; 3] {
    let (height, depth) = match texture.shape {
        TextureShape::Linear => (1, 1),
        _ => (texture.height.max(1), texture.depth.max(1)),
    };
    [texture.width, height, depth]
}

/// Number of layers.
pub(super) fn layers(texture: &Texture) -> u32 {
    match texture.shape {
        TextureShape::Layered => texture.depth.max(1),
        _ => 1,
    }
}

/// Address mode of an axis outside the texture. Repeating modes need coordinates from 0 to 1;
/// linear memory has a border.
pub(super) fn mode(texture: &Texture, axis: usize, normalized: bool) -> AddressMode {
    if texture.shape == TextureShape::Linear {
        return AddressMode::Border;
    }
    match texture.modes[axis] {
        AddressMode::Wrap | AddressMode::Mirror if !normalized => AddressMode::Clamp,
        mode => mode,
    }
}

/// A coordinate in texels; NaN is 0.
fn scaled(x: f32, extent: u32, normalized: bool) -> f64 {
    let x = if x.is_nan() { 0.0 } else { f64::from(x) };
    let scale = if normalized { f64::from(extent) } else { 1.0 };
    // Infinity times zero is NaN.
    let x = x * scale;
    if x.is_nan() { 0.0 } else { x.clamp(-FAR, FAR) }
}

/// The texel for an index, if there is one.
pub(super) fn inside(index: i64, extent: u32, mode: AddressMode) -> Option<u32> {
    let count = i64::from(extent);
    if count == 0 {
        return None;
    }
    let index = match mode {
        AddressMode::Wrap => index.rem_euclid(count),
        AddressMode::Mirror => {
            let place = index.rem_euclid(2 * count);
            place.min(2 * count - 1 - place)
        }
        AddressMode::Clamp => index.clamp(0, count - 1),
        AddressMode::Border => index,
    };
    u32::try_from(index).ok().filter(|index| *index < extent)
}

/// The one texel for an integer index.
pub(super) fn exact(index: i64, extent: u32, mode: AddressMode) -> Axis {
    Axis {
        at: [inside(index, extent, mode), None],
        weight: 0,
    }
}

/// The one texel that contains a coordinate.
pub(super) fn nearest(
    x: f32,
    offset: i32,
    (extent, normalized): (u32, bool),
    mode: AddressMode,
) -> Axis {
    let index = scaled(x, extent, normalized).floor() as i64;
    exact(index + i64::from(offset), extent, mode)
}

/// The two texels with centres around a coordinate; the weight has 8 fractional bits.
pub(super) fn between(
    x: f32,
    offset: i32,
    (extent, normalized): (u32, bool),
    mode: AddressMode,
) -> Axis {
    let x = scaled(x, extent, normalized) - 0.5;
    let low = x.floor();
    let index = low as i64 + i64::from(offset);
    Axis {
        at: [index, index + 1].map(|index| inside(index, extent, mode)),
        weight: ((x - low) * f64::from(WHOLE)).round() as u32,
    }
}

/// Address of a byte of a row, if valid.
pub(super) fn byte(texture: &Texture, x: u64, [y, z]: [u32; 2]) -> Option<u64> {
    let slice = u64::from(z).checked_mul(texture.slice)?;
    let row = u64::from(y).checked_mul(texture.pitch)?;
    let start = texture.address.checked_add(slice)?.checked_add(row)?;
    start.checked_add(x)
}

/// Address of a texel, if valid.
pub(super) fn texel(texture: &Texture, [x, y, z]: [u32; 3]) -> Option<u64> {
    byte(texture, u64::from(x) * texture.element(), [y, z])
}

#[cfg(test)]
mod tests {
    use super::*;
    use AddressMode::{Border, Clamp, Mirror, Wrap};
    use proptest::prelude::*;

    #[test]
    fn what_is_outside_is_found_by_the_mode() {
        let found = |mode| (-4..8).map(|at| inside(at, 3, mode)).collect::<Vec<_>>();
        let all = |list: [u32; 12]| list.map(Some).to_vec();
        assert_eq!(found(Wrap), all([2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]));
        assert_eq!(found(Mirror), all([2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1]));
        assert_eq!(found(Clamp), all([0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]));
        let border = found(Border);
        assert_eq!(border[4..7], [Some(0), Some(1), Some(2)]);
        assert!(border.iter().flatten().count() == 3);
        assert_eq!(inside(0, 0, Clamp), None);
    }

    #[test]
    fn weights_have_eight_bits() {
        let axis = between(1.25, 0, (8, false), Clamp);
        assert_eq!((axis.at, axis.weight), ([Some(0), Some(1)], 192));
        let close = between(1.499_9, 0, (8, false), Clamp);
        assert_eq!((close.at, close.weight), ([Some(0), Some(1)], WHOLE));
        let outer = between(0.25, 0, (8, false), Border);
        assert_eq!((outer.at, outer.weight), ([None, Some(0)], 192));
        assert_eq!(nearest(1.0, 0, (8, true), Mirror).at[0], Some(7));
        assert_eq!(nearest(0.25, -1, (8, true), Clamp).at[0], Some(1));
    }

    #[test]
    fn no_number_is_zero_and_nothing_is_too_far() {
        assert_eq!(nearest(f32::NAN, 0, (8, true), Clamp).at[0], Some(0));
        assert_eq!(nearest(f32::INFINITY, 0, (8, false), Clamp).at[0], Some(7));
        assert_eq!(nearest(f32::INFINITY, 0, (0, true), Wrap).at[0], None);
        assert_eq!(nearest(f32::NEG_INFINITY, 0, (8, true), Border).at[0], None);
    }

    proptest! {
        #[test]
        fn whatever_is_found_is_inside(
            bits: u32, offset: i32, extent: u32, normalized: bool, mode in 0_usize..4,
        ) {
            let mode = [Wrap, Clamp, Mirror, Border][mode];
            let x = f32::from_bits(bits);
            for axis in [
                between(x, offset, (extent, normalized), mode),
                nearest(x, offset, (extent, normalized), mode),
            ] {
                prop_assert!(axis.at.into_iter().flatten().all(|at| at < extent));
                prop_assert!(axis.weight <= WHOLE);
            }
        }
    }
}
