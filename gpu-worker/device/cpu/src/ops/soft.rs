//! Float arithmetic in integers: any rounding, any of the IEEE-like formats, exact.
//!
//! It is the portable path of directed rounding and of every narrowing conversion. It is also the
//! reference for tests of the vector path.

use crate::decode::form::Round;

/// A binary format: exponent bits and stored mantissa bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    exponent: u32,
    mantissa: u32,
}

pub(crate) const F16: Format = Format {
    exponent: 5,
    mantissa: 10,
};
pub(crate) const BF16: Format = Format {
    exponent: 8,
    mantissa: 7,
};
pub(crate) const F32: Format = Format {
    exponent: 8,
    mantissa: 23,
};
pub(crate) const F64: Format = Format {
    exponent: 11,
    mantissa: 52,
};

/// A finite nonzero number: mantissa times 2 to the exponent.
#[derive(Clone, Copy)]
struct Number {
    negative: bool,
    exponent: i32,
    mantissa: u128,
}

enum Class {
    Zero(bool),
    Infinite(bool),
    Nan,
    Finite(Number),
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn sign(self, negative: bool) -> u64 {
        u64::from(negative) << (self.exponent + self.mantissa)
    }

    fn infinity(self, negative: bool) -> u64 {
        self.sign(negative) | ((1 << self.exponent) - 1) << self.mantissa
    }

    /// The NaN that results from the format's arithmetic.
    pub(crate) fn nan(self) -> u64 {
        match self {
            F64 => 0x7ff8_0000_0000_0000,
            _ => self.sign(true) - 1,
        }
    }

    /// Bits of a number, and bits of its mantissa.
    pub(crate) fn shape(self) -> (u32, u32) {
        (1 + self.exponent + self.mantissa, self.mantissa)
    }

    pub(crate) fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign(true) - 1) > self.infinity(false)
    }

    fn split(self, bits: u64) -> Class {
        let mantissa = bits & ((1 << self.mantissa) - 1);
        let exponent = bits >> self.mantissa & ((1 << self.exponent) - 1);
        let negative = bits >> (self.exponent + self.mantissa) & 1 != 0;
        let low = 1 - self.bias() - self.mantissa as i32;
        if exponent == (1 << self.exponent) - 1 {
            if mantissa == 0 {
                Class::Infinite(negative)
            } else {
                Class::Nan
            }
        } else if exponent == 0 && mantissa == 0 {
            Class::Zero(negative)
        } else if exponent == 0 {
            Class::Finite(Number {
                negative,
                exponent: low,
                mantissa: u128::from(mantissa),
            })
        } else {
            let mantissa = u128::from(mantissa | 1 << self.mantissa);
            let exponent = low + exponent as i32 - 1;
            Class::Finite(Number {
                negative,
                exponent,
                mantissa,
            })
        }
    }

    /// Rounds `mantissa * 2^exponent`; bit 0 of the mantissa may stand for anything below it.
    #[inline(always)]
    fn join(self, number: Number, round: Round) -> u64 {
        let Number {
            negative,
            exponent,
            mantissa,
        } = number;
        if mantissa == 0 {
            return self.sign(negative);
        }
        let low = 1 - self.bias() - self.mantissa as i32;
        let width = 128 - mantissa.leading_zeros() as i32;
        // The exponent of the result's last place.
        let last = (exponent + width - 1 - self.mantissa as i32).max(low);
        let shift = last - exponent;
        let (mut kept, half, sticky) = if shift <= 0 {
            (mantissa << -shift, false, false)
        } else if shift > 127 {
            (0, false, true)
        } else {
            let below = mantissa & ((1 << (shift - 1)) - 1);
            (
                mantissa >> shift,
                mantissa >> (shift - 1) & 1 != 0,
                below != 0,
            )
        };
        let up = match round {
            Round::Nearest => half && (sticky || kept & 1 != 0),
            Round::Away => half,
            Round::Zero => false,
            Round::Down => negative && (half || sticky),
            Round::Up => !negative && (half || sticky),
        };
        kept += u128::from(up);
        let biased = if kept >> self.mantissa == 0 {
            0
        } else {
            (last - low + 1) as u64
        };
        // A carry out of the mantissa moves into the exponent by itself.
        let hidden = if biased == 0 {
            0
        } else {
            1_u64 << self.mantissa
        };
        let bits = (biased << self.mantissa) + (kept as u64 - hidden);
        if bits >= self.infinity(false) {
            let away = match round {
                Round::Nearest | Round::Away => true,
                Round::Zero => false,
                Round::Down => negative,
                Round::Up => !negative,
            };
            return self.infinity(negative) - u64::from(!away);
        }
        bits | self.sign(negative)
    }
}

/// Moves a mantissa's top bit to bit 125.
fn normal(number: Number) -> Number {
    let shift = number.mantissa.leading_zeros() as i32 - 2;
    Number {
        mantissa: number.mantissa << shift,
        exponent: number.exponent - shift,
        ..number
    }
}

/// Shifts right, keeping a trace of the dropped bits in bit 0.
fn jam(mantissa: u128, by: u32) -> u128 {
    if by == 0 {
        mantissa
    } else if by > 127 {
        u128::from(mantissa != 0)
    } else {
        mantissa >> by | u128::from(mantissa << (128 - by) != 0)
    }
}

fn zero_sum(a: bool, b: bool, round: Round) -> bool {
    if a == b { a } else { round == Round::Down }
}

