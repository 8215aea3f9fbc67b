//! Directed rounding, against exact arithmetic.

use super::bench::{Bench, Check, Checked, line};
use crate::{Gpu, Params, SplitMix64, kernels};

pub(super) fn checks<G: Gpu>() -> Vec<Check<G>> {
    vec![Check::of(&["corners_rounding"], rounding)]
}

fn rounding<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(21);
    let mut vector = || -> Vec<f32> {
        // Different exponents, so that sums lose bits.
        (0..64)
            .map(|i| random.within(1.0) * f32::powi(2.0, i % 9 - 4))
            .collect()
    };
    let (mut a, mut b, mut c) = (vector(), vector(), vector());
    // Exact results: all four roundings agree.
    a.extend([1.0, 4.0, -2.25, 0.25]);
    b.extend([1.0, -2.0, 1.5, 0.5]);
    c.extend([-1.0, 8.0, 0.0, 3.0]);
    let mut bench = Bench::new(gpu, kernels::CORNERS)?;
    let (at_a, at_b) = (bench.filled(&a)?, bench.filled(&b)?);
    let (at_c, out) = (
        bench.filled(&c)?,
        bench.filled(&vec![0.0f32; 20 * a.len()])?,
    );
    let params = Params::new()
        .address(at_a)
        .address(at_b)
        .address(at_c)
        .address(out);
    bench.launch("corners_rounding", line(1), line(a.len() as u32), params)?;
    let inputs = a.iter().zip(&b).zip(&c);
    let expected: Vec<f32> = inputs
        .flat_map(|((&a, &b), &c)| operations(a, b, c))
        .collect();
    bench.expect("out", out, &expected)?;
    bench.finish()
}

/// Sum, product, fused product and sum, quotient and root, each rounded four ways.
fn operations(a: f32, b: f32, c: f32) -> Vec<f32> {
    let (wide_a, wide_b, wide_c) = (f64::from(a), f64::from(b), f64::from(c));
    let root = a.abs().sqrt();
    // A product of two f32 is exact in f64; a sum is exact together with its error. The remainder
    // of a quotient or root is exact in f64 too.
    let left = |quotient: f32| (wide_a - f64::from(quotient) * wide_b) * wide_b.signum();
    [
        four_ways(a + b, excess(sum(wide_a, wide_b), a + b)),
        four_ways(a * b, excess((wide_a * wide_b, 0.0), a * b)),
        four_ways(
            a.mul_add(b, c),
            excess(sum(wide_a * wide_b, wide_c), a.mul_add(b, c)),
        ),
        four_ways(a / b, left(a / b)),
        four_ways(root, wide_a.abs() - f64::from(root) * f64::from(root)),
    ]
    .concat()
}

/// a + b as two parts: the sum in f64 and its error (Knuth's two-sum).
fn sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// A number with the sign of the exact value (in two parts) minus `nearest`.
fn excess((high, low): (f64, f64), nearest: f32) -> f64 {
    let difference = high - f64::from(nearest);
    // The low part is below the last bit of the high one: it only breaks ties.
    if difference == 0.0 { low } else { difference }
}

/// {nearest, to zero, down, up} of an exact value that lies `above` its nearest f32.
fn four_ways(nearest: f32, above: f64) -> [f32; 4] {
    let down = if above < 0.0 {
        nearest.next_down()
    } else {
        nearest
    };
    let up = if above > 0.0 {
        nearest.next_up()
    } else {
        nearest
    };
    let positive = nearest > 0.0 || nearest == 0.0 && above > 0.0;
    [nearest, if positive { down } else { up }, down, up]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_values_round_to_themselves() {
        for four in operations(4.0, -2.0, 8.0).chunks_exact(4) {
            assert!(four.iter().all(|x| *x == four[0]), "{four:?}");
        }
    }

    #[test]
    fn a_third_rounds_as_known() {
        let thirds = &operations(1.0, 3.0, 0.0)[12..16];
        let (below, above) = (f32::from_bits(0x3eaa_aaaa), f32::from_bits(0x3eaa_aaab));
        assert_eq!(thirds, [above, below, below, above]);
        let thirds = &operations(-1.0, 3.0, 0.0)[12..16];
        assert_eq!(thirds, [-above, -below, -above, -below]);
    }
}
