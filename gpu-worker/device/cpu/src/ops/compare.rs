//! `setp`, `set`, `slct`, `testp`.

#![expect(unsafe_code, reason = "lane loops over raw register files")]
#![expect(
    clippy::needless_range_loop,
    reason = "a lane loop runs over several arrays at once"
)]

use super::narrow::widen;
use super::rules::flush;
use crate::decode::form::{Compare, Inst, Logic, Op, Slot, Test};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, mask_of, pick, source, store};
use crate::lane_value::{FULL, LANES, Lane, Row};
use ptx::Scalar;
use std::marker::PhantomData;

/// Comparable values; integers are never NaN.
trait Ordered: Lane + PartialOrd {
    fn nan(self) -> bool;
    fn enter(self, ftz: bool) -> Self;
}

macro_rules! ordered {
    ($($ty:ty)*) => {$(
        impl Ordered for $ty {
            #[inline(always)]
            fn nan(self) -> bool { false }
            #[inline(always)]
            fn enter(self, _: bool) -> Self { self }
        }
    )*};
}
ordered! { u16 i16 u32 i32 u64 i64 }

impl Ordered for f32 {
    #[inline(always)]
    fn nan(self) -> bool {
        self.is_nan()
    }
    #[inline(always)]
    fn enter(self, ftz: bool) -> Self {
        if ftz { flush(self) } else { self }
    }
}

impl Ordered for f64 {
    #[inline(always)]
    fn nan(self) -> bool {
        self.is_nan()
    }
    #[inline(always)]
    fn enter(self, _: bool) -> Self {
        self
    }
}

/// A 16-bit float, as the f32 it stands for: the lower or the upper half of a register.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Half<const BF16: bool, const UPPER: bool>(f32);

impl<const BF16: bool, const UPPER: bool> Lane for Half<BF16, UPPER> {
    type Bits = u32;
    #[inline(always)]
    fn of(bits: u32) -> Self {
        let shift = if UPPER { 16 } else { 0 };
        Self(widen::<BF16>(bits >> shift & 0xffff))
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        0
    }
}

impl<const BF16: bool, const UPPER: bool> Ordered for Half<BF16, UPPER> {
    #[inline(always)]
    fn nan(self) -> bool {
        self.0.is_nan()
    }
    #[inline(always)]
    fn enter(self, ftz: bool) -> Self {
        // 2^-14 is the smallest normal f16.
        let small = ftz && !BF16 && self.0.abs() < f32::from_bits(0x3880_0000);
        if small { Self(0.0) } else { self }
    }
}

/// The mask of lanes in which a comparison is true.
#[inline(always)]
unsafe fn compared<T: Ordered, const SIMD: bool>(
    cx: &Context<'_>,
    compare: Compare,
    ftz: bool,
    [a, b]: [Slot; 2],
) -> u32 {
    // SAFETY: the caller vouches for the slots.
    let (a, b) = unsafe { (source::<T::Bits>(cx, a), source::<T::Bits>(cx, b)) };
    macro_rules! each {
        (|$x:ident, $y:ident| $e:expr) => {{
            let mut row: Row<u32> = [0; LANES];
            for lane in 0..LANES {
                let ($x, $y) = (T::of(a[lane]).enter(ftz), T::of(b[lane]).enter(ftz));
                row[lane] = if $e { FULL } else { 0 };
            }
            mask_of::<SIMD>(&row)
        }};
    }
    match compare {
        Compare::Eq => each!(|x, y| x == y),
        Compare::Ne => each!(|x, y| x != y && !x.nan() && !y.nan()),
        Compare::Lt => each!(|x, y| x < y),
        Compare::Le => each!(|x, y| x <= y),
        Compare::Gt => each!(|x, y| x > y),
        Compare::Ge => each!(|x, y| x >= y),
        Compare::Equ => each!(|x, y| x == y || x.nan() || y.nan()),
        Compare::Neu => each!(|x, y| x != y),
        Compare::Ltu => each!(|x, y| x < y || x.nan() || y.nan()),
        Compare::Leu => each!(|x, y| x <= y || x.nan() || y.nan()),
        Compare::Gtu => each!(|x, y| x > y || x.nan() || y.nan()),
        Compare::Geu => each!(|x, y| x >= y || x.nan() || y.nan()),
        Compare::Num => each!(|x, y| !x.nan() && !y.nan()),
        Compare::Nan => each!(|x, y| x.nan() || y.nan()),
    }
}

