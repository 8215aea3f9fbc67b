//! Tensor maps as recipes. `cuTensorMapEncodeTiled` returns at once, but its 128 bytes are private
//! to the device's driver. So a program gets 128 bytes that describe its request, and may keep them
//! anywhere. The worker replaces them by the driver's bytes, in a launch's parameters and in
//! memory.

use crate::codec::column::Fields;

/// Size of a tensor map and of its recipe in bytes. On the device both are aligned to 64 bytes.
pub const TENSOR_MAP_BYTES: usize = 128;

/// Alignment of a recipe in memory, bytes.
pub const TENSOR_MAP_ALIGNMENT: usize = 64;

/// Alignment of a recipe among parameters, in bytes from the first one. The first parameter has the
/// same alignment in constant memory, and only there the map is aligned to 64 bytes.
pub const TENSOR_MAP_PARAMETER: usize = 16;

/// First bytes of each recipe.
const MARK: [u8; 16] = *b"\x93warploom-tmap-1";

/// Maximum number of dimensions.
const RANK: usize = 5;

/// A tensor map's recipe: the arguments of the call that encodes it. Type and mode numbers are
/// CUDA's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorMap {
    /// `CUtensorMapDataType`.
    pub data_type: u8,
    /// Number of dimensions, 1 to 5.
    pub rank: u8,
    /// `CUtensorMapInterleave`.
    pub interleave: u8,
    /// `CUtensorMapSwizzle`.
    pub swizzle: u8,
    /// `CUtensorMapL2promotion`.
    pub l2_promotion: u8,
    /// `CUtensorMapFloatOOBfill`.
    pub fill: u8,
    /// First device address of the tensor.
    pub address: u64,
    /// Elements of each dimension, 1 to 2³²; 1 beyond the rank.
    pub dims: [u64; RANK],
    /// Bytes between consecutive elements, from the second dimension on; 0 beyond the rank.
    pub strides: [u64; RANK - 1],
    /// Steps between the elements that are copied, 1 to 8; 1 beyond the rank.
    pub steps: [u8; RANK],
    /// The part that one copy transfers.
    pub part: TensorPart,
}

/// The part of a tensor that one copy transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorPart {
    /// A box with these numbers of elements in each dimension, 1 to 256; 1 beyond the rank.
    Tiled([u16; RANK]),
    /// Columns of an image.
    Im2col {
        /// Lower corner of the box, by the dimensions between the first and the last.
        lower: [i16; RANK - 2],
        /// Upper corner of the box.
        upper: [i16; RANK - 2],
        /// Channels of a pixel, 1 to 256.
        channels: u16,
        /// Pixels of a column, 1 to 1024.
        pixels: u16,
    },
}

/// Size of an element by `CUtensorMapDataType`, bytes. Packed types of fewer than eight bits are
/// not included.
const ELEMENT: [u64; 13] = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4];

/// The first floating-point type; all later ones are too.
const FIRST_FLOAT: u8 = 6;

/// Maximum bytes of a box's row by `CUtensorMapSwizzle`.
const SWIZZLED: [u64; 7] = [u64::MAX, 32, 64, 128, 128, 128, 128];

