//! Corners of the instruction set: memory spaces, warps, integers, conversions.

use super::bench::{Bench, Check, CheckFailure, Checked, Wrong, line};
use crate::{Gpu, Params, SplitMix64, kernels};

pub(super) fn checks<G: Gpu>() -> Vec<Check<G>> {
    vec![
        Check::of(&["corners_constant"], constant),
        Check::of(&["corners_global"], global),
        Check::of(&["corners_local"], local),
        Check::of(&["corners_warp"], warp),
        Check::of(&["corners_divergence"], divergence),
        Check::of(&["corners_double"], double),
        Check::of(&["corners_integer"], integer),
        Check::of(&["corners_dynamic"], dynamic),
        Check::of(&["corners_narrow"], narrow),
        Check::of(&["corners_convert"], convert),
    ]
}

fn constant<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let x = SplitMix64::new(11).vector(50, 1.5);
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let (at, out) = (bench.filled(&x)?, bench.filled(&[0.0f32; 50])?);
    let params = Params::new().address(at).address(out).u32(7);
    bench.launch("corners_constant", line(1), line(50), params)?;
    let coefficients = [1.0f32, -0.5, 0.25, -0.125];
    let polynomial = |x: &f32| {
        let terms = (0..7).fold((0.0f32, 1.0f32), |(sum, power), t: usize| {
            (coefficients[t % 4].mul_add(power, sum), power * x)
        });
        terms.0
    };
    let expected: Vec<f32> = x.iter().map(polynomial).collect();
    bench.expect("out", out, &expected)?;
    bench.finish()
}

fn global<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let out = bench.filled(&[0u32; 2])?;
    for slot in 0..2 {
        let params = Params::new().address(out + 4 * slot);
        bench.launch("corners_global", line(1), line(40), params)?;
    }
    let counts: Vec<u32> = bench.read(out)?;
    // Above 41 if this session has run the check before.
    if counts[0] < 41 || counts[1] != counts[0] + 1 {
        return Err(CheckFailure::Wrong(Wrong(format!(
            "counts {counts:?}, not 41 and 42"
        ))));
    }
    bench.finish()
}

fn local<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(12);
    // Half of them close together, with equals among them.
    let keys: Vec<u32> = (0..8 * 96)
        .map(|i| random.bits() as u32 >> (i % 2 * 29))
        .collect();
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let (input, out) = (bench.filled(&keys)?, bench.filled(&[0u32; 8 * 96])?);
    let params = Params::new().address(input).address(out);
    bench.launch("corners_local", line(2), line(48), params)?;
    let mut expected = keys;
    for group in expected.chunks_exact_mut(8) {
        group.sort_unstable();
    }
    bench.expect("keys", out, &expected)?;
    bench.finish()
}

fn warp<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(13);
    let mut values: Vec<u32> = (0..96).map(|_| random.below(240)).collect();
    values[40] = 255;
    values[70] = 300;
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let (input, out) = (bench.filled(&values)?, bench.filled(&[0u32; 8 * 96])?);
    let params = Params::new().address(input).address(out);
    bench.launch("corners_warp", line(1), line(96), params)?;
    let mut expected = Vec::new();
    for warp in values.chunks_exact(32) {
        let ballot = (0..32).fold(0, |bits, lane| bits | ((warp[lane] & 1) << lane));
        let any = u32::from(warp.iter().any(|&v| v > 250));
        let all = u32::from(warp.iter().all(|&v| v < 256));
        for lane in 0..32 {
            let up = if lane >= 3 { lane - 3 } else { lane };
            let down = if lane + 5 < 32 { lane + 5 } else { lane };
            expected.extend([ballot, any, all, warp[up], warp[down], warp[lane ^ 9]]);
            expected.extend([warp[(lane * 7 + 3) % 32], warp[lane / 8 * 8 + 2]]);
        }
    }
    bench.expect("out", out, &expected)?;
    bench.finish()
}

fn divergence<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let out = bench.filled(&[0u32; 201])?;
    let params = Params::new().address(out).u32(201);
    bench.launch("corners_divergence", line(2), line(128), params)?;
    let collatz = |start: u32| {
        let next = |v: &u32| match *v {
            1 => None,
            v if v % 2 == 0 => Some(v / 2),
            v => Some(3 * v + 1),
        };
        std::iter::successors(Some(start), next).count() as u32 - 1
    };
    let expected: Vec<u32> = (1..=201).map(collatz).collect();
    bench.expect("steps", out, &expected)?;
    bench.finish()
}

