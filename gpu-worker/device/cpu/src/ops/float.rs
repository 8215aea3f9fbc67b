//! Arithmetic of f32, to nearest; other roundings are in `directed`, f64 in `double`.

use super::rules::{finish32, flush, least32, most32};
use super::{directed, double, math};
use crate::decode::form::{Float1, Float2, Mode, Op, Round};
use crate::lane_loop::{Handler, Isa, Map1, Map2, Map3, Op1, Op2, Op3, always, by_kind, ops, pick};
use ptx::Scalar;
use std::marker::PhantomData;

/// An f32 operation with its modifiers.
struct Finished<O, const FTZ: bool, const SAT: bool>(PhantomData<O>);

#[inline(always)]
fn enter(x: f32, ftz: bool) -> f32 {
    if ftz { flush(x) } else { x }
}

impl<O: Op1<A = f32, R = f32>, const FTZ: bool, const SAT: bool> Op1 for Finished<O, FTZ, SAT> {
    type A = f32;
    type R = f32;
    #[inline(always)]
    fn f(a: f32) -> f32 {
        finish32(O::f(enter(a, FTZ)), FTZ, SAT)
    }
}

impl<O: Op2<A = f32, B = f32, R = f32>, const FTZ: bool, const SAT: bool> Op2
    for Finished<O, FTZ, SAT>
{
    type A = f32;
    type B = f32;
    type R = f32;
    #[inline(always)]
    fn f(a: f32, b: f32) -> f32 {
        finish32(O::f(enter(a, FTZ), enter(b, FTZ)), FTZ, SAT)
    }
}

impl<O: Op3<A = f32, B = f32, C = f32, R = f32>, const FTZ: bool, const SAT: bool> Op3
    for Finished<O, FTZ, SAT>
{
    type A = f32;
    type B = f32;
    type C = f32;
    type R = f32;
    #[inline(always)]
    fn f(a: f32, b: f32, c: f32) -> f32 {
        finish32(O::f(enter(a, FTZ), enter(b, FTZ), enter(c, FTZ)), FTZ, SAT)
    }
}

#[inline(always)]
fn least_nan32(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else {
        least32(a, b)
    }
}

#[inline(always)]
fn most_nan32(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else {
        most32(a, b)
    }
}

ops! { 1;
    Rcp(a: f32) -> f32 = 1.0 / a;
    Sqrt(a: f32) -> f32 = a.sqrt();
    Rsqrt(a: f32) -> f32 = 1.0 / a.sqrt();
    Ex2(a: f32) -> f32 = math::ex2(a);
    Lg2(a: f32) -> f32 = math::lg2(a);
    Sin(a: f32) -> f32 = math::sin(a);
    Cos(a: f32) -> f32 = math::cos(a);
    Tanh(a: f32) -> f32 = math::tanh(a);
    Abs(a: f32) -> f32 = a.abs();
    Neg(a: f32) -> f32 = -a;
    AbsFtz(a: f32) -> f32 = flush(a).abs();
    NegFtz(a: f32) -> f32 = -flush(a);
}

/// `.xorsign`: the sign of the sources' product.
#[inline(always)]
fn xorsign(size: f32, a: f32, b: f32) -> f32 {
    f32::from_bits(size.to_bits() | (a.to_bits() ^ b.to_bits()) & 0x8000_0000)
}

/// `div.approx`: divisors beyond 2^126 give zero, or NaN for an infinite dividend.
#[inline(always)]
fn div_approx(a: f32, b: f32) -> f32 {
    let large = b.abs() > f32::from_bits(0x7e80_0000) && b.abs() < f32::INFINITY;
    let b = if large { f32::INFINITY.copysign(b) } else { b };
    a / b
}

ops! { 2;
    Add(a: f32, b: f32) -> f32 = a + b;
    Sub(a: f32, b: f32) -> f32 = a - b;
    Mul(a: f32, b: f32) -> f32 = a * b;
    Div(a: f32, b: f32) -> f32 = a / b;
    DivApprox(a: f32, b: f32) -> f32 = div_approx(a, b);
    Min(a: f32, b: f32) -> f32 = least32(a, b);
    Max(a: f32, b: f32) -> f32 = most32(a, b);
    MinNan(a: f32, b: f32) -> f32 = least_nan32(a, b);
    MaxNan(a: f32, b: f32) -> f32 = most_nan32(a, b);
    MinXor(a: f32, b: f32) -> f32 = xorsign(least32(a.abs(), b.abs()), a, b);
    MaxXor(a: f32, b: f32) -> f32 = xorsign(most32(a.abs(), b.abs()), a, b);
    MinNanXor(a: f32, b: f32) -> f32 = xorsign(least_nan32(a.abs(), b.abs()), a, b);
    MaxNanXor(a: f32, b: f32) -> f32 = xorsign(most_nan32(a.abs(), b.abs()), a, b);
    // PTX names the sign first.
    Copysign(a: f32, b: f32) -> f32 = b.copysign(a);
}

ops! { 3;
    Fma(a: f32, b: f32, c: f32) -> f32 = a.mul_add(b, c);
    FmaRelu(a: f32, b: f32, c: f32) -> f32 = least_zero(a.mul_add(b, c));
}

#[inline(always)]
fn least_zero(x: f32) -> f32 {
    if x > 0.0 || x.is_nan() { x } else { 0.0 }
}

macro_rules! by_mode {
    (($mode:expr, $isa:expr, $map:ident) $op:ident) => {
        match ($mode.ftz, $mode.sat) {
            (false, false) => pick::<$map<Finished<$op, false, false>>>($isa),
            (false, true) => pick::<$map<Finished<$op, false, true>>>($isa),
            (true, false) => pick::<$map<Finished<$op, true, false>>>($isa),
            (true, true) => pick::<$map<Finished<$op, true, true>>>($isa),
        }
    };
}

fn single(op: Op, mode: Mode, isa: Isa) -> Option<Handler> {
    Some(match op {
        Op::Float1(op, ..) => by_kind! { op, Float1;
            @by_mode (mode, isa, Map1): Rcp Sqrt Rsqrt Ex2 Lg2 Sin Cos Tanh;
            Float1::Abs if mode.ftz => pick::<Map1<AbsFtz>>(isa),
            Float1::Abs => pick::<Map1<Abs>>(isa),
            Float1::Neg if mode.ftz => pick::<Map1<NegFtz>>(isa),
            Float1::Neg => pick::<Map1<Neg>>(isa),
        },
        Op::Float2(op, ..) => by_kind! { op, Float2;
            @by_mode (mode, isa, Map2): Add Sub Mul Div DivApprox Min Max MinNan MaxNan MinXor
                MaxXor MinNanXor MaxNanXor;
            @always (isa, Map2): Copysign;
        },
        Op::Fma(_, _, true) => by_mode! { (mode, isa, Map3) FmaRelu },
        Op::Fma(..) => by_mode! { (mode, isa, Map3) Fma },
        _ => return None,
    })
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    let (ty, mode) = match op {
        Op::Float1(_, ty, mode) | Op::Float2(_, ty, mode) | Op::Fma(ty, mode, _) => (ty, mode),
        _ => return None,
    };
    if mode.round != Round::Nearest {
        return directed::handler(op, ty, isa);
    }
    match ty {
        Scalar::F32 => single(op, mode, isa),
        Scalar::F64 => double::handler(op, mode, isa),
        _ => None,
    }
}
