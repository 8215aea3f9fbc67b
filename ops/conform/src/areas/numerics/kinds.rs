//! The types of numbers, the rounding modes, and half precision, which Rust lacks.

use std::cmp::Ordering;

/// A type of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Signed(u32),
    Unsigned(u32),
    Float(u32),
}

use Kind::{Float, Signed, Unsigned};

pub(super) const INTEGERS: [Kind; 8] = [
    Signed(8),
    Unsigned(8),
    Signed(16),
    Unsigned(16),
    Signed(32),
    Unsigned(32),
    Signed(64),
    Unsigned(64),
];
pub(super) const FLOATS: [Kind; 3] = [Float(16), Float(32), Float(64)];

/// Rounding mode: to nearest, ties to even; towards zero; down; up.
#[derive(Clone, Copy)]
pub(super) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

pub(super) const ROUNDINGS: [Rounding; 4] = [
    Rounding::Nearest,
    Rounding::Zero,
    Rounding::Down,
    Rounding::Up,
];

impl Rounding {
    pub(super) fn letter(self) -> char {
        match self {
            Self::Nearest => 'n',
            Self::Zero => 'z',
            Self::Down => 'm',
            Self::Up => 'p',
        }
    }

    pub(super) fn whole(self, value: f64) -> f64 {
        match self {
            Self::Nearest => value.round_ties_even(),
            Self::Zero => value.trunc(),
            Self::Down => value.floor(),
            Self::Up => value.ceil(),
        }
    }
}

impl Kind {
    pub(super) fn bits(self) -> u32 {
        match self {
            Signed(bits) | Unsigned(bits) | Float(bits) => bits,
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Signed(bits) => format!("s{bits}"),
            Unsigned(bits) => format!("u{bits}"),
            Float(bits) => format!("f{bits}"),
        }
    }

    /// The register type that holds it, and the width of its moves: PTX has no registers of 8 bits.
    pub(super) fn register(self) -> (String, u32) {
        let bits = self.bits().max(16);
        match self {
            Float(bits @ (32 | 64)) => (format!("f{bits}"), bits),
            _ => (format!("b{bits}"), bits),
        }
    }

    pub(super) fn range(self) -> (i128, i128) {
        let bits = self.bits();
        match self {
            Signed(_) => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            _ => (0, (1i128 << bits) - 1),
        }
    }

    /// The integer in the low bits of a word.
    pub(super) fn number(self, word: u64) -> i128 {
        let unused = 64 - self.bits();
        match self {
            Signed(_) => i128::from(word.cast_signed() << unused >> unused),
            _ => i128::from(word << unused >> unused),
        }
    }

    /// The value of the low bits of a word.
    pub(super) fn value(self, word: u64) -> f64 {
        match self.bits() {
            16 => half(word as u16),
            32 => f64::from(f32::from_bits(word as u32)),
            _ => f64::from_bits(word),
        }
    }

    pub(super) fn cut(self, word: u64) -> u64 {
        word & (u64::MAX >> (64 - self.bits()))
    }
}

/// The value of a half-precision number.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The half-precision number nearest to a value, ties to even.
pub(super) fn nearest_half(value: f64) -> u16 {
    let sign = if value.is_sign_negative() {
        1u16 << 15
    } else {
        0
    };
    // The magnitudes of half-precision numbers are ordered by their bits.
    let size = value.abs();
    let (mut above, mut end) = (0u16, 0x7c00u16);
    while above < end {
        let middle = above.midpoint(end);
        match half(middle) >= size {
            true => end = middle,
            false => above = middle + 1,
        }
    }
    if above == 0 {
        return sign;
    }
    let below = above - 1;
    // A value at least half a step beyond the largest number becomes infinite.
    let top = if above == 0x7c00 {
        65_536.0
    } else {
        half(above)
    };
    let (down, up) = (size - half(below), top - size);
    let nearest = match down.total_cmp(&up) {
        Ordering::Less => below,
        Ordering::Greater => above,
        Ordering::Equal => below + (below & 1),
    };
    sign | nearest
}

pub(super) fn as_bits(kind: Kind, value: f64) -> u64 {
    match kind.bits() {
        16 => u64::from(nearest_half(value)),
        32 => u64::from((value as f32).to_bits()),
        _ => value.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_rounds_to_even() {
        for (value, bits) in [
            (0.0, 0),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65_504.0, 0x7bff),
            (65_519.9, 0x7bff),
            (65_520.0, 0x7c00),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (2f64.powi(-24), 1),
            (2f64.powi(-25), 0),
            (-3.0 * 2f64.powi(-25), 0x8002),
        ] {
            assert_eq!(nearest_half(value), bits, "{value}");
        }
        for bits in 0..=0x7c00 {
            assert_eq!(nearest_half(half(bits)), bits);
        }
    }

    #[test]
    fn numbers_are_the_low_bits_of_words() {
        assert_eq!(Signed(8).number(0xff80), -128);
        assert_eq!(Unsigned(8).number(0xff80), 128);
        assert_eq!(Signed(64).number(u64::MAX), -1);
        assert_eq!(Unsigned(64).number(u64::MAX), i128::from(u64::MAX));
    }
}
