//! Arithmetic of f16, bf16 and their pairs.
//!
//! Each lane is widened to f64, where products of these formats are exact, and rounded once.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use super::{math, soft};
use crate::decode::form::{Float1, Float2, Inst, Mode, Op, Round};
use crate::engine::context::Context;
use crate::lanes::{Handler, Isa, Kernel, LANES, pick, source, store};
use ptx::Scalar;

/// Whether this family handles a type.
pub(super) fn covers(ty: Scalar) -> bool {
    matches!(
        ty,
        Scalar::F16 | Scalar::F16x2 | Scalar::Bf16 | Scalar::Bf16x2
    )
}

pub(super) fn widen(format: soft::Format, bits: u32) -> f64 {
    f64::from_bits(soft::convert(
        format,
        soft::F64,
        u64::from(bits),
        Round::Nearest,
    ))
}

fn one(op: Float1, x: f64) -> f64 {
    match op {
        Float1::Abs => x.abs(),
        Float1::Neg => -x,
        Float1::Rcp => 1.0 / x,
        Float1::Sqrt => x.sqrt(),
        Float1::Rsqrt => 1.0 / x.sqrt(),
        Float1::Ex2 => f64::from(math::ex2(x as f32)),
        Float1::Lg2 => f64::from(math::lg2(x as f32)),
        Float1::Sin => x.sin(),
        Float1::Cos => x.cos(),
        Float1::Tanh => f64::from(math::tanh(x as f32)),
    }
}

fn two(op: Float2, a: f64, b: f64) -> f64 {
    use super::float::{least_nan64, least64, most_nan64, most64};
    match op {
        Float2::Add => a + b,
        Float2::Sub => a - b,
        Float2::Mul => a * b,
        Float2::Div | Float2::DivApprox => a / b,
        Float2::Min => least64(a, b),
        Float2::Max => most64(a, b),
        Float2::MinNan => least_nan64(a, b),
        Float2::MaxNan => most_nan64(a, b),
        Float2::Copysign => b.copysign(a),
    }
}

/// One value of 16 bits through an operation.
fn value(op: Op, format: soft::Format, mode: Mode, [a, b, c]: [u32; 3]) -> u32 {
    let enter = |bits: u32| {
        let small = format == soft::F16 && bits & 0x7c00 == 0;
        widen(
            format,
            if mode.ftz && small {
                bits & 0x8000
            } else {
                bits
            },
        )
    };
    if let Op::Float1(sign @ (Float1::Abs | Float1::Neg), ..) = op {
        return if sign == Float1::Abs {
            a & 0x7fff
        } else {
            a ^ 0x8000
        };
    }
    let mut wide = match op {
        Op::Float1(op, ..) => one(op, enter(a)),
        Op::Float2(op, ..) => two(op, enter(a), enter(b)),
        _ => enter(a).mul_add(enter(b), enter(c)),
    };
    if mode.sat {
        wide = if wide > 0.0 { wide.min(1.0) } else { 0.0 };
    }
    if matches!(op, Op::Fma(_, _, true)) && wide <= 0.0 {
        wide = 0.0;
    }
    let bits = soft::convert(soft::F64, format, wide.to_bits(), mode.round) as u32;
    let small = format == soft::F16 && bits & 0x7c00 == 0;
    if mode.ftz && small {
        bits & 0x8000
    } else {
        bits
    }
}

struct Narrow;

impl Kernel for Narrow {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let (ty, mode, count) = match inst.op {
            Op::Float1(_, ty, mode) => (ty, mode, 1),
            Op::Float2(_, ty, mode) => (ty, mode, 2),
            Op::Fma(ty, mode, _) => (ty, mode, 3),
            _ => return true,
        };
        let bf16 = matches!(ty, Scalar::Bf16 | Scalar::Bf16x2);
        let format = if bf16 { soft::BF16 } else { soft::F16 };
        let pair = matches!(ty, Scalar::F16x2 | Scalar::Bf16x2);
        let slots = [1, 2, 3].map(|at| inst.slots[if at <= count { at } else { 1 }]);
        let mut out = [0; LANES];
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let rows = slots.map(|slot| source::<u32>(cx, slot));
            for lane in 0..LANES {
                let low = value(inst.op, format, mode, rows.map(|row| row[lane] & 0xffff));
                out[lane] = if pair {
                    low | value(inst.op, format, mode, rows.map(|row| row[lane] >> 16)) << 16
                } else {
                    low
                };
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

pub(super) fn handler(_: Op, isa: Isa) -> Option<Handler> {
    Some(pick::<Narrow>(isa))
}
