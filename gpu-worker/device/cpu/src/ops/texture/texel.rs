//! Conversion of an element's bytes to values.

use crate::decode::form::Round;
use crate::ops::soft;
use bus_schemas::{Channel, Texture};
use std::sync::LazyLock;

/// Maximum bytes of an element.
pub(super) const BYTES: usize = 16;

/// The bits of four channels, as in registers.
pub(super) type Texel = [u32; 4];

/// True if such elements exist: 8-bit channels are never floats.
pub(super) fn exists(texture: &Texture) -> bool {
    !(texture.channel == Channel::Float && texture.bits == 8)
}

/// True if a lookup returns floats.
pub(super) fn floats(texture: &Texture) -> bool {
    let scaled = texture.normalized_read && texture.bits < 32;
    texture.channel == Channel::Float || scaled || linearised(texture)
}

fn linearised(texture: &Texture) -> bool {
    texture.srgb && texture.channel == Channel::Unsigned && texture.bits == 8
}

/// Value of a missing channel: 1 for the fourth, 0 for others.
fn missing(texture: &Texture, channel: usize) -> u32 {
    match (channel, floats(texture)) {
        (3, true) => 1_f32.to_bits(),
        (3, false) => 1,
        _ => 0,
    }
}

/// A texel from the value of each existing channel.
fn complete(texture: &Texture, held: impl Fn(usize) -> u32) -> Texel {
    std::array::from_fn(|channel| {
        if channel < texture.channels as usize {
            held(channel)
        } else {
            missing(texture, channel)
        }
    })
}

/// The linear value of each sRGB value.
static LINEAR: LazyLock<[f32; 256]> = LazyLock::new(|| {
    std::array::from_fn(|value| {
        let value = value as f64 / 255.0;
        let linear = if value <= 0.040_45 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        };
        linear as f32
    })
});

/// The texel for an element's bytes.
pub(super) fn read(texture: &Texture, bytes: &[u8; BYTES]) -> Texel {
    complete(texture, |channel| {
        let at = channel * texture.bits as usize / 8;
        match texture.bits {
            8 => byte(texture, bytes[at], channel),
            16 => half(texture, u16::from_le_bytes([bytes[at], bytes[at + 1]])),
            _ => u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]),
        }
    })
}

fn byte(texture: &Texture, value: u8, channel: usize) -> u32 {
    if linearised(texture) && channel < 3 {
        return LINEAR[usize::from(value)].to_bits();
    }
    let signed = f32::from(value as i8) / f32::from(i8::MAX);
    match (texture.channel, floats(texture)) {
        (Channel::Signed, true) => signed.max(-1.0).to_bits(),
        (_, true) => (f32::from(value) / f32::from(u8::MAX)).to_bits(),
        (Channel::Signed, false) => i32::from(value as i8) as u32,
        (_, false) => u32::from(value),
    }
}

fn half(texture: &Texture, value: u16) -> u32 {
    let signed = f32::from(value as i16) / f32::from(i16::MAX);
    match (texture.channel, floats(texture)) {
        (Channel::Float, _) => {
            soft::convert(soft::F16, soft::F32, u64::from(value), Round::Nearest) as u32
        }
        (Channel::Signed, true) => signed.max(-1.0).to_bits(),
        (_, true) => (f32::from(value) / f32::from(u16::MAX)).to_bits(),
        (Channel::Signed, false) => i32::from(value as i16) as u32,
        (_, false) => u32::from(value),
    }
}

/// The border's colour, as a texel; integers are truncated to 32 bits.
pub(super) fn border(texture: &Texture) -> Texel {
    complete(texture, |channel| {
        let value = texture.border[channel];
        match (floats(texture), texture.channel) {
            (true, _) => value.to_bits(),
            (false, Channel::Signed) => value as i32 as u32,
            (false, _) => value as u32,
        }
    })
}

/// The texel read where there is no data.
pub(super) fn nothing(texture: &Texture) -> Texel {
    complete(texture, |_| 0)
}

/// A float of half precision.
pub(super) fn halved(bits: u32) -> u32 {
    soft::convert(soft::F32, soft::F16, u64::from(bits), Round::Nearest) as u32
}

