//! The ranking's kernels, one by one.

use super::bench::{Bench, Check, Checked, line};
use crate::compare::matmul;
use crate::{Gpu, Params, SplitMix64, kernels};

pub(super) fn checks<G: Gpu>() -> Vec<Check<G>> {
    vec![
        Check::of(&["search_gather"], gather),
        Check::of(&["search_matmul"], multiply),
        Check::of(&["search_softmax"], softmax),
    ]
}

fn gather<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(41);
    let table = random.vector(9 * 50, 1.0);
    let ids: Vec<u32> = (0..4 * 3).map(|_| random.below(9)).collect();
    let mut bench = Bench::new(gpu, kernels::SEARCH)?;
    let (at_ids, at_table) = (bench.filled(&ids)?, bench.filled(&table)?);
    let out = bench.filled(&[0.0f32; 4 * 50])?;
    let params = Params::new()
        .address(at_ids)
        .address(at_table)
        .address(out)
        .u32(3)
        .u32(50);
    bench.launch("search_gather", line(4), line(32), params)?;
    let mean = |q: usize, d: usize| {
        let words = ids[3 * q..3 * q + 3].iter();
        words.map(|id| table[*id as usize * 50 + d]).sum::<f32>() / 3.0
    };
    let expected: Vec<f32> = (0..200).map(|i| mean(i / 50, i % 50)).collect();
    bench.expect_near("out", out, &expected, 1.0)?;
    bench.finish()
}

fn multiply<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(42);
    let mut bench = Bench::new(gpu, kernels::SEARCH)?;
    for (m, n, k) in [(32, 48, 64), (33, 17, 50), (1, 1, 1), (5, 40, 3)] {
        let (a, b) = (random.vector(m * k, 1.0), random.vector(k * n, 1.0));
        let (at_a, at_b) = (bench.filled(&a)?, bench.filled(&b)?);
        let c = bench.filled(&vec![0.0f32; m * n])?;
        let params = Params::new().address(at_a).address(at_b).address(c);
        let grid = [n.div_ceil(16) as u32, m.div_ceil(16) as u32, 1];
        let params = params.count(m).count(n).count(k);
        bench.launch("search_matmul", grid, [16, 16, 1], params)?;
        bench.expect_near("c", c, &matmul(&a, &b, m, n, k), 5.0)?;
    }
    bench.finish()
}

fn softmax<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(43);
    let mut bench = Bench::new(gpu, kernels::SEARCH)?;
    // The shift makes exp overflow unless the row's maximum is subtracted first.
    for (rows, n, shift) in [(3, 700, 0.0), (2, 40, 600.0), (1, 33, -600.0), (1, 1, 5.0)] {
        let x: Vec<f32> = random
            .vector(rows * n, 30.0)
            .iter()
            .map(|x| x + shift)
            .collect();
        let at = bench.filled(&x)?;
        let params = Params::new().address(at).count(n).f32(0.25);
        bench.launch("search_softmax", line(rows as u32), line(256), params)?;
        let mut expected = Vec::new();
        for row in x.chunks_exact(n) {
            let powers: Vec<f32> = row.iter().map(|x| ((x - shift) * 0.25).exp()).collect();
            let sum: f32 = powers.iter().sum();
            expected.extend(powers.iter().map(|power| power / sum));
        }
        bench.expect_near("x", at, &expected, 1e-3)?;
    }
    bench.finish()
}
