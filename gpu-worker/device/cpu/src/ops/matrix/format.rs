//! Conversion of registers of A and B to tiles of words, the input of the multiplication loops.
//!
//! A word is an f32 for the float formats, two i16 for the integer ones, and the register itself
//! for bits. A tile is eight rows of `WIDTH` words; B's is transposed to `WIDTH` rows of eight.

#![expect(unsafe_code, reason = "vector conversions over whole registers")]

use crate::decode::form::{Element, Round};
use crate::lane_value::Row;
use crate::ops::soft;

/// Maximum number of tiles of A, and of B.
pub(super) const MOST: usize = 8;

/// Conversion of one register of 32 lanes to a tile of 8 x `WIDTH` words, row by row.
pub(super) trait Format {
    const WIDTH: usize;
    type Tile: Copy + AsRef<[u32]> + AsMut<[u32]>;
    const BLANK: Self::Tile;
    /// Overwrites the whole tile.
    fn spread<const SIMD: bool>(element: Element, row: &Row<u32>, tile: &mut Self::Tile);
}

/// f16.
pub(super) struct Half;
/// bf16.
pub(super) struct Brain;
/// tf32: the low 13 bits of the mantissa are ignored.
pub(super) struct Tensor;
/// e4m3 and e5m2.
pub(super) struct Quarter;
/// s8 and u8, as pairs of i16.
pub(super) struct Byte;
/// s4 and u4, as pairs of i16.
pub(super) struct Nibble;
/// Single bits, unchanged.
pub(super) struct Bit;

impl Format for Half {
    const WIDTH: usize = 8;
    type Tile = [u32; 64];
    const BLANK: Self::Tile = [0; 64];
    #[inline(always)]
    fn spread<const SIMD: bool>(_: Element, row: &Row<u32>, tile: &mut Self::Tile) {
        #[cfg(target_arch = "x86_64")]
        if SIMD {
            // SAFETY: `SIMD` states that F16C is available.
            unsafe { halves(row, tile) };
            return;
        }
        for (at, word) in row.iter().enumerate() {
            tile[2 * at] = widen(soft::F16, word & 0xffff);
            tile[2 * at + 1] = widen(soft::F16, word >> 16);
        }
    }
}

fn widen(format: soft::Format, bits: u32) -> u32 {
    soft::convert(format, soft::F32, u64::from(bits), Round::Nearest) as u32
}

/// # Safety
/// Needs F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn halves(row: &Row<u32>, tile: &mut [u32; 64]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
    for group in 0..8 {
        // SAFETY: eight halves are in four lanes; the tile has 64 words.
        unsafe {
            let from = _mm_loadu_si128(row.as_ptr().add(4 * group).cast());
            let to = tile.as_mut_ptr().add(8 * group);
            _mm256_storeu_ps(to.cast(), _mm256_cvtph_ps(from));
        }
    }
}

impl Format for Brain {
    const WIDTH: usize = 8;
    type Tile = [u32; 64];
    const BLANK: Self::Tile = [0; 64];
    #[inline(always)]
    fn spread<const SIMD: bool>(_: Element, row: &Row<u32>, tile: &mut Self::Tile) {
        for at in 0..32 {
            tile[2 * at] = row[at] << 16;
            tile[2 * at + 1] = row[at] & 0xffff_0000;
        }
    }
}

impl Format for Tensor {
    const WIDTH: usize = 4;
    type Tile = [u32; 32];
    const BLANK: Self::Tile = [0; 32];
    #[inline(always)]
    fn spread<const SIMD: bool>(_: Element, row: &Row<u32>, tile: &mut Self::Tile) {
        for at in 0..32 {
            tile[at] = row[at] & 0xffff_e000;
        }
    }
}

/// The value of an eight-bit float as the bits of an f32.
fn quarter(element: Element, bits: u32) -> u32 {
    let sign = (bits & 0x80) << 24;
    if element == Element::E5m2 {
        // The upper half of an f16.
        return widen(soft::F16, bits << 8);
    }
    let (exponent, mantissa) = (bits >> 3 & 15, bits & 7);
    match (exponent, mantissa) {
        // This format has no infinity.
        (15, 7) => 0x7fff_ffff,
        (0, _) => sign | (mantissa as f32 * f32::from_bits(0x3b00_0000)).to_bits(),
        _ => sign | (exponent + 120) << 23 | mantissa << 20,
    }
}

