//! Lookups of textures: the texels that are read, and the result from them.

use super::address::{self, Axis, WHOLE};
use super::texel::{self, Texel};
use bus_schemas::{AddressMode, Texture, TextureShape};

/// Coordinates of a lookup, along each dimension of the texture.
#[derive(Clone, Copy, Debug)]
pub(super) enum Coordinates {
    /// Indexes of texels.
    Integers([i32; 3]),
    /// Texels, or a range from 0 to 1.
    Floats([f32; 3]),
}

/// A lookup request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) dimensions: usize,
    /// The layer, if coordinates name one.
    pub(super) layer: u32,
    pub(super) at: Coordinates,
    /// Offsets in texels.
    pub(super) offsets: [i32; 3],
    /// The channel of the four texels to return.
    pub(super) gather: Option<u8>,
}

/// Result of a lookup. `fetch` reads the texel at a column, row and slice (or layer). `None` if
/// `fetch` returns `None`.
pub(super) fn sample(
    texture: &Texture,
    request: &Request,
    mut fetch: impl FnMut([u32; 3]) -> Option<Texel>,
) -> Option<Texel> {
    let axes = axes(texture, request);
    let layer = request.layer.min(address::layers(texture) - 1);
    let outside = outside(texture, request.dimensions);
    let mut corner = |corner: usize| {
        let mut place = [0, 0, layer];
        for (axis, place) in axes.iter().zip(&mut place).take(request.dimensions) {
            let Some(at) = axis.0.at[corner >> axis.1 & 1] else {
                return Some(outside);
            };
            *place = at;
        }
        fetch(place)
    };
    if let Some(channel) = request.gather {
        let channel = usize::from(channel & 3);
        // Counter-clockwise, from the lower left; rows go down.
        let mut texels = [0; 4];
        for (texel, at) in texels.iter_mut().zip([0b10, 0b11, 0b01, 0b00]) {
            *texel = corner(at)?[channel];
        }
        return Some(texels);
    }
    let axes = axes.map(|(axis, _)| axis);
    if axes.iter().all(|axis| axis.weight == 0) {
        return corner(0);
    }
    let axes = &axes[..request.dimensions];
    blend(axes, corner)
}

/// The texels along each axis, with the number of the axis.
fn axes(texture: &Texture, request: &Request) -> [(Axis, usize); 3] {
    let extents = address::extents(texture);
    let filtered =
        texture.linear && texel::floats(texture) && texture.shape != TextureShape::Linear;
    std::array::from_fn(|at| {
        let (extent, offset) = (extents[at], request.offsets[at]);
        let axis = match request.at {
            _ if at >= request.dimensions => Axis::default(),
            Coordinates::Integers(list) => {
                let mode = address::mode(texture, at, false);
                address::exact(i64::from(list[at]) + i64::from(offset), extent, mode)
            }
            Coordinates::Floats(list) => {
                let mode = address::mode(texture, at, texture.normalized);
                let along = (extent, texture.normalized);
                if filtered || request.gather.is_some() {
                    address::between(list[at], offset, along, mode)
                } else {
                    address::nearest(list[at], offset, along, mode)
                }
            }
        };
        (axis, at)
    })
}

/// The texel read outside the texture.
fn outside(texture: &Texture, dimensions: usize) -> Texel {
    let modes = &texture.modes[..dimensions];
    if texture.shape != TextureShape::Linear && modes.contains(&AddressMode::Border) {
        texel::border(texture)
    } else {
        texel::nothing(texture)
    }
}

/// The weighted mean of the texels around a coordinate; texels of weight zero are not read. Weights
/// and products with them are exact. Sums are rounded to doubles, and once to the result.
fn blend(axes: &[Axis], mut corner: impl FnMut(usize) -> Option<Texel>) -> Option<Texel> {
    let mut sums = [0_f64; 4];
    for at in 0..1_usize << axes.len() {
        let weights = axes.iter().enumerate().map(|(place, axis)| {
            if at >> place & 1 == 0 {
                WHOLE - axis.weight
            } else {
                axis.weight
            }
        });
        let weight: u32 = weights.product();
        if weight == 0 {
            continue;
        }
        let texel = corner(at)?;
        for (sum, bits) in sums.iter_mut().zip(texel) {
            *sum += f64::from(weight) * f64::from(f32::from_bits(bits));
        }
    }
    let all = f64::from(WHOLE.pow(axes.len() as u32));
    Some(sums.map(|sum| {
        let mean = (sum / all) as f32;
        if mean.is_nan() {
            0x7fff_ffff
        } else {
            mean.to_bits()
        }
    }))
}