/// Joins a comparison with a predicate.
#[inline(always)]
fn joined(held: u32, with: Option<(Logic, bool)>, other: u32) -> u32 {
    let Some((logic, negated)) = with else {
        return held;
    };
    let other = if negated { !other } else { other };
    match logic {
        Logic::And => held & other,
        Logic::Or => held | other,
        Logic::Xor => held ^ other,
        Logic::Not | Logic::Copy => held,
    }
}

struct Setp<T>(PhantomData<T>);

impl<T: Ordered> Kernel for Setp<T> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Setp(compare, _, ftz, with) = inst.op else {
            return true;
        };
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let held = compared::<T, SIMD>(cx, compare, ftz, [inst.slots[2], inst.slots[3]]);
            let other = if with.is_some() {
                cx.pred(inst.slots[4])
            } else {
                0
            };
            cx.set_pred(inst.slots[0], mask, joined(held, with, other));
            if inst.imm != 0 {
                cx.set_pred(inst.slots[1], mask, joined(!held, with, other));
            }
        }
        true
    }
}

/// `setp` on pairs: the lower halves' comparison and the upper halves'.
struct SetpPair<const BF16: bool>;

impl<const BF16: bool> Kernel for SetpPair<BF16> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Setp(how, _, ftz, with) = inst.op else {
            return true;
        };
        let [p, q, a, b, c, _] = inst.slots;
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let low = compared::<Half<BF16, false>, SIMD>(cx, how, ftz, [a, b]);
            let high = compared::<Half<BF16, true>, SIMD>(cx, how, ftz, [a, b]);
            let other = if with.is_some() { cx.pred(c) } else { 0 };
            cx.set_pred(p, mask, joined(low, with, other));
            if inst.imm != 0 {
                cx.set_pred(q, mask, joined(high, with, other));
            }
        }
        true
    }
}

/// `set` on pairs: all ones or zero in each half, or 1.0 or 0.0.
struct SetPair<const BF16: bool>;

impl<const BF16: bool> Kernel for SetPair<BF16> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Set(how, to, _, ftz, with) = inst.op else {
            return true;
        };
        let [d, a, b, c, ..] = inst.slots;
        let one = match to {
            Scalar::F16x2 => 0x3c00_u32,
            Scalar::Bf16x2 => 0x3f80,
            _ => 0xffff,
        };
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let low = compared::<Half<BF16, false>, SIMD>(cx, how, ftz, [a, b]);
            let high = compared::<Half<BF16, true>, SIMD>(cx, how, ftz, [a, b]);
            let other = if with.is_some() { cx.pred(c) } else { 0 };
            let [low, high] = [low, high].map(|held| joined(held, with, other));
            let mut out = [0; LANES];
            for lane in 0..LANES {
                let pick = |held: u32| if held >> lane & 1 != 0 { one } else { 0 };
                out[lane] = pick(low) | pick(high) << 16;
            }
            store(cx, d, mask, &out);
        }
        true
    }
}

/// `set`: all ones or zero, or 1.0 or 0.0.
struct Set<T>(PhantomData<T>);

