//! Rules for results of floating-point operations: subnormals, NaN, minimum and maximum.

/// Flushes subnormals to zeros of their sign.
#[inline(always)]
pub(super) fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    })
}

/// Finishes every f32 result: the canonical NaN, ftz, saturation to [0, 1].
#[inline(always)]
pub(super) fn finish32(x: f32, ftz: bool, sat: bool) -> f32 {
    let x = if ftz { flush(x) } else { x };
    if sat {
        // NaN fails the first comparison and becomes zero.
        let low = if x > 0.0 { x } else { 0.0 };
        return if low < 1.0 { low } else { 1.0 };
    }
    // In integers, because for floats the compiler may replace one NaN by another.
    let bits = x.to_bits();
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    f32::from_bits(if nan { 0x7fff_ffff } else { bits })
}

/// min and max as in PTX: -0 is below +0, and a number wins over a NaN.
macro_rules! extremes {
    ($($ty:ident $least:ident $most:ident;)*) => {$(
        #[inline(always)]
        pub(super) fn $least(a: $ty, b: $ty) -> $ty {
            let tie = $ty::from_bits(a.to_bits() | b.to_bits());
            let less = if a == b { tie } else if a < b { a } else { b };
            if a.is_nan() { b } else if b.is_nan() { a } else { less }
        }
        #[inline(always)]
        pub(super) fn $most(a: $ty, b: $ty) -> $ty {
            let tie = $ty::from_bits(a.to_bits() & b.to_bits());
            let more = if a == b { tie } else if a > b { a } else { b };
            if a.is_nan() { b } else if b.is_nan() { a } else { more }
        }
    )*};
}

extremes! {
    f32 least32 most32;
    f64 least64 most64;
}

/// The result of an invalid operation.
pub(super) const INVALID: u64 = 0xfff8_0000_0000_0000;
const QUIET: u64 = 1 << 51;

/// The result's bits; a NaN is replaced by the one that follows from the sources.
#[inline(always)]
pub(super) fn payload(result: f64, sources: [f64; 3]) -> u64 {
    let nan = |x: f64| x.to_bits() & (u64::MAX >> 1) > 0x7ff0_0000_0000_0000;
    let [a, b, c] = sources;
    let mut chosen = INVALID;
    chosen = if nan(c) { c.to_bits() | QUIET } else { chosen };
    chosen = if nan(b) { b.to_bits() | QUIET } else { chosen };
    chosen = if nan(a) { a.to_bits() | QUIET } else { chosen };
    if nan(result) {
        chosen
    } else {
        result.to_bits()
    }
}
