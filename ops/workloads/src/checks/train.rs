//! The training step's kernels, one by one.

use super::bench::{Bench, Check, Checked, line};
use crate::compare::{matmul, transpose};
use crate::{Gpu, Params, SplitMix64, kernels};

pub(super) fn checks<G: Gpu>() -> Vec<Check<G>> {
    vec![
        Check::of(
            &["train_matmul", "train_matmul_at", "train_matmul_bt"],
            multiply,
        ),
        Check::of(&["train_sum"], sum),
        Check::of(&["train_activate", "train_activate_gradient"], activate),
        Check::of(&["train_error"], error),
        Check::of(&["train_update", "train_assign"], update),
    ]
}

fn multiply<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(51);
    let mut bench = Bench::new(gpu, kernels::TRAIN)?;
    for (m, n, k) in [(64, 64, 16), (128, 192, 80)] {
        let (a, b) = (random.vector(m * k, 1.0), random.vector(k * n, 1.0));
        let expected = matmul(&a, &b, m, n, k);
        let (at_a, at_b) = (bench.filled(&a)?, bench.filled(&b)?);
        let across_a = bench.filled(&transpose(&a, m, k))?;
        let across_b = bench.filled(&transpose(&b, k, n))?;
        let cases = [
            ("train_matmul", at_a, at_b),
            ("train_matmul_at", across_a, at_b),
            ("train_matmul_bt", at_a, across_b),
        ];
        for (entry, a, b) in cases {
            let c = bench.filled(&vec![0.0f32; m * n])?;
            let params = Params::new().address(a).address(b).address(c);
            let params = params.count(m).count(n).count(k);
            bench.launch(
                entry,
                [(n / 64) as u32, (m / 64) as u32, 1],
                [16, 16, 1],
                params,
            )?;
            bench.expect_near(entry, c, &expected, 5.0)?;
        }
    }
    bench.finish()
}

fn sum<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let x = SplitMix64::new(52).vector(5000, 1.0);
    let mut bench = Bench::new(gpu, kernels::TRAIN)?;
    let (at, sums) = (bench.filled(&x)?, bench.filled(&[0.0f32; 7])?);
    let total = bench.filled(&[0.0f32])?;
    let params = Params::new().address(at).address(sums).u32(5000);
    bench.launch("train_sum", line(7), line(192), params)?;
    let params = Params::new().address(sums).address(total).u32(7);
    bench.launch("train_sum", line(1), line(32), params)?;
    let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
    bench.expect_near("total", total, &[exact as f32], 50.0)?;
    bench.finish()
}

fn activate<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(53);
    let (x, slope) = (random.vector(200, 5.0), random.vector(200, 1.0));
    let mut bench = Bench::new(gpu, kernels::TRAIN)?;
    let (at, gradient) = (bench.filled(&x)?, bench.filled(&slope)?);
    bench.launch(
        "train_activate",
        line(2),
        line(128),
        Params::new().address(at).u32(199),
    )?;
    let params = Params::new().address(gradient).address(at).u32(198);
    bench.launch("train_activate_gradient", line(2), line(128), params)?;
    let mut active: Vec<f32> = x.iter().map(|x| x / (1.0 + x.abs())).collect();
    active[199] = x[199];
    let mut expected: Vec<f32> = slope
        .iter()
        .zip(&active)
        .map(|(g, a)| g * (1.0 - a.abs()) * (1.0 - a.abs()))
        .collect();
    expected[198..].copy_from_slice(&slope[198..]);
    bench.expect_near("x", at, &active, 1.0)?;
    bench.expect_near("gradient", gradient, &expected, 0.1)?;
    bench.finish()
}

fn error<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(54);
    let (prediction, target) = (random.vector(150, 2.0), random.vector(150, 2.0));
    let mut bench = Bench::new(gpu, kernels::TRAIN)?;
    let (at, at_target) = (bench.filled(&prediction)?, bench.filled(&target)?);
    let squares = bench.filled(&[0.0f32; 150])?;
    // In place, as the workload does.
    let params = Params::new()
        .address(at)
        .address(at_target)
        .address(at)
        .address(squares);
    bench.launch("train_error", line(3), line(64), params.u32(150))?;
    let errors: Vec<f32> = prediction.iter().zip(&target).map(|(p, t)| p - t).collect();
    let expected: Vec<f32> = errors.iter().map(|e| e * e).collect();
    bench.expect("error", at, &errors)?;
    bench.expect("squares", squares, &expected)?;
    bench.finish()
}

fn update<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(55);
    let (weights, gradient) = (random.vector(150, 1.0), random.vector(150, 1.0));
    let mut bench = Bench::new(gpu, kernels::TRAIN)?;
    let (at, at_gradient) = (bench.filled(&[0.0f32; 150])?, bench.filled(&gradient)?);
    let from = bench.filled(&weights)?;
    let params = Params::new().address(at).address(from).u32(150);
    bench.launch("train_assign", line(2), line(96), params)?;
    let params = Params::new()
        .address(at)
        .address(at_gradient)
        .f32(0.5)
        .f32(0.1)
        .u32(149);
    bench.launch("train_update", line(2), line(96), params)?;
    let mut expected: Vec<f32> = weights
        .iter()
        .zip(&gradient)
        .map(|(w, g)| w - 0.5 * (g + 0.1 * w))
        .collect();
    expected[149] = weights[149];
    bench.expect_near("weights", at, &expected, 1.0)?;
    bench.finish()
}
