//! Integer arithmetic and logic of one and two sources.

use crate::decode::form::{Int1, Int2, Op};
use crate::lane_loop::{Handler, Isa, Map1, Map2, ops, pick};
use crate::lane_value::Lane;
use ptx::Scalar;

/// What integer lanes can do, totally.
pub(crate) trait Int: Lane {
    type Wide: Lane;
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
}

macro_rules! int {
    ($($ty:ident $unsigned:ident $wide:ident $huge:ident $signed:literal;)*) => {$(
        impl Int for $ty {
            type Wide = $wide;
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
                // The hardware gives all ones for a zero divisor.
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
                // The first bit that differs from the sign, for signed types.
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
fn low24<T: Int>(a: T, signed: bool) -> i64 {
    let bits = crate::lane_value::Bits::low(a.bits()) as i64;
    if signed {
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
    UMul24Lo(a: u32, b: u32) -> u32 = (low24(a, false) * low24(b, false)) as u32;
    SMul24Lo(a: i32, b: i32) -> u32 = (low24(a, true) * low24(b, true)) as u32;
    UMul24Hi(a: u32, b: u32) -> u32 = ((low24(a, false) * low24(b, false)) >> 16) as u32;
    SMul24Hi(a: i32, b: i32) -> u32 = ((low24(a, true) * low24(b, true)) >> 16) as u32;
    BmskClamp(a: u32, b: u32) -> u32 = if a >= 32 { 0 } else { mask(a, b) };
    BmskWrap(a: u32, b: u32) -> u32 = mask(a & 31, b & 31);
    SzextClampS(a: i32, b: u32) -> i32 =
        if b == 0 { 0 } else { a << (32 - b.min(32)) >> (32 - b.min(32)) };
    SzextClampU(a: u32, b: u32) -> u32 = a & mask(0, b);
    SzextWrapS(a: i32, b: u32) -> i32 =
        if b & 31 == 0 { 0 } else { a << (32 - (b & 31)) >> (32 - (b & 31)) };
    SzextWrapU(a: u32, b: u32) -> u32 = a & mask(0, b & 31);
}

/// Chooses by integer type; untyped bits count as unsigned.
macro_rules! by_type {
    ($ty:expr, $isa:expr, $map:ident, $op:ident) => {
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

/// As `by_type`, where the sign makes no difference.
macro_rules! by_width {
    ($ty:expr, $isa:expr, $map:ident, $op:ident) => {
        match $ty.size() {
            2 => pick::<$map<$op<u16>>>($isa),
            4 => pick::<$map<$op<u32>>>($isa),
            8 => pick::<$map<$op<u64>>>($isa),
            _ => return None,
        }
    };
}
pub(super) use by_width;

fn two(op: Int2, ty: Scalar, isa: Isa) -> Option<Handler> {
    let signed = ty.is_signed();
    Some(match op {
        Int2::Add if ty == Scalar::S16 => pick::<Map2<Add<i16>>>(isa),
        Int2::Add => by_width!(ty, isa, Map2, Add),
        Int2::Sub if ty == Scalar::S16 => pick::<Map2<Sub<i16>>>(isa),
        Int2::Sub => by_width!(ty, isa, Map2, Sub),
        Int2::Mul if ty == Scalar::S16 => pick::<Map2<Mul<i16>>>(isa),
        Int2::Mul => by_width!(ty, isa, Map2, Mul),
        Int2::MulHi => by_type!(ty, isa, Map2, MulHi),
        Int2::MulWide => match ty {
            Scalar::U16 => pick::<Map2<MulWide<u16>>>(isa),
            Scalar::S16 => pick::<Map2<MulWide<i16>>>(isa),
            Scalar::U32 => pick::<Map2<MulWide<u32>>>(isa),
            Scalar::S32 => pick::<Map2<MulWide<i32>>>(isa),
            _ => return None,
        },
        Int2::Div => by_type!(ty, isa, Map2, Div),
        Int2::Rem => by_type!(ty, isa, Map2, Rem),
        Int2::Min => by_type!(ty, isa, Map2, Min),
        Int2::Max => by_type!(ty, isa, Map2, Max),
        Int2::MinRelu | Int2::MaxRelu => return None,
        Int2::And => by_width!(ty, isa, Map2, And),
        Int2::Or => by_width!(ty, isa, Map2, Or),
        Int2::Xor => by_width!(ty, isa, Map2, Xor),
        Int2::Shl => by_width!(ty, isa, Map2, Shl),
        Int2::Shr => by_type!(ty, isa, Map2, Shr),
        Int2::AddSat => pick::<Map2<AddSat>>(isa),
        Int2::SubSat => pick::<Map2<SubSat>>(isa),
        Int2::Mul24Lo if signed => pick::<Map2<SMul24Lo>>(isa),
        Int2::Mul24Lo => pick::<Map2<UMul24Lo>>(isa),
        Int2::Mul24Hi if signed => pick::<Map2<SMul24Hi>>(isa),
        Int2::Mul24Hi => pick::<Map2<UMul24Hi>>(isa),
        Int2::BmskClamp => pick::<Map2<BmskClamp>>(isa),
        Int2::BmskWrap => pick::<Map2<BmskWrap>>(isa),
        Int2::SzextClamp if signed => pick::<Map2<SzextClampS>>(isa),
        Int2::SzextClamp => pick::<Map2<SzextClampU>>(isa),
        Int2::SzextWrap if signed => pick::<Map2<SzextWrapS>>(isa),
        Int2::SzextWrap => pick::<Map2<SzextWrapU>>(isa),
    })
}

fn one(op: Int1, ty: Scalar, isa: Isa) -> Option<Handler> {
    Some(match op {
        Int1::Abs => by_type!(ty, isa, Map1, Abs),
        Int1::Neg => by_type!(ty, isa, Map1, Neg),
        Int1::Not => by_width!(ty, isa, Map1, Not),
        Int1::Cnot => by_width!(ty, isa, Map1, Cnot),
        Int1::Popc => by_width!(ty, isa, Map1, Popc),
        Int1::Clz => by_width!(ty, isa, Map1, Clz),
        Int1::Brev => by_width!(ty, isa, Map1, Brev),
        Int1::Bfind => by_type!(ty, isa, Map1, Bfind),
        Int1::BfindShift => by_type!(ty, isa, Map1, BfindShift),
    })
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    match op {
        Op::Int1(op, ty) => one(op, ty, isa),
        Op::Int2(op, ty) => two(op, ty, isa),
        _ => None,
    }
}