impl<T: Ordered> Kernel for Set<T> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Set(compare, to, _, ftz, with) = inst.op else {
            return true;
        };
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let held = compared::<T, SIMD>(cx, compare, ftz, [inst.slots[1], inst.slots[2]]);
            let other = if with.is_some() {
                cx.pred(inst.slots[3])
            } else {
                0
            };
            let held = joined(held, with, other);
            let one = match to {
                Scalar::F32 => 1_f32.to_bits(),
                Scalar::F16 => 0x3c00,
                Scalar::Bf16 => 0x3f80,
                _ => u32::MAX,
            };
            let mut out = [0; LANES];
            for lane in 0..LANES {
                out[lane] = if held >> lane & 1 != 0 { one } else { 0 };
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

/// `slct`: a if c is not negative.
struct Slct<B>(PhantomData<B>);

impl<B: crate::lane_value::Bits> Kernel for Slct<B> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Slct(_, ty, ftz) = inst.op else {
            return true;
        };
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<B>(cx, inst.slots[1]);
            let b = source::<B>(cx, inst.slots[2]);
            let c = source::<u32>(cx, inst.slots[3]);
            let mut out = [B::default(); LANES];
            for lane in 0..LANES {
                let first = if ty == Scalar::F32 {
                    f32::from_bits(c[lane]).enter(ftz) >= 0.0
                } else {
                    c[lane] as i32 >= 0
                };
                out[lane] = if first { a[lane] } else { b[lane] };
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

struct Property<T>(PhantomData<T>);

macro_rules! property {
    ($($ty:ident)*) => {$(
        impl Kernel for Property<$ty> {
            #[inline(always)]
            unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
                let Op::Testp(test, _) = inst.op else { return true };
                // SAFETY: the caller vouches for the slots.
                unsafe {
                    let a = source::<<$ty as Lane>::Bits>(cx, inst.slots[1]);
                    let mut held = 0;
                    for lane in 0..LANES {
                        let x = $ty::from_bits(a[lane]);
                        let is = match test {
                            Test::Finite => x.is_finite(),
                            Test::Infinite => x.is_infinite(),
                            Test::Number => !x.is_nan(),
                            Test::NotANumber => x.is_nan(),
                            // Zeros count as normal.
                            Test::Normal => x.is_normal() || x == 0.0,
                            Test::Subnormal => x.is_subnormal(),
                        };
                        held |= u32::from(is) << lane;
                    }
                    cx.set_pred(inst.slots[0], mask, held);
                }
                true
            }
        }
    )*};
}
property! { f32 f64 }

macro_rules! by_order {
    ($ty:expr, $isa:expr, $kernel:ident) => {
        match $ty {
            Scalar::U16 | Scalar::B16 => pick::<$kernel<u16>>($isa),
            Scalar::S16 => pick::<$kernel<i16>>($isa),
            Scalar::U32 | Scalar::B32 => pick::<$kernel<u32>>($isa),
            Scalar::S32 => pick::<$kernel<i32>>($isa),
            Scalar::U64 | Scalar::B64 => pick::<$kernel<u64>>($isa),
            Scalar::S64 => pick::<$kernel<i64>>($isa),
            Scalar::F32 => pick::<$kernel<f32>>($isa),
            Scalar::F64 => pick::<$kernel<f64>>($isa),
            Scalar::F16 => pick::<$kernel<Half<false, false>>>($isa),
            Scalar::Bf16 => pick::<$kernel<Half<true, false>>>($isa),
            _ => return None,
        }
    };
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    Some(match op {
        Op::Setp(_, Scalar::F16x2, ..) => pick::<SetpPair<false>>(isa),
        Op::Setp(_, Scalar::Bf16x2, ..) => pick::<SetpPair<true>>(isa),
        Op::Set(_, _, Scalar::F16x2, ..) => pick::<SetPair<false>>(isa),
        Op::Set(_, _, Scalar::Bf16x2, ..) => pick::<SetPair<true>>(isa),
        Op::Setp(_, ty, ..) => by_order!(ty, isa, Setp),
        Op::Set(_, _, ty, ..) => by_order!(ty, isa, Set),
        Op::Slct(true, ..) => pick::<Slct<u64>>(isa),
        Op::Slct(false, ..) => pick::<Slct<u32>>(isa),
        Op::Testp(_, Scalar::F64) => pick::<Property<f64>>(isa),
        Op::Testp(_, Scalar::F32) => pick::<Property<f32>>(isa),
        _ => return None,
    })
}
