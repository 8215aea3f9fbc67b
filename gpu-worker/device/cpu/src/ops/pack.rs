//! `cvt` into the formats of tensor cores, alone and in pairs, and `cvt.pack`.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use super::narrow::{narrow, widen};
use super::soft;
use crate::decode::form::{Inst, Narrowing, Op, Round, Small, Taken};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, pick, source, store};
use crate::lane_value::LANES;

/// The greatest finite number of a format.
fn greatest(small: Small) -> f32 {
    match small {
        Small::F16 => 65_504.0,
        Small::Bf16 => f32::from_bits(0x7f7f_0000),
        Small::Tf32 => f32::from_bits(0x7f7f_e000),
        Small::E4m3 => 448.0,
        Small::E5m2 => 57_344.0,
    }
}

/// A whole multiple of a format's last place, near a number that is not too large.
fn on_grid(x: f32, mantissa: i32, least: i32) -> f32 {
    let exponent = (x.to_bits() >> 23 & 0xff) as i32 - 127;
    let last = exponent.max(least) - mantissa;
    let scale = f64::exp2(f64::from(last));
    ((f64::from(x) / scale).round_ties_even() * scale) as f32
}

/// Into 8 bits of 4 exponent bits and 3 of mantissa.
fn e4m3(x: f32) -> u32 {
    if x.is_nan() {
        return 0x7f;
    }
    let near = on_grid(x, 3, -6);
    let sign = near.to_bits() >> 24 & 0x80;
    let size = near.abs();
    if size < f32::exp2(-6.0) {
        return sign | (size * 512.0) as u32;
    }
    sign | ((size.to_bits() >> 20) - (120 << 3))
}

/// Into 8 bits of 5 exponent bits and 2 of mantissa: half of an f16.
fn e5m2(x: f32) -> u32 {
    if x.is_nan() {
        return 0x7f;
    }
    narrow::<false>(on_grid(x, 2, -14)) >> 8
}

fn tf32(x: f32, round: Round) -> u32 {
    if x.is_nan() {
        return 0x7fff_ffff;
    }
    let bits = x.to_bits();
    let carry = match round {
        Round::Nearest => 0xfff + (bits >> 13 & 1),
        Round::Away => 0x1000,
        _ => 0,
    };
    // Infinity has no lower bits that could carry.
    let kept = if x.is_finite() { bits + carry } else { bits };
    kept & !0x1fff
}

/// Converts one number.
fn one(how: Narrowing, x: f32) -> u32 {
    let most = greatest(how.to);
    let x = if how.relu && x <= 0.0 { 0.0 } else { x };
    let x = if how.finite { x.clamp(-most, most) } else { x };
    match (how.to, how.round) {
        (Small::F16, Round::Nearest) => narrow::<false>(x),
        (Small::Bf16, Round::Nearest) => narrow::<true>(x),
        (Small::F16, round) => toward(soft::F16, x, round),
        (Small::Bf16, round) => toward(soft::BF16, x, round),
        (Small::Tf32, round) => tf32(x, round),
        (Small::E4m3, _) => e4m3(x),
        (Small::E5m2, _) => e5m2(x),
    }
}

fn toward(format: soft::Format, x: f32, round: Round) -> u32 {
    soft::convert(soft::F32, format, u64::from(x.to_bits()), round) as u32
}

/// Conversion of numbers to small formats.
struct Narrowed;

impl Kernel for Narrowed {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Narrow(how) = inst.op else {
            return true;
        };
        let shift = match how.to {
            Small::E4m3 | Small::E5m2 => 8,
            _ => 16,
        };
        let second = if how.taken == Taken::Two { 2 } else { 1 };
        let mut out = [0; LANES];
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<u32>(cx, inst.slots[1]);
            let b = source::<u32>(cx, inst.slots[second]);
            for (lane, out) in out.iter_mut().enumerate() {
                let (a, b) = (a[lane], b[lane]);
                *out = match how.taken {
                    Taken::One => one(how, f32::from_bits(a)),
                    Taken::Two => {
                        let high = one(how, f32::from_bits(a));
                        high << shift | one(how, f32::from_bits(b))
                    }
                    Taken::Halves => {
                        let high = one(how, widen::<false>(a >> 16));
                        high << shift | one(how, widen::<false>(a & 0xffff))
                    }
                };
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

/// The f16 for an 8-bit float.
fn half_of(small: Small, bits: u32, relu: bool) -> u32 {
    let (sign, size) = (bits << 8 & 0x8000, bits & 0x7f);
    let nan = match small {
        Small::E4m3 => size == 0x7f,
        _ => size > 0x7c,
    };
    let half = match (small, size >> 3) {
        (Small::E5m2, _) => size << 8,
        (_, 0) => narrow::<false>(size as f32 / 512.0),
        _ => (size << 7) + (8 << 10),
    };
    if nan {
        0x7fff
    } else if relu && sign != 0 {
        0
    } else {
        sign | half
    }
}

/// Conversion of pairs of 8 bits to pairs of f16.
struct Widened;

impl Kernel for Widened {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::WidenPair(small, relu) = inst.op else {
            return true;
        };
        let mut out = [0; LANES];
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<u32>(cx, inst.slots[1]);
            for (lane, out) in out.iter_mut().enumerate() {
                let high = half_of(small, a[lane] >> 8 & 0xff, relu);
                *out = high << 16 | half_of(small, a[lane] & 0xff, relu);
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

/// Two integers saturated side by side, merged into a third source.
struct SideBySide;

impl Kernel for SideBySide {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::PackSat { bits, signed } = inst.op else {
            return true;
        };
        let bits = u32::from(bits);
        let (low, high) = if signed {
            (-(1_i32 << (bits - 1)), (1_i32 << (bits - 1)) - 1)
        } else {
            (0, (1_i32 << bits) - 1)
        };
        let ones = (1_u32 << bits) - 1;
        let mut out = [0; LANES];
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let rows = [1, 2, 3].map(|at| source::<u32>(cx, inst.slots[at]));
            for (lane, out) in out.iter_mut().enumerate() {
                let [a, b, c] = rows.map(|row| row[lane]);
                let one = |x: u32| (x as i32).clamp(low, high) as u32 & ones;
                let above = if bits == 16 { 0 } else { c << (2 * bits) };
                *out = above | one(a) << bits | one(b);
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    match op {
        Op::Narrow(_) => Some(pick::<Narrowed>(isa)),
        Op::WidenPair(..) => Some(pick::<Widened>(isa)),
        Op::PackSat { .. } => Some(pick::<SideBySide>(isa)),
        _ => None,
    }
}
