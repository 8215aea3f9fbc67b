//! Approximate functions of PTX for f32, computed in f64 without branches so that they vectorise.
//!
//! Results are within one unit in the last place of f32, better than the bounds of the ISA.

/// 1.5 * 2^52: adding it rounds to an integer held in the low mantissa bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// 2 to the x, for |x| at most 1100.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    let shifted = x + ROUNDER;
    let whole = shifted - ROUNDER;
    let t = (x - whole) * std::f64::consts::LN_2;
    // Taylor's series: |t| <= 0.347, so the first omitted term is below 1e-11.
    let mut p = 1.0 / 3_628_800.0;
    for c in [
        362_880.0, 40_320.0, 5_040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0,
    ] {
        p = p * t + 1.0 / c;
    }
    let exponent = (shifted.to_bits() << 52).wrapping_add(p.to_bits());
    f64::from_bits(exponent)
}

/// `ex2.approx.f32`.
#[inline(always)]
pub(super) fn ex2(x: f32) -> f32 {
    let wide = f64::from(x);
    // Beyond these the f32 result is infinite or zero anyway.
    let clamped = wide.clamp(-200.0, 200.0);
    let y = exp2(clamped) as f32;
    if x.is_nan() { x } else { y }
}

/// `lg2.approx.f32`.
#[inline(always)]
pub(super) fn lg2(x: f32) -> f32 {
    // Every positive f32 is a normal f64.
    let bits = f64::from(x).to_bits();
    // Mantissa into [sqrt(1/2), sqrt(2)).
    let offset = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = (offset as i64 >> 52) as i32;
    let m = f64::from_bits((offset & 0xf_ffff_ffff_ffff).wrapping_add(0x3fe6_a09e_667f_3bcd));
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let mut p = 1.0 / 15.0;
    for c in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        p = p * q + 1.0 / c;
    }
    let y = (f64::from(exponent) + 2.0 * std::f64::consts::LOG2_E * s * p) as f32;
    if x == 0.0 {
        f32::NEG_INFINITY
    } else if x < 0.0 || x.is_nan() {
        f32::NAN
    } else if x == f32::INFINITY {
        x
    } else {
        y
    }
}

/// Quadrant and remainder in [-pi/4, pi/4].
#[inline(always)]
fn reduce(x: f64) -> (f64, u64) {
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUNDER;
    let k = shifted - ROUNDER;
    // pi/2 in two parts.
    let r = x - k * 1.570_796_326_734_125_6;
    (r - k * 6.077_100_506_506_192e-11, shifted.to_bits())
}

#[inline(always)]
fn sine(r: f64) -> f64 {
    let q = r * r;
    let p = 1.0 / 362_880.0 - q / 39_916_800.0;
    r * (1.0 + q * (-1.0 / 6.0 + q * (1.0 / 120.0 + q * (-1.0 / 5_040.0 + q * p))))
}

#[inline(always)]
fn cosine(r: f64) -> f64 {
    let q = r * r;
    let p = 1.0 / 40_320.0 - q / 3_628_800.0;
    1.0 + q * (-0.5 + q * (1.0 / 24.0 + q * (-1.0 / 720.0 + q * p)))
}

#[inline(always)]
fn wave(x: f32, turn: u64) -> f32 {
    // The approximate instructions promise nothing beyond a few turns; results must stay finite
    // there.
    let wide = f64::from(x);
    let near = if wide.abs() < 1e9 { wide } else { 0.0 };
    let (r, quadrant) = reduce(near);
    let quadrant = quadrant.wrapping_add(turn);
    let value = if quadrant & 1 == 0 {
        sine(r)
    } else {
        cosine(r)
    };
    let value = if quadrant & 2 == 0 { value } else { -value };
    if x.is_finite() {
        value as f32
    } else {
        f32::NAN
    }
}

/// `sin.approx.f32`.
#[inline(always)]
pub(super) fn sin(x: f32) -> f32 {
    wave(x, 0)
}

/// `cos.approx.f32`.
#[inline(always)]
pub(super) fn cos(x: f32) -> f32 {
    wave(x, 1)
}

/// `tanh.approx.f32`.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let wide = f64::from(x);
    let clamped = wide.clamp(-20.0, 20.0);
    let e = exp2(clamped * (2.0 * std::f64::consts::LOG2_E));
    let far = (e - 1.0) / (e + 1.0);
    let near = wide - wide * wide * wide / 3.0;
    let y = if wide.abs() < 0.01 { near } else { far };
    // The difference above loses the sign of a zero.
    if x.is_nan() {
        x
    } else {
        (y as f32).copysign(x)
    }
}
