//! `cvt` from one number to one number: every pair of types, every rounding.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use super::narrow::{narrow, widen};
use super::rules::{finish32, flush};
use super::soft;
use crate::decode::form::{Inst, Mode, Op, Round};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, Map1, Op1, ops, pick, source, store};
use crate::lane_value::{Bits, LANES, Lane};
use ptx::Scalar;
use std::marker::PhantomData;

ops! { 1;
    S32ToS64(a: i32) -> i64 = i64::from(a);
    U32ToU64(a: u32) -> u64 = u64::from(a);
    U64ToU32(a: u64) -> u32 = a as u32;
    S32ToF64(a: i32) -> f64 = f64::from(a);
    U32ToF64(a: u32) -> f64 = f64::from(a);
    F32ToF64(a: f32) -> u64 = single_to_double(a);
    F64ToF32(a: f64) -> f32 = finish32(a as f32, false, false);
    F16ToF32(a: u32) -> f32 = finish32(widen::<false>(a & 0xffff), false, false);
    Bf16ToF32(a: u32) -> f32 = finish32(widen::<true>(a & 0xffff), false, false);
    F32ToF16(a: f32) -> u32 = narrow::<false>(a);
    F32ToBf16(a: f32) -> u32 = narrow::<true>(a);
    Sat32(a: f32) -> f32 = finish32(a, false, true);
    Ftz32(a: f32) -> f32 = finish32(flush(a), true, false);
    SatFtz32(a: f32) -> f32 = finish32(flush(a), true, true);
    Near32(a: f32) -> f32 = finish32(a.round_ties_even(), false, false);
    Down32(a: f32) -> f32 = finish32(a.floor(), false, false);
    Up32(a: f32) -> f32 = finish32(a.ceil(), false, false);
    Trunc32(a: f32) -> f32 = finish32(a.trunc(), false, false);
    U16ToU32(a: u16) -> u32 = u32::from(a);
    S16ToS32(a: i16) -> i32 = i32::from(a);
    U8ToU32(a: u8) -> u32 = u32::from(a);
    S8ToS32(a: i8) -> i32 = i32::from(a);
}

/// An f64 keeps the payload of a NaN f32.
#[inline(always)]
fn single_to_double(a: f32) -> u64 {
    let bits = u64::from(a.to_bits());
    let kept = (bits >> 31) << 63 | 0x7ff8 << 48 | bits << 29 & 0xf_ffff_ffff_ffff;
    if a.is_nan() {
        kept
    } else {
        f64::from(a).to_bits()
    }
}

/// Conversion of integers to f32, rounded to nearest.
struct ToSingle<I>(PhantomData<I>);

/// Conversion of floats to integers, saturated: `ROUND` as in [`Round`].
struct ToInteger<F, I, const ROUND: u8>(PhantomData<(F, I)>);

const NEAR: u8 = 0;
const ZERO: u8 = 1;
const DOWN: u8 = 2;
const UP: u8 = 3;

macro_rules! to_single {
    ($($int:ty)*) => {$(
        impl Op1 for ToSingle<$int> {
            type A = $int;
            type R = f32;
            #[inline(always)]
            fn f(a: $int) -> f32 { a as f32 }
        }
    )*};
}
to_single! { u8 i8 u16 i16 u32 i32 u64 i64 }

macro_rules! to_integer {
    ($($float:ty, $int:ty, $nan:expr;)*) => {$(
        impl<const ROUND: u8> Op1 for ToInteger<$float, $int, ROUND> {
            type A = $float;
            type R = $int;
            #[inline(always)]
            fn f(a: $float) -> $int {
                let whole = match ROUND {
                    NEAR => a.round_ties_even(),
                    ZERO => a,
                    DOWN => a.floor(),
                    _ => a.ceil(),
                };
                if a.is_nan() { $nan } else { whole as $int }
            }
        }
    )*};
}
to_integer! {
    f32, i32, 0;
    f32, u32, 0;
    f32, i64, i64::MIN;
    f32, u64, 1 << 63;
    f64, i32, i32::MIN;
    f64, u32, 1 << 31;
    f64, i64, i64::MIN;
    f64, u64, 1 << 63;
}

fn format(ty: Scalar) -> Option<soft::Format> {
    Some(match ty {
        Scalar::F16 => soft::F16,
        Scalar::Bf16 => soft::BF16,
        Scalar::F32 => soft::F32,
        Scalar::F64 => soft::F64,
        _ => return None,
    })
}

/// The low bits of a register as an integer of its type.
fn integer(ty: Scalar, bits: u64) -> i128 {
    match ty {
        Scalar::S8 => i128::from(bits as i8),
        Scalar::S16 => i128::from(bits as i16),
        Scalar::S32 => i128::from(bits as i32),
        Scalar::S64 => i128::from(bits as i64),
        Scalar::U8 | Scalar::B8 => i128::from(bits as u8),
        Scalar::U16 | Scalar::B16 => i128::from(bits as u16),
        Scalar::U32 | Scalar::B32 => i128::from(bits as u32),
        _ => i128::from(bits),
    }
}

