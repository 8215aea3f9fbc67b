//! The lanes of a warp, and the value of one lane as stored in a register.

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// The mask of all lanes.
pub(crate) const FULL: u32 = u32::MAX;

/// The bits of one lane of a bank.
pub(crate) trait Bits: Copy + Default {
    /// True for the bank of 64-bit registers.
    const DOUBLE: bool;
    fn low(self) -> u64;
    fn cut(value: u64) -> Self;
}

impl Bits for u32 {
    const DOUBLE: bool = false;
    #[inline(always)]
    fn low(self) -> u64 {
        u64::from(self)
    }
    #[inline(always)]
    fn cut(value: u64) -> Self {
        value as u32
    }
}

impl Bits for u64 {
    const DOUBLE: bool = true;
    #[inline(always)]
    fn low(self) -> u64 {
        self
    }
    #[inline(always)]
    fn cut(value: u64) -> Self {
        value
    }
}

/// A value as stored in a register.
pub(crate) trait Lane: Copy {
    type Bits: Bits;
    fn of(bits: Self::Bits) -> Self;
    fn bits(self) -> Self::Bits;
}

macro_rules! lane {
    ($($ty:ty, $bits:ty, |$b:ident| $of:expr, |$v:ident| $to:expr;)*) => {$(
        impl Lane for $ty {
            type Bits = $bits;
            #[inline(always)]
            fn of($b: $bits) -> Self { $of }
            #[inline(always)]
            fn bits(self) -> $bits { let $v = self; $to }
        }
    )*};
}

lane! {
    u8, u32, |b| b as u8, |v| u32::from(v);
    i8, u32, |b| b as i8, |v| i32::from(v) as u32;
    u16, u32, |b| b as u16, |v| u32::from(v);
    i16, u32, |b| b as i16, |v| i32::from(v) as u32;
    u32, u32, |b| b, |v| v;
    i32, u32, |b| b as i32, |v| v as u32;
    f32, u32, |b| f32::from_bits(b), |v| v.to_bits();
    u64, u64, |b| b, |v| v;
    i64, u64, |b| b as i64, |v| v as u64;
    f64, u64, |b| f64::from_bits(b), |v| v.to_bits();
}

/// Thirty-two values of a bank.
pub(crate) type Row<B> = [B; LANES];

/// Lanes of a register of 32 bits.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct Words(pub(crate) [u32; LANES]);

/// Lanes of a register of 64 bits.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct Doubles(pub(crate) [u64; LANES]);