/// The bytes of an element, from the channels of a formatted store. Channels are floats if elements
/// are floats or are read as floats, and integers otherwise. Missing channels are 0.
pub(super) fn written(texture: &Texture, values: &[u32]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let size = texture.bits as usize / 8;
    let places = bytes.chunks_exact_mut(size).take(texture.channels as usize);
    for (place, value) in places.zip(values) {
        place.copy_from_slice(&converted(texture, *value).to_le_bytes()[..size]);
    }
    bytes
}

/// The bits of one channel; integers are truncated to its width.
fn converted(texture: &Texture, value: u32) -> u32 {
    // Products are exact in doubles, so they are rounded once.
    let float = f64::from(f32::from_bits(value));
    let ones = |bits: u32| f64::from((1_u32 << bits) - 1);
    match (texture.channel, texture.bits) {
        (Channel::Float, 16) => halved(value),
        (Channel::Unsigned, bits @ (8 | 16)) if floats(texture) => {
            (float.clamp(0.0, 1.0) * ones(bits)).round_ties_even() as u32
        }
        (Channel::Signed, bits @ (8 | 16)) if floats(texture) => {
            (float.clamp(-1.0, 1.0) * ones(bits - 1)).round_ties_even() as i32 as u32
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(channel: Channel, bits: u32, channels: u32, normalized_read: bool) -> Texture {
        Texture {
            channel,
            bits,
            channels,
            normalized_read,
            ..Texture::default()
        }
    }

    fn element(list: &[u8]) -> [u8; BYTES] {
        std::array::from_fn(|at| list.get(at).copied().unwrap_or(0xee))
    }

    #[test]
    fn integers_are_extended_and_what_is_missing_filled() {
        let texture = of(Channel::Signed, 8, 2, false);
        assert_eq!(
            read(&texture, &element(&[0xff, 0x7f])),
            [u32::MAX, 127, 0, 1]
        );
        let texture = of(Channel::Unsigned, 16, 1, false);
        assert_eq!(read(&texture, &element(&[0xff, 0x80])), [0x80ff, 0, 0, 1]);
        let texture = of(Channel::Unsigned, 32, 4, true);
        assert!(!floats(&texture));
    }

    #[test]
    fn integers_stand_for_floats() {
        let texture = of(Channel::Signed, 8, 4, true);
        let read_back = read(&texture, &element(&[0x80, 0x81, 0x7f, 0])).map(f32::from_bits);
        assert_eq!(read_back, [-1.0, -1.0, 1.0, 0.0]);
        let texture = of(Channel::Unsigned, 16, 1, true);
        let read_back = read(&texture, &element(&[0xff, 0xff])).map(f32::from_bits);
        assert_eq!(read_back, [1.0, 0.0, 0.0, 1.0]);
        let texture = of(Channel::Float, 16, 2, false);
        let read_back = read(&texture, &element(&[0, 0x3c, 1, 0])).map(f32::from_bits);
        assert_eq!(read_back, [1.0, 2_f32.powi(-24), 0.0, 1.0]);
    }

    #[test]
    fn srgb_is_made_linear_but_for_the_fourth_channel() {
        let mut texture = of(Channel::Unsigned, 8, 4, true);
        texture.srgb = true;
        let [r, g, b, a] = read(&texture, &element(&[0, 188, 255, 188])).map(f32::from_bits);
        assert_eq!((r, b, a), (0.0, 1.0, 188.0 / 255.0));
        assert!((g - 0.502_886).abs() < 1e-5, "{g}");
    }

    #[test]
    fn what_is_written_is_read() {
        for channel in [Channel::Signed, Channel::Unsigned, Channel::Float] {
            for bits in [8, 16, 32] {
                for normalized in [false, true] {
                    let texture = of(channel, bits, 4, normalized);
                    if !exists(&texture) {
                        continue;
                    }
                    let values = match (floats(&texture), channel) {
                        (true, Channel::Unsigned) => [0.0_f32, 1.0, 1.0, 0.0].map(f32::to_bits),
                        (true, _) => [0.0_f32, 1.0, -1.0, 1.0].map(f32::to_bits),
                        (false, Channel::Signed) => [0, 5, (-7_i32) as u32, 127],
                        (false, _) => [0, 5, 200, 255],
                    };
                    assert_eq!(read(&texture, &written(&texture, &values)), values);
                }
            }
        }
    }
}
