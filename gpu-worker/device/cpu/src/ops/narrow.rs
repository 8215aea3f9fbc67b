//! Arithmetic of f16 and bf16, alone and in pairs: exact in a wider format, then rounded once.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use super::math;
use crate::decode::form::{Float1, Float2, Inst, Mode, Op};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, by_kind, pick, source, store};
use crate::lane_value::LANES;
use ptx::Scalar;
use std::marker::PhantomData;

/// The canonical NaN of both formats.
const NAN: u32 = 0x7fff;
const SIGN: u32 = 0x8000;

/// True if this family handles a type.
pub(super) fn covers(ty: Scalar) -> bool {
    matches!(
        ty,
        Scalar::F16 | Scalar::F16x2 | Scalar::Bf16 | Scalar::Bf16x2
    )
}

/// The bits of infinity.
const fn infinity(bf16: bool) -> u32 {
    if bf16 { 0x7f80 } else { 0x7c00 }
}

/// The value of 16 bits.
#[inline(always)]
pub(super) fn widen<const BF16: bool>(bits: u32) -> f32 {
    if BF16 {
        return f32::from_bits(bits << 16);
    }
    let size = bits & 0x7fff;
    // The exponent's bias differs by 112; the multiplication is also right for subnormal numbers.
    let scaled = f32::from_bits(size << 13) * f32::from_bits(0x7780_0000);
    let special = 0x7f80_0000 | size << 13;
    let wide = if size >= 0x7c00 {
        special
    } else {
        scaled.to_bits()
    };
    f32::from_bits(wide | (bits & SIGN) << 16)
}

/// Rounds to nearest even.
#[inline(always)]
pub(super) fn narrow<const BF16: bool>(x: f32) -> u32 {
    let sign = x.to_bits() >> 16 & SIGN;
    let size = x.to_bits() & 0x7fff_ffff;
    if BF16 {
        let rounded = (size + 0x7fff + (size >> 16 & 1)) >> 16;
        return if size > 0x7f80_0000 {
            NAN
        } else {
            sign | rounded
        };
    }
    let rounded = (size + 0xfff + (size >> 13 & 1)).wrapping_sub(0x3800_0000) >> 13;
    // The last place of 0.5 is that of the subnormal numbers.
    let small = (f32::from_bits(size) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let finite = if size < 0x3880_0000 { small } else { rounded };
    let limited = if size >= 0x477f_f000 { 0x7c00 } else { finite };
    if size > 0x7f80_0000 {
        NAN
    } else {
        sign | limited
    }
}

/// As `narrow`, from f64.
#[inline(always)]
fn narrow64<const BF16: bool>(x: f64) -> u32 {
    let sign = (x.to_bits() >> 48) as u32 & SIGN;
    let size = x.to_bits() & (u64::MAX >> 1);
    // Bits that are dropped, the bits of the smallest normal number, and a number with the last
    // place of the subnormal ones.
    let (drop, least, grid) = if BF16 {
        (45, 897_u64 << 52, f64::from_bits((1023 - 81) << 52))
    } else {
        (42, 1009_u64 << 52, f64::from_bits((1023 + 28) << 52))
    };
    let carry = (1_u64 << (drop - 1)) - 1 + (size >> drop & 1);
    let base = least - (1 << 52);
    let rounded = (size.wrapping_add(carry).wrapping_sub(base) >> drop) as u32;
    let small = (f64::from_bits(size) + grid)
        .to_bits()
        .wrapping_sub(grid.to_bits()) as u32;
    let finite = if size < least { small } else { rounded };
    let top = infinity(BF16);
    let limit = base + (u64::from(top) << drop);
    let limited = if size >= limit || finite > top {
        top
    } else {
        finite
    };
    if size > 0x7ff0_0000_0000_0000 {
        NAN
    } else {
        sign | limited
    }
}

/// a + b in f64, with an odd last bit if inexact, so that a second rounding is right.
#[inline(always)]
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    let bits = sum.to_bits();
    let away = (error < 0.0) == (sum < 0.0);
    let inexact = error != 0.0 && bits & 1 == 0 && sum.is_finite();
    let odd = if away { bits | 1 } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact { odd } else { bits })
}

/// An operation on 16 bits.
trait Half {
    /// Number of sources.
    const SOURCES: usize;
    fn value<const BF16: bool>(sources: [u32; 3]) -> u32;
}

macro_rules! halves {
    ($($name:ident $sources:literal |$BF16:ident, $a:pat_param, $b:pat_param, $c:pat_param| $e:expr;)*) => {$(
        struct $name;
        impl Half for $name {
            const SOURCES: usize = $sources;
            #[inline(always)]
            fn value<const $BF16: bool>([$a, $b, $c]: [u32; 3]) -> u32 { $e }
        }
    )*};
}