fn sum(format: Format, a: Number, b: Number, round: Round) -> u64 {
    let (a, b) = (normal(a), normal(b));
    let (big, small) = if (a.exponent, a.mantissa) >= (b.exponent, b.mantissa) {
        (a, b)
    } else {
        (b, a)
    };
    let moved = jam(small.mantissa, (big.exponent - small.exponent) as u32);
    let mantissa = if big.negative == small.negative {
        big.mantissa + moved
    } else {
        big.mantissa - moved
    };
    if mantissa == 0 {
        return format.sign(zero_sum(a.negative, b.negative, round));
    }
    format.join(Number { mantissa, ..big }, round)
}

/// a * b + c with one rounding.
pub(crate) fn fma(format: Format, a: u64, b: u64, c: u64, round: Round) -> u64 {
    let (a, b, c) = (format.split(a), format.split(b), format.split(c));
    if matches!(a, Class::Nan) || matches!(b, Class::Nan) || matches!(c, Class::Nan) {
        return format.nan();
    }
    let negative = |class: &Class| match class {
        Class::Zero(n) | Class::Infinite(n) => *n,
        Class::Finite(number) => number.negative,
        Class::Nan => false,
    };
    let sign = negative(&a) != negative(&b);
    let product = match (&a, &b) {
        (Class::Infinite(_), Class::Zero(_)) | (Class::Zero(_), Class::Infinite(_)) => {
            return format.nan();
        }
        (Class::Infinite(_), _) | (_, Class::Infinite(_)) => Class::Infinite(sign),
        (Class::Finite(x), Class::Finite(y)) => Class::Finite(Number {
            negative: sign,
            exponent: x.exponent + y.exponent,
            mantissa: x.mantissa * y.mantissa,
        }),
        _ => Class::Zero(sign),
    };
    match (product, c) {
        (Class::Infinite(x), Class::Infinite(y)) if x != y => format.nan(),
        (Class::Infinite(x), _) | (_, Class::Infinite(x)) => format.infinity(x),
        (Class::Zero(x), Class::Zero(y)) => format.sign(zero_sum(x, y, round)),
        (Class::Zero(_), Class::Finite(number)) | (Class::Finite(number), Class::Zero(_)) => {
            format.join(number, round)
        }
        (Class::Finite(x), Class::Finite(y)) => sum(format, x, y, round),
        _ => format.nan(),
    }
}

/// a + b.
pub(crate) fn add(format: Format, a: u64, b: u64, round: Round) -> u64 {
    let one = (format.bias() as u64) << format.mantissa;
    fma(format, a, one, b, round)
}

/// a * b.
pub(crate) fn mul(format: Format, a: u64, b: u64, round: Round) -> u64 {
    // Adding a zero of the product's own sign changes nothing, in any rounding.
    let sign = (a ^ b) & format.sign(true);
    fma(format, a, b, sign, round)
}

/// a / b.
pub(crate) fn div(format: Format, a: u64, b: u64, round: Round) -> u64 {
    match (format.split(a), format.split(b)) {
        (Class::Nan, _) | (_, Class::Nan) => format.nan(),
        (Class::Infinite(_), Class::Infinite(_)) | (Class::Zero(_), Class::Zero(_)) => format.nan(),
        (Class::Finite(x), Class::Finite(y)) => {
            // 126 bits, so that one more fits below the quotient even of a divisor of 1.
            let shift = x.mantissa.leading_zeros() as i32 - 2;
            let top = x.mantissa << shift;
            let exponent = x.exponent - shift - y.exponent;
            let (quotient, rest) = (top / y.mantissa, top % y.mantissa);
            let mantissa = quotient << 1 | u128::from(rest != 0);
            let negative = x.negative != y.negative;
            format.join(
                Number {
                    negative,
                    exponent: exponent - 1,
                    mantissa,
                },
                round,
            )
        }
        _ => {
            let sign = (a ^ b) & format.sign(true) != 0;
            match (format.split(a), format.split(b)) {
                (Class::Zero(_), _) | (_, Class::Infinite(_)) => format.sign(sign),
                _ => format.infinity(sign),
            }
        }
    }
}

/// The square root of a.
pub(crate) fn sqrt(format: Format, a: u64, round: Round) -> u64 {
    match format.split(a) {
        Class::Zero(_) => a,
        Class::Infinite(false) => a,
        Class::Finite(number) if !number.negative => {
            // An even exponent and a mantissa of 126 or 125 bits: a root of 63 bits.
            let shift = number.mantissa.leading_zeros() as i32 - 2;
            let shift = shift - (number.exponent - shift).rem_euclid(2);
            let (wide, exponent) = (number.mantissa << shift, number.exponent - shift);
            let root = wide.isqrt();
            let mantissa = root << 1 | u128::from(root * root != wide);
            format.join(
                Number {
                    negative: false,
                    exponent: exponent / 2 - 1,
                    mantissa,
                },
                round,
            )
        }
        _ => format.nan(),
    }
}

/// Converts a value of one format to another; NaN becomes the target's.
#[inline(always)]
pub(crate) fn convert(from: Format, to: Format, bits: u64, round: Round) -> u64 {
    match from.split(bits) {
        Class::Zero(negative) => to.sign(negative),
        Class::Infinite(negative) => to.infinity(negative),
        Class::Nan => to.nan(),
        Class::Finite(number) => to.join(number, round),
    }
}

/// A value as an f64, which holds all of the narrower formats.
#[inline(always)]
pub(crate) fn widen(format: Format, bits: u32) -> f64 {
    f64::from_bits(convert(format, F64, u64::from(bits), Round::Nearest))
}

/// An integer as a float.
pub(crate) fn from_integer(to: Format, value: i128, round: Round) -> u64 {
    let mantissa = value.unsigned_abs();
    to.join(
        Number {
            negative: value < 0,
            exponent: 0,
            mantissa,
        },
        round,
    )
}
