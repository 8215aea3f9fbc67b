//! Results of texture lookups, computed texel by texel without the engine.

use crate::warp::{BASE, Random};
use bus_schemas::{AddressMode, Channel, Texture, TextureShape};

/// Offset of the texels in the buffer; the descriptor comes first.
pub(crate) const DATA: usize = 1024;

/// A texture and its buffer.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) texture: Texture,
    pub(crate) buffer: Vec<u8>,
}

impl Image {
    /// Random texels: columns, rows, slices or layers; channels, their bits and type.
    pub(crate) fn random(
        shape: TextureShape,
        sizes: [u32; 3],
        (channels, bits, channel): (u32, u32, Channel),
        numbers: &mut Random,
    ) -> Self {
        let pitch = u64::from((sizes[0] * channels * bits / 8).next_multiple_of(16) + 16);
        let texture = Texture {
            shape,
            address: BASE + DATA as u64,
            width: sizes[0],
            height: sizes[1],
            depth: sizes[2],
            pitch,
            slice: pitch * u64::from(sizes[1].max(1)) + 32,
            channels,
            bits,
            channel,
            border: [0.25, -3.0, 7.0, 0.5],
            ..Texture::default()
        };
        let end = DATA + (texture.slice * u64::from(sizes[2].max(1))) as usize;
        let mut buffer = vec![0; end];
        for word in buffer[DATA..].chunks_mut(4) {
            let bits = match (channel, bits) {
                (Channel::Float, 32) => ((numbers.below(4096) as f32 - 2048.0) / 512.0).to_bits(),
                (Channel::Float, _) => numbers.word() & 0xbbff_bbff,
                _ => numbers.word(),
            };
            word.copy_from_slice(&bits.to_le_bytes()[..word.len()]);
        }
        let mut image = Self { texture, buffer };
        image.describe();
        image
    }

    /// Writes the descriptor to the buffer.
    pub(crate) fn describe(&mut self) {
        let bytes = self.texture.to_bytes();
        self.buffer[..bytes.len()].copy_from_slice(&bytes);
    }

    /// True if lookups return floats.
    pub(crate) fn floats(&self) -> bool {
        let t = &self.texture;
        t.channel == Channel::Float || t.normalized_read && t.bits != 32
    }