halves! {
    Add 2 |B, a, b, _| narrow::<B>(widen::<B>(a) + widen::<B>(b));
    Sub 2 |B, a, b, _| narrow::<B>(widen::<B>(a) - widen::<B>(b));
    Mul 2 |B, a, b, _| narrow64::<B>(f64::from(widen::<B>(a)) * f64::from(widen::<B>(b)));
    Fma 3 |B, a, b, c| {
        let product = f64::from(widen::<B>(a)) * f64::from(widen::<B>(b));
        narrow64::<B>(sum_to_odd(product, f64::from(widen::<B>(c))))
    };
    Min 2 |B, a, b, _| extreme::<B>(a, b, false, false);
    Max 2 |B, a, b, _| extreme::<B>(a, b, true, false);
    MinNan 2 |B, a, b, _| extreme::<B>(a, b, false, true);
    MaxNan 2 |B, a, b, _| extreme::<B>(a, b, true, true);
    MinXor 2 |B, a, b, _| xorsign::<B>(a, b, false, false);
    MaxXor 2 |B, a, b, _| xorsign::<B>(a, b, true, false);
    MinNanXor 2 |B, a, b, _| xorsign::<B>(a, b, false, true);
    MaxNanXor 2 |B, a, b, _| xorsign::<B>(a, b, true, true);
    Abs 1 |_B, a, _, _| a & !SIGN;
    Neg 1 |_B, a, _, _| a ^ SIGN;
    Ex2 1 |B, a, _, _| narrow::<B>(math::ex2(widen::<B>(a)));
    Tanh 1 |B, a, _, _| narrow::<B>(math::tanh(widen::<B>(a)));
}

/// min and max: -0 is below +0, and a number wins over a NaN unless NaN is requested.
#[inline(always)]
fn extreme<const BF16: bool>(a: u32, b: u32, most: bool, keep_nan: bool) -> u32 {
    let key = |bits: u32| {
        if bits & SIGN != 0 {
            !bits & 0xffff
        } else {
            bits | SIGN
        }
    };
    let nan = |bits: u32| bits & 0x7fff > infinity(BF16);
    let first = (key(a) < key(b)) != most;
    let number = if first { a } else { b };
    let one = if nan(a) { b } else { number };
    let other = if nan(b) { a } else { one };
    let lost = if keep_nan {
        nan(a) | nan(b)
    } else {
        nan(a) & nan(b)
    };
    if lost { NAN } else { other }
}

/// As `extreme`, of absolute values; the sign is that of the product.
#[inline(always)]
fn xorsign<const BF16: bool>(a: u32, b: u32, most: bool, keep_nan: bool) -> u32 {
    let size = extreme::<BF16>(a & !SIGN, b & !SIGN, most, keep_nan);
    let sign = (a ^ b) & SIGN;
    if size > infinity(BF16) {
        size
    } else {
        size | sign
    }
}

/// The lane loop of an operation on one format, alone or in pairs.
struct Narrow<O, const BF16: bool, const PAIR: bool>(PhantomData<O>);

impl<O: Half, const BF16: bool, const PAIR: bool> Kernel for Narrow<O, BF16, PAIR> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let (mode, relu) = match inst.op {
            Op::Float1(_, _, mode) | Op::Float2(_, _, mode) => (mode, false),
            Op::Fma(_, mode, relu) => (mode, relu),
            _ => return true,
        };
        let Mode { ftz, sat, .. } = mode;
        let top = infinity(BF16);
        let one = if BF16 { 0x3f80 } else { 0x3c00 };
        let flush = |bits: u32| {
            let small = ftz & (bits & top == 0);
            if small { bits & SIGN } else { bits }
        };
        let finish = |bits: u32| {
            let bits = flush(bits);
            let negative = bits & SIGN != 0;
            let nan = bits & !SIGN > top;
            let limited = if bits > one { one } else { bits };
            let limited = if negative | nan { 0 } else { limited };
            let bits = if sat { limited } else { bits };
            if relu & negative & !nan { 0 } else { bits }
        };
        let mut out = [0; LANES];
        // SAFETY: the caller vouches for the slots; missing sources repeat the first.
        unsafe {
            let slot = |at: usize| inst.slots[if at <= O::SOURCES { at } else { 1 }];
            let rows = [1, 2, 3].map(|at| source::<u32>(cx, slot(at)));
            for (lane, out) in out.iter_mut().enumerate() {
                let low = rows.map(|row| flush(row[lane] & 0xffff));
                *out = finish(O::value::<BF16>(low));
                if PAIR {
                    let high = rows.map(|row| flush(row[lane] >> 16));
                    *out |= finish(O::value::<BF16>(high)) << 16;
                }
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

macro_rules! by_format {
    (($ty:expr, $isa:expr) $op:ident) => {
        match $ty {
            Scalar::F16 => pick::<Narrow<$op, false, false>>($isa),
            Scalar::F16x2 => pick::<Narrow<$op, false, true>>($isa),
            Scalar::Bf16 => pick::<Narrow<$op, true, false>>($isa),
            Scalar::Bf16x2 => pick::<Narrow<$op, true, true>>($isa),
            _ => return None,
        }
    };
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    Some(match op {
        Op::Float1(op, ty, _) => by_kind! { op, Float1;
            @by_format (ty, isa): Abs Neg Ex2 Tanh;
            _ => return None,
        },
        Op::Float2(op, ty, _) => by_kind! { op, Float2;
            @by_format (ty, isa): Add Sub Mul Min Max MinNan MaxNan MinXor MaxXor MinNanXor MaxNanXor;
            _ => return None,
        },
        Op::Fma(ty, ..) => by_format! { (ty, isa) Fma },
        _ => return None,
    })
}
