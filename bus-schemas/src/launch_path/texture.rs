//! The descriptor of a texture or surface object: 128 bytes of the session's memory. The object's
//! handle is their address, so a kernel can reach through it only memory that it could reach
//! anyway.

/// Size of a descriptor in bytes.
pub const TEXTURE_BYTES: usize = 128;

/// First bytes of a descriptor; data without them at a handle is not one.
const MAGIC: u32 = 0x5754_4558;

/// The mode of reads outside of the data, for one coordinate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum AddressMode {
    /// The data repeat; normalized coordinates only.
    Wrap = 0,
    /// The nearest element inside is read.
    #[default]
    Clamp = 1,
    /// The data are mirrored repeatedly; normalized coordinates only.
    Mirror = 2,
    /// The border's colour is read.
    Border = 3,
}

/// The type of a channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Channel {
    /// Unsigned integers.
    #[default]
    Unsigned = 0,
    /// Signed integers.
    Signed = 1,
    /// IEEE 754: half precision for channels of 16 bits, single for 32.
    Float = 2,
}

/// The shape of the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum TextureShape {
    /// One row of elements in device memory, fetched by index and not filtered.
    #[default]
    Linear = 0,
    /// Rows in device memory.
    Pitched = 1,
    /// An array of one, two or three dimensions; unused `height` and `depth` are 0.
    Array = 2,
    /// An array of layers, `depth` of them, each of one or two dimensions.
    Layered = 3,
}

/// A texture or surface object.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Texture {
    /// True for a surface, which is read and written by bytes, without sampling.
    pub surface: bool,
    /// The shape of the data.
    pub shape: TextureShape,
    /// Address of the data.
    pub address: u64,
    /// Elements of a row.
    pub width: u32,
    /// Rows; 0 for one dimension.
    pub height: u32,
    /// Slices or layers; 0 if none.
    pub depth: u32,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Bytes from one slice or layer to the next.
    pub slice: u64,
    /// Channels of an element: 1, 2 or 4.
    pub channels: u32,
    /// Bits of a channel: 8, 16 or 32.
    pub bits: u32,
    /// The type of a channel.
    pub channel: Channel,
    /// True if integers of 8 and 16 bits are read as floats from 0 (or -1) to 1.
    pub normalized_read: bool,
    /// The mode of each coordinate.
    pub modes: [AddressMode; 3],
    /// True if reads interpolate between neighbours.
    pub linear: bool,
    /// True if coordinates go from 0 to 1.
    pub normalized: bool,
    /// The value read outside with [`AddressMode::Border`].
    pub border: [f32; 4],
    /// True if unsigned channels of 8 bits are sRGB and read as linear floats.
    pub srgb: bool,
}

impl Texture {
    /// Returns the descriptor's bytes, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; TEXTURE_BYTES] {
        let flags = u32::from(self.surface)
            | u32::from(self.normalized_read) << 1
            | u32::from(self.linear) << 2
            | u32::from(self.normalized) << 3
            | u32::from(self.srgb) << 4;
        let words = [
            MAGIC,
            flags,
            self.shape as u32,
            self.width,
            self.height,
            self.depth,
            self.channels,
            self.bits,
            self.channel as u32,
        ];
        let modes = self.modes.map(|mode| mode as u32);
        let longs = [self.address, self.pitch, self.slice];
        let halves = longs.map(|long| [long as u32, (long >> 32) as u32]);
        let words = words.into_iter().chain(modes);
        let words = words.chain(self.border.map(f32::to_bits));
        let words = words.chain(halves.into_iter().flatten());
        let mut bytes = [0; TEXTURE_BYTES];
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// Reads a descriptor; `None` if the bytes are not one. Addresses and sizes are not validated,
    /// so each access through them must be checked.
    #[must_use]
    pub fn read(bytes: &[u8; TEXTURE_BYTES]) -> Option<Self> {
        let (words, _) = bytes.as_chunks();
        let word = |at: usize| {
            words
                .get(at / 4)
                .map_or(0, |word| u32::from_le_bytes(*word))
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let mode = |at| {
            Some(match word(at) {
                0 => AddressMode::Wrap,
                1 => AddressMode::Clamp,
                2 => AddressMode::Mirror,
                3 => AddressMode::Border,
                _ => return None,
            })
        };
        let (channels, bits, flags) = (word(24), word(28), word(4));
        if word(0) != MAGIC || !matches!(channels, 1 | 2 | 4) || !matches!(bits, 8 | 16 | 32) {
            return None;
        }
        Some(Self {
            surface: flags & 1 != 0,
            normalized_read: flags & 2 != 0,
            linear: flags & 4 != 0,
            normalized: flags & 8 != 0,
            srgb: flags & 16 != 0,
            shape: match word(8) {
                0 => TextureShape::Linear,
                1 => TextureShape::Pitched,
                2 => TextureShape::Array,
                3 => TextureShape::Layered,
                _ => return None,
            },
            width: word(12),
            height: word(16),
            depth: word(20),
            channels,
            bits,
            channel: match word(32) {
                0 => Channel::Unsigned,
                1 => Channel::Signed,
                2 => Channel::Float,
                _ => return None,
            },
            modes: [mode(36)?, mode(40)?, mode(44)?],
            border: [48, 52, 56, 60].map(|at| f32::from_bits(word(at))),
            address: long(64),
            pitch: long(72),
            slice: long(80),
        })
    }

    /// Returns the size of an element in bytes.
    #[must_use]
    pub fn element(&self) -> u64 {
        u64::from(self.channels * self.bits / 8)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_descriptor_is_read_as_it_was_written() {
        let texture = Texture {
            surface: false,
            shape: TextureShape::Pitched,
            address: 0x1000_0000_0100,
            width: 640,
            height: 480,
            depth: 0,
            pitch: 2_560,
            slice: 0,
            channels: 4,
            bits: 8,
            channel: Channel::Unsigned,
            normalized_read: true,
            modes: [AddressMode::Wrap, AddressMode::Mirror, AddressMode::Border],
            linear: true,
            normalized: true,
            border: [0.0, 0.25, -1.0, 1.0],
            srgb: true,
        };
        assert_eq!(Texture::read(&texture.to_bytes()), Some(texture));
        assert_eq!(texture.element(), 4);
        assert_eq!(Texture::read(&[0; TEXTURE_BYTES]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_descriptor_or_none(bytes in prop::array::uniform32(any::<u32>())) {
            let mut all = [0; TEXTURE_BYTES];
            for (at, word) in bytes.into_iter().enumerate() {
                all[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
            }
            let _ = Texture::read(&all);
            all[..4].copy_from_slice(&MAGIC.to_le_bytes());
            let _ = Texture::read(&all);
        }
    }
}
