//! Products by `mma` and `wmma`. The numbers are chosen so that every sum is exact, in any order.

use super::bench::{Bench, Check, Checked, line};
use crate::{Gpu, Params, SplitMix64, kernels};

pub(super) fn checks<G: Gpu>() -> Vec<Check<G>> {
    vec![
        Check::of(&["matmul_f16_mma", "matmul_f16_wmma"], halves),
        Check::of(&["matmul_s8_mma"], bytes),
    ]
}

/// Eighths from -2 to 2, and their bits as f16.
fn eighths(random: &mut SplitMix64, count: usize) -> (Vec<f32>, Vec<u16>) {
    let values: Vec<f32> = (0..count)
        .map(|_| (random.below(33) as f32 - 16.0) / 8.0)
        .collect();
    let bits = |x: &f32| {
        let bits = x.to_bits();
        // The bias of f16 exponents is lower by 112; zero has no exponent.
        let magnitude = (bits & 0x7fff_ffff).saturating_sub(112 << 23) >> 13;
        (bits >> 16 & 0x8000 | magnitude) as u16
    };
    let halves = values.iter().map(bits).collect();
    (values, halves)
}

fn halves<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(71);
    let (m, n, k) = (64, 128, 96);
    let (a, a_bits) = eighths(&mut random, m * k);
    let (b, b_bits) = eighths(&mut random, k * n);
    let at = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum::<f32>();
    let expected: Vec<f32> = (0..m * n).map(|i| at(i / n, i % n)).collect();
    let mut bench = Bench::new(gpu, kernels::MATMUL_MMA)?;
    let (at_a, at_b) = (bench.filled(&a_bits)?, bench.filled(&b_bits)?);
    let tiles = [
        ("matmul_f16_mma", [(n / 64) as u32, (m / 64) as u32, 1], 128),
        ("matmul_f16_wmma", line((m / 16 * n / 16 / 2) as u32), 64),
    ];
    for (entry, grid, threads) in tiles {
        let c = bench.filled(&vec![0.0f32; m * n])?;
        let params = Params::new().address(at_a).address(at_b).address(c);
        let params = params.count(m).count(n).count(k);
        bench.launch(entry, grid, line(threads), params)?;
        bench.expect(entry, c, &expected)?;
    }
    bench.finish()
}

fn bytes<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(72);
    let (m, n, k) = (32, 24, 64);
    let mut fill = |count: usize| -> Vec<i8> {
        let byte = |_| random.below(256) as u8 as i8;
        (0..count).map(byte).collect()
    };
    let (a, b) = (fill(m * k), fill(n * k));
    let product = |i: usize, j: usize| {
        let pairs = a[i * k..][..k].iter().zip(&b[j * k..][..k]);
        pairs
            .map(|(x, y)| i32::from(*x) * i32::from(*y))
            .sum::<i32>() as u32
    };
    let expected: Vec<u32> = (0..m * n).map(|i| product(i / n, i % n)).collect();
    let mut bench = Bench::new(gpu, kernels::MATMUL_MMA)?;
    let (at_a, at_b) = (bench.filled(&a)?, bench.filled(&b)?);
    let c = bench.filled(&vec![0u32; m * n])?;
    let params = Params::new().address(at_a).address(at_b).address(c);
    let params = params.count(m).count(n).count(k);
    bench.launch(
        "matmul_s8_mma",
        line((m / 16 * n / 8 / 2) as u32),
        line(64),
        params,
    )?;
    bench.expect("c", c, &expected)?;
    bench.finish()
}
