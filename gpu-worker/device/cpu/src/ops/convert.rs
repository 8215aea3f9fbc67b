//! `cvt`: every pair of types, every rounding.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use super::float::{finish32, flush};
use super::soft;
use crate::decode::form::{Inst, Mode, Op, Round};
use crate::engine::context::Context;
use crate::lanes::{Bits, Handler, Isa, Kernel, LANES, Map1, ops, pick, source, store};
use ptx::Scalar;
use std::marker::PhantomData;

ops! { 1;
    S32ToS64(a: i32) -> i64 = i64::from(a);
    U32ToU64(a: u32) -> u64 = u64::from(a);
    U64ToU32(a: u64) -> u32 = a as u32;
    S32ToF32(a: i32) -> f32 = a as f32;
    U32ToF32(a: u32) -> f32 = a as f32;
    S32ToF64(a: i32) -> f64 = f64::from(a);
    F32ToF64(a: f32) -> f64 = f64::from(a);
    F64ToF32(a: f64) -> f32 = finish32(a as f32, false, false);
    F32ToS32Zero(a: f32) -> i32 = a as i32;
    F32ToS32Near(a: f32) -> i32 = a.round_ties_even() as i32;
    F32ToS32Down(a: f32) -> i32 = a.floor() as i32;
    F32ToS32Up(a: f32) -> i32 = a.ceil() as i32;
    F32ToU32Zero(a: f32) -> u32 = a as u32;
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

pub(super) fn format(ty: Scalar) -> Option<soft::Format> {
    Some(match ty {
        Scalar::F16 => soft::F16,
        Scalar::Bf16 => soft::BF16,
        Scalar::Tf32 => soft::TF32,
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

/// tf32 lies in the high bits of 32.
fn place(ty: Scalar, bits: u64) -> u64 {
    if ty == Scalar::Tf32 { bits << 13 } else { bits }
}

fn subnormal32(ty: Scalar, bits: u64) -> bool {
    ty == Scalar::F32 && bits & 0x7f80_0000 == 0
}

/// One value from type to type. `integral_only`: `.rni` and its like on a float of one size.
pub(crate) fn convert(to: Scalar, from: Scalar, mode: Mode, integral_only: bool, bits: u64) -> u64 {
    let bits = if mode.ftz && subnormal32(from, bits) {
        bits & 0x8000_0000
    } else {
        bits
    };
    match (format(from), format(to)) {
        (None, None) => {
            let value = integer(from, bits);
            let (low, high) = range(to);
            let value = if mode.sat {
                value.clamp(low, high)
            } else {
                value
            };
            integer(to, value as u64) as u64
        }
        (None, Some(format)) => place(
            to,
            soft::from_integer(format, integer(from, bits), mode.round),
        ),
        (Some(source), None) => {
            let wide = soft::convert(source, soft::F64, bits, Round::Nearest);
            let x = f64::from_bits(wide);
            if x.is_nan() {
                // Zero, but for .f64 sources and 64-bit targets the top bit.
                let top = from == Scalar::F64 || to.size() == 8;
                return if top { 1 << (8 * to.size() - 1) } else { 0 };
            }
            let (low, high) = range(to);
            (integral(x, mode.round) as i128).clamp(low, high) as u64
        }
        (Some(source), Some(target)) => {
            let mut bits = bits;
            if integral_only {
                let x = f64::from_bits(soft::convert(source, soft::F64, bits, Round::Nearest));
                bits = integral(x, mode.round).to_bits();
                bits = soft::convert(soft::F64, target, bits, Round::Nearest);
            } else {
                bits = soft::convert(source, target, bits, mode.round);
            }
            if mode.sat {
                let x = f64::from_bits(soft::convert(target, soft::F64, bits, Round::Nearest));
                let x = if x > 0.0 { x.min(1.0) } else { 0.0 };
                bits = soft::convert(soft::F64, target, x.to_bits(), Round::Nearest);
            }
            if mode.ftz && subnormal32(to, bits) {
                bits &= 0x8000_0000;
            }
            place(to, bits)
        }
    }
}

/// Any conversion, lane by lane.
struct General<A, R>(PhantomData<(A, R)>);

impl<A: Bits, R: Bits> Kernel for General<A, R> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Convert(to, from, mode) = inst.op else {
            return true;
        };
        let integral_only = inst.imm != 0;
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<A>(cx, inst.slots[1]);
            let mut out = [R::default(); LANES];
            for lane in 0..LANES {
                if mask >> lane & 1 != 0 {
                    out[lane] = R::cut(convert(to, from, mode, integral_only, a[lane].low()));
                }
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

/// Two f32 into a pair of 16-bit floats; the first source is the high half.
struct Pair;

impl Kernel for Pair {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::ConvertPair(ty, mode) = inst.op else {
            return true;
        };
        let half = if ty == Scalar::F16x2 {
            Scalar::F16
        } else {
            Scalar::Bf16
        };
        let relu = inst.imm != 0;
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<u32>(cx, inst.slots[1]);
            let b = source::<u32>(cx, inst.slots[2]);
            let mut out = [0; LANES];
            for lane in 0..LANES {
                let one = |bits: u32| {
                    let negative = relu && f32::from_bits(bits) <= 0.0;
                    let bits = if negative { 0 } else { u64::from(bits) };
                    convert(half, Scalar::F32, mode, false, bits) as u32
                };
                out[lane] = one(a[lane]) << 16 | one(b[lane]);
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

/// Conversions frequent enough for a loop of their own.
fn quick(to: Scalar, from: Scalar, mode: Mode, isa: Isa) -> Option<Handler> {
    use Scalar::{F32, F64, S8, S16, S32, U8, U16, U32};
    let plain = !mode.sat && !mode.ftz;
    Some(match (to, from) {
        _ if is_double(to) && from == S32 && plain => pick::<Map1<S32ToS64>>(isa),
        _ if is_double(to) && from == U32 && plain => pick::<Map1<U32ToU64>>(isa),
        _ if is_word(to) && is_double(from) && plain => pick::<Map1<U64ToU32>>(isa),
        _ if is_word(to) && from == U16 && plain => pick::<Map1<U16ToU32>>(isa),
        _ if is_word(to) && from == S16 && plain => pick::<Map1<S16ToS32>>(isa),
        _ if is_word(to) && from == U8 && plain => pick::<Map1<U8ToU32>>(isa),
        _ if is_word(to) && from == S8 && plain => pick::<Map1<S8ToS32>>(isa),
        (F64, S32) if plain => pick::<Map1<S32ToF64>>(isa),
        (F64, F32) if plain => pick::<Map1<F32ToF64>>(isa),
        (F32, F32) => match (mode.sat, mode.ftz) {
            (true, true) => pick::<Map1<SatFtz32>>(isa),
            (true, false) => pick::<Map1<Sat32>>(isa),
            (false, true) => pick::<Map1<Ftz32>>(isa),
            (false, false) => return None,
        },
        (F32, S32) if plain && mode.round == Round::Nearest => pick::<Map1<S32ToF32>>(isa),
        (F32, U32) if plain && mode.round == Round::Nearest => pick::<Map1<U32ToF32>>(isa),
        (F32, F64) if plain && mode.round == Round::Nearest => pick::<Map1<F64ToF32>>(isa),
        (S32, F32) if !mode.ftz => match mode.round {
            Round::Zero => pick::<Map1<F32ToS32Zero>>(isa),
            Round::Nearest => pick::<Map1<F32ToS32Near>>(isa),
            Round::Down => pick::<Map1<F32ToS32Down>>(isa),
            Round::Up => pick::<Map1<F32ToS32Up>>(isa),
            Round::Away => return None,
        },
        (U32, F32) if !mode.ftz && mode.round == Round::Zero => pick::<Map1<F32ToU32Zero>>(isa),
        _ => return None,
    })
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    let Op::Convert(to, from, mode) = op else {
        return Some(pick::<Pair>(isa));
    };
    if let Some(found) = quick(to, from, mode, isa) {
        return Some(found);
    }
    Some(general(to, from, isa))
}

/// f32 to an integral f32 without other modifiers.
pub(crate) fn integral32(mode: Mode, isa: Isa) -> Option<Handler> {
    if mode.sat || mode.ftz {
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

/// Any conversion, however it is modified.
pub(crate) fn general(to: Scalar, from: Scalar, isa: Isa) -> Handler {
    match (from.size() == 8, to.size() == 8) {
        (false, false) => pick::<General<u32, u32>>(isa),
        (false, true) => pick::<General<u32, u64>>(isa),
        (true, false) => pick::<General<u64, u32>>(isa),
        (true, true) => pick::<General<u64, u64>>(isa),
    }
}
