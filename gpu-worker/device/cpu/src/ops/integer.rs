//! Integer arithmetic and logic of one and two sources.

use crate::decode::form::{Int1, Int2, Op};
use crate::lane_loop::{Handler, Isa, Map1, Map2, always, by_kind, ops, pick};
use crate::lane_value::{Bits, Lane};
use ptx::Scalar;

/// Total operations of integer lanes.
pub(crate) trait Int: Lane {
    type Wide: Lane;
    const SIGNED: bool;
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn mul_hi(self, b: Self) -> Self;
    fn mul_wide(self, b: Self) -> Self::Wide;
    fn wide_add(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn div(self, b: Self) -> Self;
    fn rem(self, b: Self) -> Self;
    fn least(self, b: Self) -> Self;
    fn most(self, b: Self) -> Self;
    fn and(self, b: Self) -> Self;
    fn or(self, b: Self) -> Self;
    fn xor(self, b: Self) -> Self;
    fn shl(self, by: u32) -> Self;
    fn shr(self, by: u32) -> Self;
    fn abs(self) -> Self;
    fn distance(self, b: Self) -> Self;
    fn zero_or_one(one: bool) -> Self;
    fn is_zero(self) -> bool;
    fn complement(self) -> Self;
    /// Leading-bit position for bfind, or all ones.
    fn find(self) -> u32;
    fn last_bit() -> u32;
    fn ones(self) -> u32;
    fn leading(self) -> u32;
    fn mirror(self) -> Self;
    /// The lowest bits, sign- or zero-extended; `count` must not exceed the width.
    fn lowest(self, count: u32) -> Self;
}

macro_rules! int {
    ($($ty:ident $unsigned:ident $wide:ident $huge:ident $signed:literal;)*) => {$(
        impl Int for $ty {
            type Wide = $wide;
            const SIGNED: bool = $signed;
            #[inline(always)]
            fn add(self, b: Self) -> Self { self.wrapping_add(b) }
            #[inline(always)]
            fn sub(self, b: Self) -> Self { self.wrapping_sub(b) }
            #[inline(always)]
            fn mul(self, b: Self) -> Self { self.wrapping_mul(b) }
            #[inline(always)]
            fn mul_hi(self, b: Self) -> Self {
                ((self as $huge * b as $huge) >> $ty::BITS) as $ty
            }
            #[inline(always)]
            fn mul_wide(self, b: Self) -> $wide { (self as $wide).wrapping_mul(b as $wide) }
            #[inline(always)]
            fn wide_add(a: $wide, b: $wide) -> $wide { a.wrapping_add(b) }
            #[inline(always)]
            fn div(self, b: Self) -> Self {
                // The hardware returns all ones for a zero divisor.
                if b == 0 { !0 } else { self.wrapping_div(b) }
            }
            #[inline(always)]
            fn rem(self, b: Self) -> Self {
                if b == 0 { self } else { self.wrapping_rem(b) }
            }
            #[inline(always)]
            fn least(self, b: Self) -> Self { if self < b { self } else { b } }
            #[inline(always)]
            fn most(self, b: Self) -> Self { if self > b { self } else { b } }
            #[inline(always)]
            fn and(self, b: Self) -> Self { self & b }
            #[inline(always)]
            fn or(self, b: Self) -> Self { self | b }
            #[inline(always)]
            fn xor(self, b: Self) -> Self { self ^ b }
            #[inline(always)]
            fn shl(self, by: u32) -> Self {
                if by >= $ty::BITS { 0 } else { self << by }
            }
            #[inline(always)]
            fn shr(self, by: u32) -> Self {
                let most = $ty::BITS - 1;
                if $signed { self >> by.min(most) }
                else if by > most { 0 }
                else { self >> by }
            }
            #[inline(always)]
            fn abs(self) -> Self {
                if $signed && self < (0 as $ty) { (0 as $ty).wrapping_sub(self) } else { self }
            }
            #[inline(always)]
            fn distance(self, b: Self) -> Self {
                if self < b { b.wrapping_sub(self) } else { self.wrapping_sub(b) }
            }
            #[inline(always)]
            fn zero_or_one(one: bool) -> Self { one as $ty }
            #[inline(always)]
            fn is_zero(self) -> bool { self == 0 }
            #[inline(always)]
            fn complement(self) -> Self { !self }
            #[inline(always)]
            fn find(self) -> u32 {
                // For signed types, the first bit that differs from the sign.
                let bits = self as $unsigned;
                let sign = if $signed && self < (0 as $ty) { !bits } else { bits };
                if sign == 0 { u32::MAX } else { $ty::BITS - 1 - sign.leading_zeros() }
            }
            #[inline(always)]
            fn last_bit() -> u32 { $ty::BITS - 1 }
            #[inline(always)]
            fn ones(self) -> u32 { self.count_ones() }
            #[inline(always)]
            fn leading(self) -> u32 { self.leading_zeros() }
            #[inline(always)]
            fn mirror(self) -> Self { self.reverse_bits() }
            #[inline(always)]
            fn lowest(self, count: u32) -> Self {
                if count == 0 { return 0 }
                let unused = $ty::BITS - count;
                self << unused >> unused
            }
        }
    )*};
}

int! {
    u16 u16 u32 u32 false;
    i16 u16 i32 i32 true;
    u32 u32 u64 u64 false;
    i32 u32 i64 i64 true;
    u64 u64 u64 u128 false;
    i64 u64 i64 i128 true;
}

/// The low 24 bits, extended.
#[inline(always)]
pub(super) fn low24<T: Int>(a: T) -> i64 {
    let bits = Bits::low(a.bits()) as i64;
    if T::SIGNED {
        bits << 40 >> 40
    } else {
        bits & 0xff_ffff
    }
}

#[inline(always)]
fn mask(from: u32, width: u32) -> u32 {
    let ones = if width >= 32 {
        u32::MAX
    } else {
        (1_u32 << width) - 1
    };
    ones.shl(from)
}

ops! { 1;
    Abs<T: Int>(a: T) -> T = a.abs();
    Neg<T: Int>(a: T) -> T = T::zero_or_one(false).sub(a);
    Not<T: Int>(a: T) -> T = a.complement();
    Cnot<T: Int>(a: T) -> T = T::zero_or_one(a.is_zero());
    Popc<T: Int>(a: T) -> u32 = a.ones();
    Clz<T: Int>(a: T) -> u32 = a.leading();
    Brev<T: Int>(a: T) -> T = a.mirror();
    Bfind<T: Int>(a: T) -> u32 = a.find();
    BfindShift<T: Int>(a: T) -> u32 =
        if a.find() == u32::MAX { u32::MAX } else { T::last_bit() - a.find() };
}

ops! { 2;
    Add<T: Int>(a: T, b: T) -> T = a.add(b);
    Sub<T: Int>(a: T, b: T) -> T = a.sub(b);
    Mul<T: Int>(a: T, b: T) -> T = a.mul(b);
    MulHi<T: Int>(a: T, b: T) -> T = a.mul_hi(b);
    MulWide<T: Int>(a: T, b: T) -> T::Wide = a.mul_wide(b);
    Div<T: Int>(a: T, b: T) -> T = a.div(b);
    Rem<T: Int>(a: T, b: T) -> T = a.rem(b);
    Min<T: Int>(a: T, b: T) -> T = a.least(b);
    Max<T: Int>(a: T, b: T) -> T = a.most(b);
    And<T: Int>(a: T, b: T) -> T = a.and(b);
    Or<T: Int>(a: T, b: T) -> T = a.or(b);
    Xor<T: Int>(a: T, b: T) -> T = a.xor(b);
    Shl<T: Int>(a: T, b: u32) -> T = a.shl(b);
    Shr<T: Int>(a: T, b: u32) -> T = a.shr(b);
    AddSat(a: i32, b: i32) -> i32 = a.saturating_add(b);
    SubSat(a: i32, b: i32) -> i32 = a.saturating_sub(b);
    Mul24Lo<T: Int>(a: T, b: T) -> u32 = (low24(a) * low24(b)) as u32;
    Mul24Hi<T: Int>(a: T, b: T) -> u32 = ((low24(a) * low24(b)) >> 16) as u32;
    BmskClamp(a: u32, b: u32) -> u32 = if a >= 32 { 0 } else { mask(a, b) };
    BmskWrap(a: u32, b: u32) -> u32 = mask(a & 31, b & 31);
    SzextClamp<T: Int>(a: T, b: u32) -> T = a.lowest(b.min(32));
    SzextWrap<T: Int>(a: T, b: u32) -> T = a.lowest(b & 31);
}

/// Chooses by integer type; untyped bits count as unsigned.
macro_rules! by_type {
    (($ty:expr, $isa:expr, $map:ident) $op:ident) => {
        match $ty {
            Scalar::U16 | Scalar::B16 => pick::<$map<$op<u16>>>($isa),
            Scalar::S16 => pick::<$map<$op<i16>>>($isa),
            Scalar::U32 | Scalar::B32 => pick::<$map<$op<u32>>>($isa),
            Scalar::S32 => pick::<$map<$op<i32>>>($isa),
            Scalar::U64 | Scalar::B64 => pick::<$map<$op<u64>>>($isa),
            Scalar::S64 => pick::<$map<$op<i64>>>($isa),
            _ => return None,
        }
    };
}
pub(super) use by_type;

/// As `by_type`, if the sign makes no difference.
macro_rules! by_width {
    (($ty:expr, $isa:expr, $map:ident) $op:ident) => {
        match $ty.size() {
            2 => pick::<$map<$op<u16>>>($isa),
            4 => pick::<$map<$op<u32>>>($isa),
            8 => pick::<$map<$op<u64>>>($isa),
            _ => return None,
        }
    };
}
pub(super) use by_width;

/// As `by_width`, if a register extends a short result by its sign.
macro_rules! by_extension {
    (($ty:expr, $isa:expr, $map:ident) $op:ident) => {
        match $ty {
            Scalar::S16 => pick::<$map<$op<i16>>>($isa),
            _ => by_width! { ($ty, $isa, $map) $op },
        }
    };
}
pub(super) use by_extension;

/// As `by_type`, for operations with a result twice as wide.
macro_rules! by_half {
    (($ty:expr, $isa:expr, $map:ident) $op:ident) => {
        match $ty {
            Scalar::U64 | Scalar::S64 => return None,
            _ => by_type! { ($ty, $isa, $map) $op },
        }
    };
}
pub(super) use by_half;

/// Chooses between the unsigned and the signed words.
macro_rules! by_sign {
    (($ty:expr, $isa:expr, $map:ident) $op:ident) => {
        if $ty.is_signed() {
            pick::<$map<$op<i32>>>($isa)
        } else {
            pick::<$map<$op<u32>>>($isa)
        }
    };
}
pub(super) use by_sign;

fn two(op: Int2, ty: Scalar, isa: Isa) -> Option<Handler> {
    Some(by_kind! { op, Int2;
        @by_extension (ty, isa, Map2): Add Sub Mul;
        @by_width (ty, isa, Map2): And Or Xor Shl;
        @by_type (ty, isa, Map2): MulHi Div Rem Min Max Shr;
        @by_half (ty, isa, Map2): MulWide;
        @by_sign (ty, isa, Map2): Mul24Lo Mul24Hi SzextClamp SzextWrap;
        @always (isa, Map2): AddSat SubSat BmskClamp BmskWrap;
        Int2::MinRelu | Int2::MaxRelu => return None,
    })
}

fn one(op: Int1, ty: Scalar, isa: Isa) -> Option<Handler> {
    Some(by_kind! { op, Int1;
        @by_type (ty, isa, Map1): Abs Neg Bfind BfindShift;
        @by_width (ty, isa, Map1): Not Cnot Popc Clz Brev;
    })
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    match op {
        Op::Int1(op, ty) => one(op, ty, isa),
        Op::Int2(op, ty) => two(op, ty, isa),
        _ => None,
    }
}
