//! The decoder's kernels, one by one.

use super::bench::{Bench, Check, Checked, line};
use crate::compare::dot;
use crate::{Gpu, Params, SplitMix64, kernels};

pub(super) fn checks<G: Gpu>() -> Vec<Check<G>> {
    vec![
        Check::of(&["chat_embed"], embed),
        Check::of(&["chat_layernorm"], layernorm),
        Check::of(&["chat_matvec"], matvec),
        Check::of(&["chat_cache_append"], append),
        Check::of(&["chat_attention"], attention),
        Check::of(&["chat_gelu"], gelu),
        Check::of(&["chat_residual"], residual),
        Check::of(&["chat_argmax"], argmax),
    ]
}

fn embed<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(31);
    let (tokens, positions) = (random.vector(5 * 100, 1.0), random.vector(4 * 100, 1.0));
    let mut bench = Bench::new(gpu, kernels::CHAT)?;
    let token = bench.filled(&[3u32])?;
    let (at_tokens, at_positions) = (bench.filled(&tokens)?, bench.filled(&positions)?);
    let out = bench.filled(&[0.0f32; 100])?;
    let params = Params::new()
        .address(token)
        .u32(2)
        .address(at_tokens)
        .address(at_positions);
    bench.launch(
        "chat_embed",
        line(4),
        line(32),
        params.address(out).u32(100),
    )?;
    let expected: Vec<f32> = (0..100)
        .map(|i| tokens[300 + i] + positions[200 + i])
        .collect();
    bench.expect("out", out, &expected)?;
    bench.finish()
}

fn layernorm<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(32);
    let x: Vec<f32> = random.vector(200, 3.0).iter().map(|x| x + 1.0).collect();
    let (gain, bias) = (random.vector(200, 1.0), random.vector(200, 1.0));
    let mut bench = Bench::new(gpu, kernels::CHAT)?;
    let (at_x, at_gain, at_bias) = (
        bench.filled(&x)?,
        bench.filled(&gain)?,
        bench.filled(&bias)?,
    );
    let out = bench.filled(&[0.0f32; 200])?;
    let params = Params::new()
        .address(at_x)
        .address(at_gain)
        .address(at_bias)
        .address(out);
    bench.launch("chat_layernorm", line(1), line(128), params.u32(200))?;
    let mean = x.iter().sum::<f32>() / 200.0;
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / 200.0;
    let deviation = (variance + 1e-5).sqrt();
    let expected: Vec<f32> = (0..200)
        .map(|i| (x[i] - mean) / deviation * gain[i] + bias[i])
        .collect();
    bench.expect_near("out", out, &expected, 1.0)?;
    bench.finish()
}

fn matvec<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(33);
    let mut bench = Bench::new(gpu, kernels::CHAT)?;
    for (rows, columns) in [(7, 128), (10, 512), (5, 36)] {
        let (weights, bias) = (random.vector(rows * columns, 1.0), random.vector(rows, 1.0));
        let x = random.vector(columns, 1.0);
        let (at_weights, at_bias) = (bench.filled(&weights)?, bench.filled(&bias)?);
        let (at_x, y) = (bench.filled(&x)?, bench.filled(&vec![0.0f32; rows])?);
        let params = Params::new()
            .address(at_weights)
            .address(at_bias)
            .address(at_x)
            .address(y);
        let params = params.count(rows).count(columns);
        bench.launch("chat_matvec", line(3), line(128), params)?;
        let products = weights.chunks_exact(columns).map(|row| dot(row, &x));
        let expected: Vec<f32> = products
            .zip(&bias)
            .map(|(product, bias)| product + bias)
            .collect();
        bench.expect_near("y", y, &expected, 10.0)?;
    }
    bench.finish()
}

fn append<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let qkv = SplitMix64::new(34).vector(3 * 40, 1.0);
    let mut bench = Bench::new(gpu, kernels::CHAT)?;
    let at = bench.filled(&qkv)?;
    let (keys, values) = (bench.filled(&[0.0f32; 120])?, bench.filled(&[0.0f32; 120])?);
    let params = Params::new()
        .address(at)
        .address(keys)
        .address(values)
        .u32(1)
        .u32(40);
    bench.launch("chat_cache_append", line(2), line(32), params)?;
    let row = |part: usize| [&[0.0; 40], &qkv[40 * part..40 * (part + 1)], &[0.0; 40]].concat();
    bench.expect("keys", keys, &row(1))?;
    bench.expect("values", values, &row(2))?;
    bench.finish()
}

