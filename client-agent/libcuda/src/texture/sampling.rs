//! Sampling: the modes in which a texture object is read.

use std::ffi::{c_int, c_uint};

use bus_schemas::{AddressMode, Channel, Texture, TextureShape};

use crate::status::{Result, Status};

/// Flags of a texture.
const READ_AS_INTEGER: c_uint = 0x01;
const NORMALIZED_COORDINATES: c_uint = 0x02;
const SRGB: c_uint = 0x10;

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sampling {
    modes: [c_int; 3],
    filter: c_int,
    flags: c_uint,
    anisotropy: c_uint,
    mipmap_filter: c_int,
    mipmap_bias: f32,
    mipmap_levels: [f32; 2],
    border: [f32; 4],
    reserved: [c_int; 12],
}

const _: () = assert!(size_of::<Sampling>() == 104);

/// An address mode. Without normalized coordinates, a mode that needs them becomes clamping.
fn mode(number: c_int, normalized: bool) -> Result<AddressMode> {
    Ok(match (number, normalized) {
        (0, true) => AddressMode::Wrap,
        (2, true) => AddressMode::Mirror,
        (0..=2, _) => AddressMode::Clamp,
        (3, _) => AddressMode::Border,
        _ => return Err(Status::INVALID_VALUE),
    })
}

impl Sampling {
    /// Applies the sampling to the data.
    pub(super) fn of(&self, data: Texture) -> Result<Texture> {
        let has = |flag| self.flags & flag != 0;
        let normalized = has(NORMALIZED_COORDINATES);
        let normalized_read =
            !has(READ_AS_INTEGER) && data.channel != Channel::Float && data.bits <= 16;
        let bytes = data.channel == Channel::Unsigned && data.bits == 8;
        let sampled = Texture {
            normalized_read,
            normalized,
            border: self.border,
            srgb: has(SRGB) && normalized_read && bytes,
            ..data
        };
        if data.shape == TextureShape::Linear {
            // Fetched by index: modes and filters have no effect.
            return Ok(sampled);
        }
        let linear = match self.filter {
            0 => false,
            1 if normalized_read || data.channel == Channel::Float => true,
            _ => return Err(Status::INVALID_VALUE),
        };
        let [x, y, z] = self.modes;
        let modes = [
            mode(x, normalized)?,
            mode(y, normalized)?,
            mode(z, normalized)?,
        ];
        Ok(Texture {
            linear,
            modes,
            ..sampled
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_is_as_cuda_says() {
        let floats = Texture {
            shape: TextureShape::Array,
            channel: Channel::Float,
            bits: 32,
            ..Texture::default()
        };
        let bytes = Texture {
            channel: Channel::Unsigned,
            bits: 8,
            ..floats
        };
        let plain = Sampling {
            modes: [0, 2, 3],
            filter: 1,
            flags: SRGB,
            ..Sampling::default()
        };
        let read = plain.of(bytes).expect("it is read as floats");
        assert!(read.normalized_read && read.linear && read.srgb && !read.normalized);
        let near = [AddressMode::Clamp, AddressMode::Clamp, AddressMode::Border];
        assert_eq!(read.modes, near);
        let normalized = Sampling {
            flags: NORMALIZED_COORDINATES,
            ..plain
        };
        let read = normalized.of(floats).expect("it is");
        assert!(!read.normalized_read && read.normalized && !read.srgb);
        let far = [AddressMode::Wrap, AddressMode::Mirror, AddressMode::Border];
        assert_eq!(read.modes, far);
        let integers = Sampling {
            flags: READ_AS_INTEGER,
            ..plain
        };
        assert_eq!(integers.of(bytes), Err(Status::INVALID_VALUE));
        let wide = Texture { bits: 32, ..bytes };
        assert_eq!(plain.of(wide), Err(Status::INVALID_VALUE));
        let unknown = Sampling {
            modes: [0, 4, 0],
            ..plain
        };
        assert_eq!(unknown.of(floats), Err(Status::INVALID_VALUE));
        let row = Texture {
            shape: TextureShape::Linear,
            ..bytes
        };
        let fetched = integers.of(row).expect("filters are of no use there");
        assert!(!fetched.normalized_read && !fetched.linear);
    }
}