impl Format for Quarter {
    const WIDTH: usize = 16;
    type Tile = [u32; 128];
    const BLANK: Self::Tile = [0; 128];
    #[inline(always)]
    fn spread<const SIMD: bool>(element: Element, row: &Row<u32>, tile: &mut Self::Tile) {
        for (at, word) in row.iter().enumerate() {
            for (part, byte) in word.to_le_bytes().into_iter().enumerate() {
                tile[4 * at + part] = quarter(element, u32::from(byte));
            }
        }
    }
}

impl Format for Byte {
    const WIDTH: usize = 8;
    type Tile = [u32; 64];
    const BLANK: Self::Tile = [0; 64];
    #[inline(always)]
    fn spread<const SIMD: bool>(element: Element, row: &Row<u32>, tile: &mut Self::Tile) {
        for at in 0..32 {
            let (even, odd) = (row[at], row[at] >> 8);
            if element == Element::S8 {
                let wide = |byte: u32| i32::from(byte as i8) as u32 & 0xffff;
                tile[2 * at] = wide(even) | wide(odd) << 16;
                tile[2 * at + 1] = wide(even >> 16) | wide(odd >> 16) << 16;
            } else {
                tile[2 * at] = even & 0xff | (odd & 0xff) << 16;
                tile[2 * at + 1] = even >> 16 & 0xff | (odd >> 16 & 0xff) << 16;
            }
        }
    }
}

impl Format for Nibble {
    const WIDTH: usize = 16;
    type Tile = [u32; 128];
    const BLANK: Self::Tile = [0; 128];
    #[inline(always)]
    fn spread<const SIMD: bool>(element: Element, row: &Row<u32>, tile: &mut Self::Tile) {
        for at in 0..32 {
            for pair in 0..4 {
                let (even, odd) = (row[at] >> (8 * pair) & 15, row[at] >> (8 * pair + 4) & 15);
                let wide = |nibble: u32| {
                    if element == Element::S4 {
                        ((nibble << 28) as i32 >> 28) as u32 & 0xffff
                    } else {
                        nibble
                    }
                };
                tile[4 * at + pair] = wide(even) | wide(odd) << 16;
            }
        }
    }
}

impl Format for Bit {
    const WIDTH: usize = 4;
    type Tile = [u32; 32];
    const BLANK: Self::Tile = [0; 32];
    #[inline(always)]
    fn spread<const SIMD: bool>(_: Element, row: &Row<u32>, tile: &mut Self::Tile) {
        *tile = *row;
    }
}

/// Transposes eight rows of `WIDTH` words to `WIDTH` rows of eight.
#[inline(always)]
pub(super) fn turn<F: Format>(tile: &F::Tile, turned: &mut F::Tile) {
    let (width, from, to) = (F::WIDTH, tile.as_ref(), turned.as_mut());
    #[cfg(target_arch = "x86_64")]
    {
        assert!(
            from.len() >= 8 * width && to.len() >= 8 * width && width.is_multiple_of(4),
            "a tile of eight rows"
        );
        for (row, column) in [0, 4]
            .into_iter()
            .flat_map(|row| (0..width).step_by(4).map(move |c| (row, c)))
        {
            // SAFETY: SSE2 is always available; the block of four by four is in both tiles.
            unsafe {
                turn_four(
                    from.as_ptr().add(row * width + column),
                    width,
                    to.as_mut_ptr().add(column * 8 + row),
                );
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    for row in 0..8 {
        for column in 0..width {
            to[column * 8 + row] = from[row * width + column];
        }
    }
}

/// # Safety
/// Four rows of four words are at `from`, `width` apart, and at `to`, 8 apart.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn turn_four(from: *const u32, width: usize, to: *mut u32) {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
        _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    // SAFETY: the caller vouches for the rows.
    unsafe {
        let row = |at: usize| _mm_loadu_si128(from.add(at * width).cast());
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (low, high) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
        let (more, most) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
        let turned = [
            _mm_unpacklo_epi64(low, more),
            _mm_unpackhi_epi64(low, more),
            _mm_unpacklo_epi64(high, most),
            _mm_unpackhi_epi64(high, most),
        ];
        for (at, row) in turned.into_iter().enumerate() {
            _mm_storeu_si128(to.add(8 * at).cast(), row);
        }
    }
}