fn double<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(14);
    let x: Vec<f64> = (0..64)
        .map(|_| f64::from(random.within(2.0)) / 3.0)
        .collect();
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let (at, out) = (bench.filled(&x)?, bench.filled(&[0.0f64; 64])?);
    let params = Params::new().address(at).address(out).i32(9);
    bench.launch("corners_double", line(2), line(32), params)?;
    let actual: Vec<f64> = bench.read(out)?;
    for (x, actual) in x.iter().zip(actual) {
        let sum = (1..=9)
            .rev()
            .fold(0.0f64, |sum, i| sum.mul_add(*x, 1.0 / f64::from(i)));
        let expected = sum.abs().sqrt() / (1.0 + x * x);
        // The compiler may fuse 1 + x * x, so the last bits may differ.
        let close = (actual - expected).abs() <= 4.0 * f64::EPSILON * expected.abs();
        if !close {
            return Err(CheckFailure::Wrong(Wrong(format!(
                "f({x}) = {actual}, not {expected}"
            ))));
        }
    }
    bench.finish()
}

fn integer<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(15);
    let mut a: Vec<u64> = (0..32).map(|i| random.bits() >> i).collect();
    let mut b: Vec<u64> = (0..32).map(|i| (random.bits() >> (2 * i)).max(1)).collect();
    a.extend([0, u64::MAX, 1, 1 << 63, 0x8000_0000]);
    b.extend([7, 1, u64::MAX, 1 << 31, 0x1_0003]);
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let (at_a, at_b) = (bench.filled(&a)?, bench.filled(&b)?);
    let out = bench.filled(&[0u64; 8 * 37])?;
    let params = Params::new().address(at_a).address(at_b).address(out);
    bench.launch("corners_integer", line(1), line(37), params)?;
    let mut expected = Vec::new();
    for (&x, &y) in a.iter().zip(&b) {
        let high = (u128::from(x) * u128::from(y)) >> 64;
        let signed = (x as i32) / ((y & 0xffff) as i32 + 1);
        expected.extend([x / y, x % y, high as u64, u64::from(x.count_ones())]);
        expected.extend([u64::from(x.leading_zeros()), x.reverse_bits()]);
        expected.extend([i64::from(signed) as u64, (x as i64 >> (y & 63)) as u64]);
    }
    bench.expect("out", out, &expected)?;
    bench.finish()
}

fn dynamic<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let words: Vec<u32> = (0..300).collect();
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let at = bench.filled(&words)?;
    let params = Params::new().address(at);
    bench.launch_shared("corners_dynamic", line(3), line(100), 400, params)?;
    let mut expected = words;
    for block in expected.chunks_exact_mut(100) {
        block.reverse();
    }
    bench.expect("words", at, &expected)?;
    bench.finish()
}

fn narrow<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(16);
    let a: Vec<i8> = (0..70).map(|_| random.bits() as i8).collect();
    let b: Vec<u16> = (0..70).map(|_| random.bits() as u16).collect();
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let (at_a, at_b) = (bench.filled(&a)?, bench.filled(&b)?);
    let (out, low) = (bench.filled(&[0i16; 70])?, bench.filled(&[0u8; 70])?);
    let params = Params::new()
        .address(at_a)
        .address(at_b)
        .address(out)
        .address(low);
    bench.launch("corners_narrow", line(1), line(70), params)?;
    let sums: Vec<i32> = a
        .iter()
        .zip(&b)
        .map(|(&a, &b)| i32::from(a) * 300 + i32::from(b))
        .collect();
    let saturated: Vec<i16> = sums
        .iter()
        .map(|s| (*s).clamp(-32768, 32767) as i16)
        .collect();
    let cut: Vec<u8> = sums.iter().map(|s| *s as u8).collect();
    bench.expect("saturated", out, &saturated)?;
    bench.expect("cut", low, &cut)?;
    bench.finish()
}

fn convert<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut x = SplitMix64::new(17).vector(20, 1000.0);
    x.extend([0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e-40]);
    x.extend([
        3e9,
        -3e9,
        1e19,
        -1e19,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ]);
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let (at, out) = (bench.filled(&x)?, bench.filled(&vec![0i64; 6 * x.len()])?);
    let params = Params::new().address(at).address(out);
    bench.launch("corners_convert", line(1), line(x.len() as u32), params)?;
    let mut expected = Vec::new();
    for v in x {
        // PTX saturates as Rust does; only NaN differs at 64 bits.
        let wide = if v.is_nan() { i64::MIN } else { v as i64 };
        let back = (v.to_bits() as i32) as f32;
        expected.extend([i64::from(v as i32), i64::from(v as u32), wide]);
        expected.push(i64::from(back.to_bits() as i32));
        expected.extend([
            i64::from(v.round_ties_even() as i32),
            i64::from(v.floor() as i32),
        ]);
    }
    bench.expect("out", out, &expected)?;
    bench.finish()
}