fn attention<G: Gpu>(gpu: &mut G) -> Checked<G> {
    const WIDTH: usize = 96;
    let mut random = SplitMix64::new(35);
    let mut bench = Bench::new(gpu, kernels::CHAT)?;
    for length in [1, 31, 200] {
        let query = random.vector(WIDTH, 4.0);
        let (keys, values) = (
            random.vector(200 * WIDTH, 1.0),
            random.vector(200 * WIDTH, 1.0),
        );
        let (at_query, at_keys) = (bench.filled(&query)?, bench.filled(&keys)?);
        let (at_values, out) = (bench.filled(&values)?, bench.filled(&[0.0f32; WIDTH])?);
        let params = Params::new()
            .address(at_query)
            .address(at_keys)
            .address(at_values);
        let params = params.address(out).count(length).count(WIDTH);
        bench.launch("chat_attention", line(3), line(128), params)?;
        let mut expected = vec![0.0f32; WIDTH];
        for head in 0..3 {
            let columns = 32 * head..32 * (head + 1);
            let score = |key: &[f32]| dot(&query[columns.clone()], &key[columns.clone()]);
            let scores = keys.chunks_exact(WIDTH).take(length).map(score);
            let powers: Vec<f32> = scores.map(|s| (s / 32f32.sqrt()).exp()).collect();
            let sum: f32 = powers.iter().sum();
            for (power, value) in powers.iter().zip(values.chunks_exact(WIDTH)) {
                for column in columns.clone() {
                    expected[column] += power / sum * value[column];
                }
            }
        }
        bench.expect_near("out", out, &expected, 1.0)?;
    }
    bench.finish()
}

fn gelu<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut x = SplitMix64::new(36).vector(90, 4.0);
    x.extend([0.0, 20.0, -20.0, 1e-3, -1e-3]);
    let mut bench = Bench::new(gpu, kernels::CHAT)?;
    let at = bench.filled(&x)?;
    let params = Params::new().address(at).count(x.len());
    bench.launch("chat_gelu", line(3), line(64), params)?;
    let gelu = |x: &f32| 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh());
    let expected: Vec<f32> = x.iter().map(gelu).collect();
    bench.expect_near("x", at, &expected, 1.0)?;
    bench.finish()
}

fn residual<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(37);
    let (x, y) = (random.vector(130, 1.0), random.vector(130, 1.0));
    let mut bench = Bench::new(gpu, kernels::CHAT)?;
    let (at_x, at_y) = (bench.filled(&x)?, bench.filled(&y)?);
    let params = Params::new().address(at_x).address(at_y).u32(129);
    bench.launch("chat_residual", line(2), line(128), params)?;
    let mut expected = x;
    for i in 0..129 {
        expected[i] += y[i];
    }
    bench.expect("x", at_x, &expected)?;
    bench.finish()
}

fn argmax<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut bench = Bench::new(gpu, kernels::CHAT)?;
    let mut random = SplitMix64::new(38);
    let largest_at = |places: &[usize], values: &mut Vec<f32>| {
        for &place in places {
            values[place] = 2.0;
        }
    };
    // Ties in one thread's share, between lanes and between warps; fewer values than threads.
    let cases: [(usize, &[usize]); 6] = [
        (256, &[200, 72]),
        (256, &[5, 6]),
        (256, &[100, 35]),
        (256, &[255]),
        (20, &[0]),
        (1, &[0]),
    ];
    for (count, places) in cases {
        let mut values = random.vector(count, 1.0);
        largest_at(places, &mut values);
        let (at, out) = (bench.filled(&values)?, bench.filled(&[99u32])?);
        let params = Params::new().address(at).count(count).address(out);
        bench.launch("chat_argmax", line(1), line(128), params)?;
        let expected = places.iter().min().map_or(0, |place| *place as u32);
        bench.expect("out", out, &[expected])?;
    }
    bench.finish()
}
