//! Integers of 16 bits, two in a register, and the integer extremes that stop at zero.

use crate::decode::form::{Int2, Op};
use crate::lane_loop::{Handler, Isa, Map2, ops, pick};
use ptx::Scalar;

/// True if this family handles an operation.
pub(super) fn covers(op: Op) -> bool {
    match op {
        Op::Int2(Int2::MinRelu | Int2::MaxRelu, _) => true,
        Op::Int2(_, ty) => matches!(ty, Scalar::U16x2 | Scalar::S16x2),
        _ => false,
    }
}

/// Applies a function to both halves.
#[inline(always)]
fn unsigned(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    let high = f((a >> 16) as u16, (b >> 16) as u16);
    u32::from(high) << 16 | u32::from(f(a as u16, b as u16))
}

/// As `unsigned`, with signed halves.
#[inline(always)]
fn signed(a: u32, b: u32, f: impl Fn(i16, i16) -> i16) -> u32 {
    unsigned(a, b, |a, b| f(a as i16, b as i16) as u16)
}

ops! { 2;
    Add(a: u32, b: u32) -> u32 = unsigned(a, b, u16::wrapping_add);
    UMin(a: u32, b: u32) -> u32 = unsigned(a, b, u16::min);
    UMax(a: u32, b: u32) -> u32 = unsigned(a, b, u16::max);
    SMin(a: u32, b: u32) -> u32 = signed(a, b, i16::min);
    SMax(a: u32, b: u32) -> u32 = signed(a, b, i16::max);
    SMinRelu(a: u32, b: u32) -> u32 = signed(a, b, |a, b| a.min(b).max(0));
    SMaxRelu(a: u32, b: u32) -> u32 = signed(a, b, |a, b| a.max(b).max(0));
    MinRelu(a: i32, b: i32) -> i32 = a.min(b).max(0);
    MaxRelu(a: i32, b: i32) -> i32 = a.max(b).max(0);
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    let Op::Int2(op, ty) = op else { return None };
    Some(match (op, ty) {
        (Int2::Add, Scalar::U16x2 | Scalar::S16x2) => pick::<Map2<Add>>(isa),
        (Int2::Min, Scalar::U16x2) => pick::<Map2<UMin>>(isa),
        (Int2::Max, Scalar::U16x2) => pick::<Map2<UMax>>(isa),
        (Int2::Min, Scalar::S16x2) => pick::<Map2<SMin>>(isa),
        (Int2::Max, Scalar::S16x2) => pick::<Map2<SMax>>(isa),
        (Int2::MinRelu, Scalar::S16x2) => pick::<Map2<SMinRelu>>(isa),
        (Int2::MaxRelu, Scalar::S16x2) => pick::<Map2<SMaxRelu>>(isa),
        (Int2::MinRelu, Scalar::S32) => pick::<Map2<MinRelu>>(isa),
        (Int2::MaxRelu, Scalar::S32) => pick::<Map2<MaxRelu>>(isa),
        _ => return None,
    })
}