impl TensorMap {
    /// Refuses arguments that `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` document as
    /// errors.
    ///
    /// # Errors
    /// The violated rule, in words.
    pub fn check(&self) -> Result<(), &'static str> {
        let rank = usize::from(self.rank);
        let size = ELEMENT.get(usize::from(self.data_type));
        let size = *size.ok_or("unknown type of elements")?;
        let swizzled = SWIZZLED.get(usize::from(self.swizzle));
        let swizzled = *swizzled.ok_or("unknown swizzle")?;
        let is_im2col = matches!(self.part, TensorPart::Im2col { .. });
        let least = if self.interleave > 0 || is_im2col {
            3
        } else {
            1
        };
        let alignment = if self.interleave == 2 { 32 } else { 16 };
        let each = |what: bool, why| if what { Ok(()) } else { Err(why) };
        each(
            (least..=RANK).contains(&rank),
            "the rank is not in its range",
        )?;
        each(self.interleave <= 2, "unknown interleave")?;
        each(self.l2_promotion <= 3, "unknown promotion to L2")?;
        each(self.fill <= 1, "unknown fill")?;
        each(
            self.fill == 0 || self.data_type >= FIRST_FLOAT,
            "NaN is no integer",
        )?;
        each(
            self.address.is_multiple_of(alignment),
            "the address is not aligned",
        )?;
        each(
            self.interleave != 2 || self.swizzle == 1,
            "32-byte interleave needs 32-byte swizzle",
        )?;
        let dims = self.dims.iter().take(rank);
        each(
            dims.clone().all(|dim| (1..=1 << 32).contains(dim)),
            "a dimension is not in its range",
        )?;
        let mut strides = self.strides.iter().take(rank.saturating_sub(1));
        let fits = |it: &u64| it.is_multiple_of(alignment) && *it < 1 << 40;
        each(strides.all(fits), "a stride is not in its range")?;
        let mut steps = self.steps.iter().take(rank);
        each(
            steps.all(|step| (1..=8).contains(step)),
            "an element stride is not in its range",
        )?;
        let row = self.check_part(rank)? * size;
        let rows = self.interleave == 0;
        each(
            !rows || row.is_multiple_of(16),
            "a box's row is no multiple of 16 bytes",
        )?;
        each(
            !rows || row <= swizzled,
            "a box's row is longer than the swizzle",
        )
    }

    /// Returns the number of elements in a row of the part.
    fn check_part(&self, rank: usize) -> Result<u64, &'static str> {
        match self.part {
            TensorPart::Tiled(sides) => {
                let mut within = sides.iter().take(rank);
                match within.all(|side| (1..=256).contains(side)) {
                    true => Ok(u64::from(sides[0])),
                    false => Err("a box's side is not in its range"),
                }
            }
            TensorPart::Im2col {
                lower,
                upper,
                channels,
                pixels,
            } => {
                let bound = match rank {
                    3 => 1 << 15,
                    4 => 1 << 7,
                    _ => 1 << 4,
                };
                let fits = |it: &i16| (-bound..bound).contains(&i32::from(*it));
                let sides = rank - 2;
                let mut corners = lower.iter().take(sides).chain(upper.iter().take(sides));
                match corners.all(fits)
                    && (1..=256).contains(&channels)
                    && (1..=1024).contains(&pixels)
                {
                    true => Ok(u64::from(channels)),
                    false => Err("a box of pixels is not in its range"),
                }
            }
        }
    }

    /// Returns the recipe's bytes. Each field must be valid by [`TensorMap::check`]; others are
    /// truncated.
    #[must_use]
    pub fn write(&self) -> [u8; TENSOR_MAP_BYTES] {
        let mut out = Vec::with_capacity(TENSOR_MAP_BYTES);
        out.extend_from_slice(&MARK);
        let kind = u8::from(matches!(self.part, TensorPart::Im2col { .. }));
        let modes = [self.interleave, self.swizzle, self.l2_promotion, self.fill];
        out.extend_from_slice(&[kind, self.data_type, self.rank]);
        out.extend_from_slice(&modes);
        out.push(0);
        out.extend_from_slice(&self.address.to_le_bytes());
        for dim in self.dims {
            out.extend_from_slice(&(dim.wrapping_sub(1) as u32).to_le_bytes());
        }
        for stride in self.strides {
            out.extend_from_slice(&(stride >> 4).to_le_bytes()[..5]);
        }
        out.extend_from_slice(&self.steps);
        let part = match self.part {
            TensorPart::Tiled([a, b, c, d, e]) => [a, b, c, d, e, 0, 0, 0],
            TensorPart::Im2col {
                lower,
                upper,
                channels,
                pixels,
            } => {
                let [a, b, c] = lower.map(i16::cast_unsigned);
                let [d, e, f] = upper.map(i16::cast_unsigned);
                [a, b, c, d, e, f, channels, pixels]
            }
        };
        out.extend_from_slice(part.map(u16::to_le_bytes).as_flattened());
        let mut bytes = [0; TENSOR_MAP_BYTES];
        bytes.iter_mut().zip(out).for_each(|(to, byte)| *to = byte);
        bytes
    }

    /// True if the bytes begin with a recipe.
    #[must_use]
    #[inline]
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(&MARK)
    }

    /// Reads the recipe at the start of the bytes.
    ///
    /// # Errors
    /// The violated rule, in words; also if there is no recipe.
    pub fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes = bytes
            .first_chunk::<TENSOR_MAP_BYTES>()
            .ok_or("too short for a tensor map")?;
        if !Self::begins(bytes) {
            return Err("no tensor map that cuTensorMapEncode gave");
        }
        let map = Self::fields(&mut Fields(bytes)).ok_or("no tensor map of this build")?;
        map.check()?;
        Ok(map)
    }

    /// Reads the fields unchecked; `None` if spare bytes are not 0.
    fn fields(from: &mut Fields<'_>) -> Option<Self> {
        let _: [u8; MARK.len()] = from.array()?;
        let [
            kind,
            data_type,
            rank,
            interleave,
            swizzle,
            l2_promotion,
            fill,
            spare,
        ] = from.array()?;
        let address = from.u64()?;
        let (mut dims, mut strides) = ([0; RANK], [0; RANK - 1]);
        for dim in &mut dims {
            *dim = u64::from(from.u32()?) + 1;
        }
        for stride in &mut strides {
            let [a, b, c, d, e] = from.array()?;
            *stride = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]) << 4;
        }
        let steps = from.array()?;
        let mut words = [0; 8];
        for word in &mut words {
            *word = from.u16()?;
        }
        let [a, b, c, d, e, f, channels, pixels] = words;
        let part = match kind {
            0 if [f, channels, pixels] == [0; 3] => TensorPart::Tiled([a, b, c, d, e]),
            1 => TensorPart::Im2col {
                lower: [a, b, c].map(u16::cast_signed),
                upper: [d, e, f].map(u16::cast_signed),
                channels,
                pixels,
            },
            _ => return None,
        };
        let rest = from.0.iter().all(|byte| *byte == 0);
        (spare == 0 && rest).then_some(Self {
            data_type,
            rank,
            interleave,
            swizzle,
            l2_promotion,
            fill,
            address,
            dims,
            strides,
            steps,
            part,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiled() -> TensorMap {
        TensorMap {
            data_type: 9,
            rank: 2,
            interleave: 0,
            swizzle: 3,
            l2_promotion: 2,
            fill: 0,
            address: 0x1000_0000_0010,
            dims: [1 << 32, 77, 1, 1, 1],
            strides: [(1 << 40) - 16, 0, 0, 0],
            steps: [1, 8, 1, 1, 1],
            part: TensorPart::Tiled([64, 256, 1, 1, 1]),
        }
    }

    fn im2col() -> TensorMap {
        TensorMap {
            rank: 4,
            fill: 1,
            dims: [64, 32, 32, 8, 1],
            strides: [128, 4096, 131_072, 0],
            steps: [1, 2, 2, 1, 1],
            part: TensorPart::Im2col {
                lower: [-128, 127, 0],
                upper: [-1, -2, 0],
                channels: 64,
                pixels: 1024,
            },
            ..tiled()
        }
    }

    #[test]
    fn a_recipe_is_read_as_it_was_written() {
        for map in [tiled(), im2col()] {
            assert_eq!(map.check(), Ok(()));
            let bytes = map.write();
            assert!(TensorMap::begins(&bytes));
            assert_eq!(TensorMap::read(&bytes), Ok(map));
            assert!(TensorMap::read(&bytes[..127]).is_err());
            assert!(TensorMap::read(&[0; 128]).is_err());
        }
    }

    #[test]
    fn any_change_of_a_recipe_is_read_as_such_or_refused() {
        for map in [tiled(), im2col()] {
            let bytes = map.write();
            for at in 0..TENSOR_MAP_BYTES {
                for bit in 0..8 {
                    let mut other = bytes;
                    other[at] ^= 1 << bit;
                    match TensorMap::read(&other) {
                        Ok(read) => assert_ne!(read, map, "byte {at}"),
                        Err(why) => assert!(!why.is_empty()),
                    }
                }
            }
        }
    }

    #[test]
    fn each_documented_rule_is_kept() {
        type Change = fn(&mut TensorMap);
        let broken: [(&str, Change); 16] = [
            ("type", |it| it.data_type = 13),
            ("rank", |it| it.rank = 0),
            ("rank", |it| it.rank = 6),
            ("rank", |it| it.interleave = 1),
            ("interleave", |it| (it.interleave, it.rank) = (3, 3)),
            ("swizzle", |it| it.swizzle = 7),
            ("L2", |it| it.l2_promotion = 4),
            ("fill", |it| it.fill = 2),
            ("NaN", |it| (it.fill, it.data_type) = (1, 1)),
            ("address", |it| it.address += 8),
            ("dimension", |it| it.dims[1] = 0),
            ("stride", |it| it.strides[0] = 8),
            ("stride", |it| it.strides[0] = 1 << 40),
            ("element stride", |it| it.steps[1] = 9),
            ("side", |it| it.part = TensorPart::Tiled([64, 257, 1, 1, 1])),
            ("longer", |it| it.part = TensorPart::Tiled([72, 2, 1, 1, 1])),
        ];
        for (word, change) in broken {
            let mut map = tiled();
            change(&mut map);
            let why = map.check().expect_err(word);
            assert!(why.contains(word), "{word}: {why}");
        }
        let mut map = im2col();
        map.rank = 2;
        assert!(map.check().is_err());
        map = im2col();
        map.part = TensorPart::Im2col {
            lower: [-129, 0, 0],
            upper: [0; 3],
            channels: 8,
            pixels: 8,
        };
        assert!(map.check().is_err());
    }
}