fn range(ty: Scalar) -> (i128, i128) {
    let bits = 8 * ty.size() as u32;
    if ty.is_signed() {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

/// To an integral value of the same format.
fn integral(x: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => x.round_ties_even(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
        Round::Away => x.round(),
    }
}

fn flushed(ty: Scalar, ftz: bool, bits: u64) -> u64 {
    let small = ftz && ty == Scalar::F32 && bits & 0x7f80_0000 == 0;
    if small { bits & 0x8000_0000 } else { bits }
}

/// A NaN in another type; f64 keeps the payload.
fn nan(to: soft::Format, from: soft::Format, bits: u64) -> u64 {
    if to != soft::F64 {
        return to.nan();
    }
    let (width, mantissa) = from.shape();
    let payload = bits << (52 - mantissa) & 0xf_ffff_ffff_ffff;
    bits >> (width - 1) << 63 | 0x7ff8 << 48 | payload
}

/// Converts one value; `whole`: to an integral value of the same type.
fn convert(to: Scalar, from: Scalar, mode: Mode, whole: bool, bits: u64) -> u64 {
    let bits = flushed(from, mode.ftz, bits);
    let (source, target) = (format(from), format(to));
    let Some(target) = target else {
        let value = match source {
            None => integer(from, bits),
            Some(source) => {
                let wide = soft::convert(source, soft::F64, bits, Round::Nearest);
                let x = f64::from_bits(wide);
                if x.is_nan() {
                    // Zero, except that .f64 sources and 64-bit targets get the top bit.
                    let top = from == Scalar::F64 || to.size() == 8;
                    let lost = if top { 1 << (8 * to.size() - 1) } else { 0 };
                    return integer(to, lost) as u64;
                }
                integral(x, mode.round) as i128
            }
        };
        let (low, high) = range(to);
        let kept = source.is_none() && !mode.sat;
        let value = if kept { value } else { value.clamp(low, high) };
        return integer(to, value as u64) as u64;
    };
    let bits = match source {
        None => soft::from_integer(target, integer(from, bits), mode.round),
        Some(source) if source.is_nan(bits) => nan(target, source, bits),
        Some(source) if whole => {
            let x = f64::from_bits(soft::convert(source, soft::F64, bits, Round::Nearest));
            let x = integral(x, mode.round).to_bits();
            soft::convert(soft::F64, target, x, Round::Nearest)
        }
        Some(source) => soft::convert(source, target, bits, mode.round),
    };
    let bits = if mode.sat {
        saturated(target, bits)
    } else {
        bits
    };
    flushed(to, mode.ftz, bits)
}

/// Clamps to the range from zero to one; NaN becomes zero.
fn saturated(format: soft::Format, bits: u64) -> u64 {
    if format.is_nan(bits) || bits >> (format.shape().0 - 1) != 0 {
        return 0;
    }
    bits.min(soft::from_integer(format, 1, Round::Nearest))
}

/// Any conversion, lane by lane.
struct General<A, R>(PhantomData<(A, R)>);

impl<A: Bits, R: Bits> Kernel for General<A, R> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let (to, from, mode, whole) = match inst.op {
            Op::Convert(to, from, mode) => (to, from, mode, false),
            Op::Integral(ty, mode) => (ty, ty, mode, true),
            _ => return true,
        };
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<A>(cx, inst.slots[1]);
            let mut out = [R::default(); LANES];
            for lane in 0..LANES {
                if mask >> lane & 1 != 0 {
                    out[lane] = R::cut(convert(to, from, mode, whole, a[lane].low()));
                }
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

fn is_word(ty: Scalar) -> bool {
    matches!(ty, Scalar::U32 | Scalar::S32 | Scalar::B32)
}

fn is_double(ty: Scalar) -> bool {
    matches!(ty, Scalar::U64 | Scalar::S64 | Scalar::B64)
}

/// The loop for float to integer, by rounding.
fn whole<F: Lane, I: Lane>(round: Round, isa: Isa) -> Option<Handler>
where
    ToInteger<F, I, NEAR>: Op1,
    ToInteger<F, I, ZERO>: Op1,
    ToInteger<F, I, DOWN>: Op1,
    ToInteger<F, I, UP>: Op1,
{
    Some(match round {
        Round::Nearest => pick::<Map1<ToInteger<F, I, NEAR>>>(isa),
        Round::Zero => pick::<Map1<ToInteger<F, I, ZERO>>>(isa),
        Round::Down => pick::<Map1<ToInteger<F, I, DOWN>>>(isa),
        Round::Up => pick::<Map1<ToInteger<F, I, UP>>>(isa),
        Round::Away => return None,
    })
}

/// Conversions between floats, or from integers to floats, that have a loop of their own.
fn quick_float(to: Scalar, from: Scalar, mode: Mode, isa: Isa) -> Option<Handler> {
    use Scalar::{Bf16, F16, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    if mode.round != Round::Nearest {
        return None;
    }
    let plain = !mode.sat && !mode.ftz;
    Some(match (to, from) {
        (F32, F32) => match (mode.sat, mode.ftz) {
            (true, true) => pick::<Map1<SatFtz32>>(isa),
            (true, false) => pick::<Map1<Sat32>>(isa),
            (false, true) => pick::<Map1<Ftz32>>(isa),
            (false, false) => return None,
        },
        _ if !plain => return None,
        (F64, S32) => pick::<Map1<S32ToF64>>(isa),
        (F64, U32) => pick::<Map1<U32ToF64>>(isa),
        (F64, F32) => pick::<Map1<F32ToF64>>(isa),
        (F32, F64) => pick::<Map1<F64ToF32>>(isa),
        (F32, F16) => pick::<Map1<F16ToF32>>(isa),
        (F32, Bf16) => pick::<Map1<Bf16ToF32>>(isa),
        (F16, F32) => pick::<Map1<F32ToF16>>(isa),
        (Bf16, F32) => pick::<Map1<F32ToBf16>>(isa),
        (F32, U8) => pick::<Map1<ToSingle<u8>>>(isa),
        (F32, S8) => pick::<Map1<ToSingle<i8>>>(isa),
        (F32, U16) => pick::<Map1<ToSingle<u16>>>(isa),
        (F32, S16) => pick::<Map1<ToSingle<i16>>>(isa),
        (F32, U32) => pick::<Map1<ToSingle<u32>>>(isa),
        (F32, S32) => pick::<Map1<ToSingle<i32>>>(isa),
        (F32, U64) => pick::<Map1<ToSingle<u64>>>(isa),
        (F32, S64) => pick::<Map1<ToSingle<i64>>>(isa),
        _ => return None,
    })
}

/// Conversions to integers that have a loop of their own.
fn quick_integer(to: Scalar, from: Scalar, mode: Mode, isa: Isa) -> Option<Handler> {
    use Scalar::{F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    let round = mode.round;
    match (to, from) {
        (S32, F32) if !mode.ftz => return whole::<f32, i32>(round, isa),
        (U32, F32) if !mode.ftz => return whole::<f32, u32>(round, isa),
        (S64, F32) if !mode.ftz => return whole::<f32, i64>(round, isa),
        (U64, F32) if !mode.ftz => return whole::<f32, u64>(round, isa),
        (S32, F64) => return whole::<f64, i32>(round, isa),
        (U32, F64) => return whole::<f64, u32>(round, isa),
        (S64, F64) => return whole::<f64, i64>(round, isa),
        (U64, F64) => return whole::<f64, u64>(round, isa),
        _ if mode.sat => return None,
        _ => {}
    }
    Some(match from {
        S32 if is_double(to) => pick::<Map1<S32ToS64>>(isa),
        U32 if is_double(to) => pick::<Map1<U32ToU64>>(isa),
        _ if is_word(to) && is_double(from) => pick::<Map1<U64ToU32>>(isa),
        U16 if is_word(to) => pick::<Map1<U16ToU32>>(isa),
        S16 if is_word(to) => pick::<Map1<S16ToS32>>(isa),
        U8 if is_word(to) => pick::<Map1<U8ToU32>>(isa),
        S8 if is_word(to) => pick::<Map1<S8ToS32>>(isa),
        _ => return None,
    })
}

/// f32 to an integral f32 without other modifiers.
fn quick_integral(ty: Scalar, mode: Mode, isa: Isa) -> Option<Handler> {
    if mode.sat || mode.ftz || ty != Scalar::F32 {
        return None;
    }
    Some(match mode.round {
        Round::Nearest => pick::<Map1<Near32>>(isa),
        Round::Down => pick::<Map1<Down32>>(isa),
        Round::Up => pick::<Map1<Up32>>(isa),
        Round::Zero => pick::<Map1<Trunc32>>(isa),
        Round::Away => return None,
    })
}

/// Any conversion, with any modifiers.
fn general(to: Scalar, from: Scalar, isa: Isa) -> Handler {
    match (from.size() == 8, to.size() == 8) {
        (false, false) => pick::<General<u32, u32>>(isa),
        (false, true) => pick::<General<u32, u64>>(isa),
        (true, false) => pick::<General<u64, u32>>(isa),
        (true, true) => pick::<General<u64, u64>>(isa),
    }
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    match op {
        Op::Integral(ty, mode) => {
            Some(quick_integral(ty, mode, isa).unwrap_or_else(|| general(ty, ty, isa)))
        }
        Op::Convert(to, from, mode) => {
            let quick = if to.is_float() {
                quick_float(to, from, mode, isa)
            } else {
                quick_integer(to, from, mode, isa)
            };
            Some(quick.unwrap_or_else(|| general(to, from, isa)))
        }
        _ => None,
    }
}