    /// The channels of a texel: floats, or integers.
    fn texel(&self, x: usize, y: usize, z: usize) -> [f64; 4] {
        let t = &self.texture;
        let size = t.bits as usize / 8;
        let at = DATA + z * t.slice as usize + y * t.pitch as usize + x * t.element() as usize;
        let mut out = [0.0, 0.0, 0.0, 1.0];
        for (channel, out) in out.iter_mut().enumerate().take(t.channels as usize) {
            let bytes = &self.buffer[at + channel * size..][..size];
            let bits = bytes
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u64::from(*byte));
            *out = self.value(bits);
        }
        out
    }

    fn value(&self, bits: u64) -> f64 {
        let t = &self.texture;
        let span = 2_f64.powi(t.bits as i32);
        let signed = bits as f64 - if bits as f64 * 2.0 >= span { span } else { 0.0 };
        match (t.channel, t.bits) {
            (Channel::Float, 32) => f64::from(f32::from_bits(bits as u32)),
            (Channel::Float, _) => {
                let (sign, exponent, rest) = (bits >> 15, bits >> 10 & 31, (bits & 1023) as f64);
                let value = match exponent {
                    0 => rest * 2_f64.powi(-24),
                    _ => (rest + 1024.0) * 2_f64.powi(exponent as i32 - 25),
                };
                if sign == 1 { -value } else { value }
            }
            (Channel::Signed, _) if self.floats() => (signed / (span / 2.0 - 1.0)).max(-1.0),
            (Channel::Unsigned, _) if self.floats() => bits as f64 / (span - 1.0),
            (Channel::Signed, _) => signed,
            (Channel::Unsigned, _) => bits as f64,
        }
    }

    /// The border's colour.
    fn outside(&self) -> [f64; 4] {
        let t = &self.texture;
        let mut out = [0.0, 0.0, 0.0, 1.0];
        for (channel, out) in out.iter_mut().enumerate().take(t.channels as usize) {
            let value = f64::from(t.border[channel]);
            *out = match (self.floats(), t.channel) {
                (true, _) => value,
                (false, Channel::Signed) => value.trunc(),
                (false, _) => value.trunc().max(0.0),
            };
        }
        out
    }

    /// A texel that may be outside, found by walking along one axis after the other.
    fn walked(&self, mut place: [i64; 3], dimensions: usize, normalized: bool) -> [f64; 4] {
        let t = &self.texture;
        for (axis, at) in place.iter_mut().enumerate().take(dimensions) {
            let count = i64::from([t.width, t.height, t.depth][axis]);
            while *at < 0 || *at >= count {
                *at = match (t.modes[axis], normalized) {
                    (AddressMode::Border, _) => return self.outside(),
                    (AddressMode::Wrap, true) if *at < 0 => *at + count,
                    (AddressMode::Wrap, true) => *at - count,
                    (AddressMode::Mirror, true) if *at < 0 => -1 - *at,
                    (AddressMode::Mirror, true) => 2 * count - 1 - *at,
                    _ if *at < 0 => 0,
                    _ => count - 1,
                };
            }
        }
        let [x, y, z] = place.map(|at| at as usize);
        self.texel(x, y, z)
    }

    /// A lookup at coordinates in texels, or from 0 to 1; the layer must exist.
    pub(crate) fn look_up(&self, at: &[f32], layer: Option<u32>, offsets: &[i32]) -> [f64; 4] {
        let t = &self.texture;
        let base = [0, 0, layer.map_or(0, i64::from)];
        let (mut low, mut alpha) = (base, [0.0; 3]);
        let filtered = t.linear && self.floats();
        for (axis, x) in at.iter().enumerate() {
            let count = [t.width, t.height, t.depth][axis];
            let mut x = f64::from(*x) * if t.normalized { f64::from(count) } else { 1.0 };
            if filtered {
                x -= 0.5;
                alpha[axis] = ((x - x.floor()) * 256.0 + 0.5).floor() / 256.0;
            }
            low[axis] = x.floor() as i64 + i64::from(offsets.get(axis).copied().unwrap_or(0));
        }
        let mut sum = [0.0; 4];
        for i in 0..2 {
            for j in 0..2 {
                for k in 0..2 {
                    let part = |a: f64, second: i64| if second == 1 { a } else { 1.0 - a };
                    let weight = part(alpha[0], i) * part(alpha[1], j) * part(alpha[2], k);
                    if weight > 0.0 {
                        let place = [low[0] + i, low[1] + j, low[2] + k];
                        let texel = self.walked(place, at.len(), t.normalized);
                        sum.iter_mut()
                            .zip(texel)
                            .for_each(|(sum, value)| *sum += weight * value);
                    }
                }
            }
        }
        sum
    }

    /// A lookup by integer texel coordinates.
    pub(crate) fn fetch(&self, at: &[i32], layer: Option<u32>) -> [f64; 4] {
        let mut place = [0, 0, layer.map_or(0, i64::from)];
        for (place, at) in place.iter_mut().zip(at) {
            *place = i64::from(*at);
        }
        self.walked(place, at.len(), false)
    }

    /// A channel of the four texels around a coordinate.
    pub(crate) fn gather(&self, at: [f32; 2], layer: Option<u32>, channel: usize) -> [f64; 4] {
        let t = &self.texture;
        let count = [t.width, t.height];
        let low = [0, 1].map(|axis| {
            let scale = if t.normalized {
                f64::from(count[axis])
            } else {
                1.0
            };
            (f64::from(at[axis]) * scale - 0.5).floor() as i64
        });
        let z = layer.map_or(0, i64::from);
        [(0, 1), (1, 1), (1, 0), (0, 0)]
            .map(|(i, j)| self.walked([low[0] + i, low[1] + j, z], 2, t.normalized)[channel])
    }

    /// True if a result is right: integers exactly, floats except for the last places of their
    /// inputs.
    pub(crate) fn agrees(&self, got: [u64; 4], want: [f64; 4]) -> bool {
        got.into_iter().zip(want).all(|(got, want)| {
            if self.floats() {
                let got = f64::from(f32::from_bits(got as u32));
                (got - want).abs() <= 4e-7 + 2e-7 * want.abs()
            } else {
                got as u32 == want as i64 as u32
            }
        })
    }
}
