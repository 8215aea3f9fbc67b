//! Arithmetic of f64, to nearest.
//!
//! f64 keeps the payloads of NaN. A NaN result is the first NaN source, quieted, or the NaN of
//! invalid operations. Machines differ in this, so it is explicit here.

use super::rules::{INVALID, least64, most64, payload};
use crate::decode::form::{Float1, Float2, Mode, Op};
use crate::lane_loop::{Handler, Isa, Map1, Map2, Map3, Op1, Op2, Op3, always, by_kind, ops, pick};
use std::marker::PhantomData;

/// An operation with NaN results that keep a source's payload.
struct KeptPayload<O>(PhantomData<O>);

impl<O: Op1<A = f64, R = f64>> Op1 for KeptPayload<O> {
    type A = f64;
    type R = u64;
    #[inline(always)]
    fn f(a: f64) -> u64 {
        payload(O::f(a), [a; 3])
    }
}

impl<O: Op2<A = f64, B = f64, R = f64>> Op2 for KeptPayload<O> {
    type A = f64;
    type B = f64;
    type R = u64;
    #[inline(always)]
    fn f(a: f64, b: f64) -> u64 {
        payload(O::f(a, b), [a, b, b])
    }
}

impl<O: Op3<A = f64, B = f64, C = f64, R = f64>> Op3 for KeptPayload<O> {
    type A = f64;
    type B = f64;
    type C = f64;
    type R = u64;
    #[inline(always)]
    fn f(a: f64, b: f64, c: f64) -> u64 {
        payload(O::f(a, b, c), [a, b, c])
    }
}

/// The `.approx.ftz` forms read and return only the upper 32 bits, and flush subnormal numbers.
#[inline(always)]
fn upper(a: f64) -> f64 {
    let kept = if a.abs() < f64::MIN_POSITIVE {
        0.0_f64.copysign(a)
    } else {
        a
    };
    // These forms have only one NaN.
    let bits = if a.is_nan() { INVALID } else { kept.to_bits() };
    f64::from_bits(bits & !0xffff_ffff)
}

ops! { 1;
    Abs(a: f64) -> f64 = a.abs();
    Neg(a: f64) -> f64 = -a;
    Rcp(a: f64) -> f64 = 1.0 / a;
    Sqrt(a: f64) -> f64 = a.sqrt();
    Rsqrt(a: f64) -> f64 = 1.0 / a.sqrt();
    RcpUpper(a: f64) -> f64 = upper(1.0 / upper(a));
    RsqrtUpper(a: f64) -> f64 = upper(1.0 / upper(a).sqrt());
}

ops! { 2;
    Add(a: f64, b: f64) -> f64 = a + b;
    Sub(a: f64, b: f64) -> f64 = a - b;
    Mul(a: f64, b: f64) -> f64 = a * b;
    Div(a: f64, b: f64) -> f64 = a / b;
    Min(a: f64, b: f64) -> f64 = least64(a, b);
    Max(a: f64, b: f64) -> f64 = most64(a, b);
    Copysign(a: f64, b: f64) -> f64 = b.copysign(a);
}

ops! { 3;
    Fma(a: f64, b: f64, c: f64) -> f64 = a.mul_add(b, c);
}

/// The handler of an operation with NaN results that keep a source's payload.
macro_rules! kept_payload {
    (($isa:expr, $map:ident) $op:ident) => {
        pick::<$map<KeptPayload<$op>>>($isa)
    };
}

pub(super) fn handler(op: Op, mode: Mode, isa: Isa) -> Option<Handler> {
    Some(match op {
        Op::Float1(Float1::Rcp, ..) if mode.ftz => pick::<Map1<RcpUpper>>(isa),
        Op::Float1(Float1::Rsqrt, ..) if mode.ftz => pick::<Map1<RsqrtUpper>>(isa),
        Op::Float1(op, ..) => by_kind! { op, Float1;
            @kept_payload (isa, Map1): Rcp Sqrt Rsqrt;
            @always (isa, Map1): Abs Neg;
            _ => return None,
        },
        Op::Float2(op, ..) => by_kind! { op, Float2;
            @kept_payload (isa, Map2): Add Sub Mul Div Min Max;
            @always (isa, Map2): Copysign;
            _ => return None,
        },
        Op::Fma(..) => kept_payload! { (isa, Map3) Fma },
        _ => return None,
    })
}
