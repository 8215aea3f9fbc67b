//! The suite as plain loops: the second baseline, and the reference.

#![expect(unsafe_code, reason = "calls of loops compiled for AVX2 and FMA")]

use super::Data;
use crate::compare::dot;

/// Compiles each loop twice, portably and for AVX2 and FMA; the version is chosen at run time.
macro_rules! native {
    ($($name:ident => $body:ident;)*) => {$(
        pub(super) fn $name(data: &mut [Data]) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn fast(data: &mut [Data]) {
                    $body(data);
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the machine has both.
                    return unsafe { fast(data) };
                }
            }
            $body(data);
        }
    )*};
}

native! {
    saxpy => saxpy_loop;
    gelu => gelu_loop;
    layernorm => layernorm_loop;
    softmax => softmax_loop;
    reduce => reduce_loop;
    scan => scan_loop;
    matmul => matmul_loop;
    mma => mma_loop;
    attention => attention_loop;
    transpose => transpose_loop;
    histogram => histogram_loop;
    nbody => nbody_loop;
    stencil => stencil_loop;
    gather => gather_loop;
}

/// Splits the buffers into the inputs and the output after them.
fn split(data: &mut [Data], output: usize) -> (&[Data], &mut Data) {
    let (inputs, rest) = data.split_at_mut(output);
    (inputs, &mut rest[0])
}

#[inline(always)]
fn saxpy_loop(data: &mut [Data]) {
    let (inputs, y) = split(data, 1);
    for (x, y) in inputs[0].floats().iter().zip(y.floats_mut()) {
        *y = x.mul_add(0.5, *y);
    }
}

#[inline(always)]
fn gelu_loop(data: &mut [Data]) {
    let (inputs, out) = split(data, 1);
    for (&v, out) in inputs[0].floats().iter().zip(out.floats_mut()) {
        let u = 1.595_769_2 * (v + 0.044_715 * v * v * v);
        *out = v / (1.0 + (-u).exp());
    }
}

/// Sum in eight partial sums, which fit a vector register.
#[inline(always)]
fn sum(values: &[f32]) -> f32 {
    let mut parts = [0.0_f32; 8];
    for chunk in values.as_chunks::<8>().0 {
        for (part, value) in parts.iter_mut().zip(chunk) {
            *part += value;
        }
    }
    parts.iter().sum()
}

#[inline(always)]
fn layernorm_loop(data: &mut [Data]) {
    let (inputs, out) = split(data, 3);
    let (gain, bias) = (inputs[1].floats(), inputs[2].floats());
    let rows = inputs[0].floats().chunks_exact(1024);
    for (row, out) in rows.zip(out.floats_mut().chunks_exact_mut(1024)) {
        let mean = sum(row) / 1024.0;
        for (out, x) in out.iter_mut().zip(row) {
            *out = x - mean;
        }
        let scale = 1.0 / (dot(out, out) / 1024.0 + 1e-5).sqrt();
        for ((out, gain), bias) in out.iter_mut().zip(gain).zip(bias) {
            *out = (*out * scale).mul_add(*gain, *bias);
        }
    }
}

#[inline(always)]
fn softmax_loop(data: &mut [Data]) {
    let (inputs, out) = split(data, 1);
    let rows = inputs[0].floats().chunks_exact(1024);
    for (row, out) in rows.zip(out.floats_mut().chunks_exact_mut(1024)) {
        let most = row.iter().copied().fold(f32::MIN, f32::max);
        for (out, x) in out.iter_mut().zip(row) {
            *out = (x - most).exp();
        }
        let scale = 1.0 / sum(out);
        for out in out {
            *out *= scale;
        }
    }
}

#[inline(always)]
fn reduce_loop(data: &mut [Data]) {
    let (inputs, out) = split(data, 1);
    let blocks = inputs[0].floats().chunks_exact(256);
    for (block, out) in blocks.zip(out.floats_mut()) {
        *out = sum(block);
    }
}

#[inline(always)]
fn scan_loop(data: &mut [Data]) {
    let (inputs, out) = split(data, 1);
    let blocks = inputs[0].words().chunks_exact(256);
    for (block, out) in blocks.zip(out.words_mut().chunks_exact_mut(256)) {
        let mut sum = 0_u32;
        for (word, out) in block.iter().zip(out) {
            sum = sum.wrapping_add(*word);
            *out = sum;
        }
    }
}

/// Processes `b` row by row and accumulates in the row of the product.
#[inline(always)]
fn product(a: &[f32], b: &[f32], c: &mut [f32], n: usize) {
    for (row, c) in a.chunks_exact(n).zip(c.chunks_exact_mut(n)) {
        c.fill(0.0);
        for (a, row) in row.iter().zip(b.chunks_exact(n)) {
            for (c, b) in c.iter_mut().zip(row) {
                *c = a.mul_add(*b, *c);
            }
        }
    }
}

#[inline(always)]
fn matmul_loop(data: &mut [Data]) {
    let (inputs, c) = split(data, 2);
    product(inputs[0].floats(), inputs[1].floats(), c.floats_mut(), 512);
}

/// The two f16 of a word; neither is subnormal, infinite or NaN.
#[inline(always)]
fn pair(word: u32) -> [f32; 2] {
    [word & 0xffff, word >> 16].map(|half| {
        f32::from_bits(((half & 0x8000) << 16) | (((half & 0x7fff) << 13) + (112 << 23)))
    })
}

#[inline(always)]
fn mma_loop(data: &mut [Data]) {
    const N: usize = 256;
    let (inputs, c) = split(data, 2);
    let a: Vec<f32> = inputs[0]
        .words()
        .iter()
        .flat_map(|word| pair(*word))
        .collect();
    let mut b = vec![0.0; N * N];
    for (at, word) in inputs[1].words().iter().enumerate() {
        let (column, k) = (at / (N / 2), 2 * (at % (N / 2)));
        let [low, high] = pair(*word);
        b[k * N + column] = low;
        b[(k + 1) * N + column] = high;
    }
    product(&a, &b, c.floats_mut(), N);
}

#[inline(always)]
fn attention_loop(data: &mut [Data]) {
    const HEAD: usize = 64;
    const LENGTH: usize = 512;
    let (inputs, out) = split(data, 3);
    let heads = inputs[0].floats().chunks_exact(HEAD);
    let keys = inputs[1].floats().chunks_exact(HEAD * LENGTH);
    let values = inputs[2].floats().chunks_exact(HEAD * LENGTH);
    let outs = out.floats_mut().chunks_exact_mut(HEAD);
    let mut scores = [0.0_f32; LENGTH];
    for (((query, keys), values), out) in heads.zip(keys).zip(values).zip(outs) {
        scores.fill(0.0);
        for (q, keys) in query.iter().zip(keys.chunks_exact(LENGTH)) {
            for (score, key) in scores.iter_mut().zip(keys) {
                *score = (q * 0.125).mul_add(*key, *score);
            }
        }
        let most = scores.iter().copied().fold(f32::MIN, f32::max);
        for score in &mut scores {
            *score = (*score - most).exp();
        }
        let scale = 1.0 / sum(&scores);
        out.fill(0.0);
        for (score, values) in scores.iter().zip(values.chunks_exact(HEAD)) {
            for (out, value) in out.iter_mut().zip(values) {
                *out = score.mul_add(*value, *out);
            }
        }
        for out in out {
            *out *= scale;
        }
    }
}

#[inline(always)]
fn transpose_loop(data: &mut [Data]) {
    const N: usize = 1024;
    const TILE: usize = 32;
    let (inputs, out) = split(data, 1);
    let (from, to) = (inputs[0].floats(), out.floats_mut());
    for top in (0..N).step_by(TILE) {
        for left in (0..N).step_by(TILE) {
            for row in top..top + TILE {
                for column in left..left + TILE {
                    to[column * N + row] = from[row * N + column];
                }
            }
        }
    }
}

#[inline(always)]
fn histogram_loop(data: &mut [Data]) {
    let (inputs, bins) = split(data, 1);
    let bins = bins.words_mut();
    for word in inputs[0].words() {
        for byte in word.to_le_bytes() {
            bins[usize::from(byte)] += 1;
        }
    }
}

#[inline(always)]
fn nbody_loop(data: &mut [Data]) {
    let (inputs, out) = split(data, 1);
    let bodies = inputs[0].floats().as_chunks::<4>().0;
    // One vector per coordinate, so that eight bodies fit one register.
    let [xs, ys, zs, masses] =
        [0, 1, 2, 3].map(|at| -> Vec<f32> { bodies.iter().map(|body| body[at]).collect() });
    for (own, out) in bodies.iter().zip(out.floats_mut().as_chunks_mut::<4>().0) {
        let mut sums = [[0.0_f32; 8]; 3];
        for first in (0..bodies.len()).step_by(8) {
            for (lane, at) in (first..first + 8).enumerate() {
                let (dx, dy, dz) = (xs[at] - own[0], ys[at] - own[1], zs[at] - own[2]);
                let r = 1.0 / dx.mul_add(dx, dy.mul_add(dy, dz.mul_add(dz, 1e-3))).sqrt();
                let s = masses[at] * r * r * r;
                sums[0][lane] = dx.mul_add(s, sums[0][lane]);
                sums[1][lane] = dy.mul_add(s, sums[1][lane]);
                sums[2][lane] = dz.mul_add(s, sums[2][lane]);
            }
        }
        for (out, sums) in out.iter_mut().zip(&sums) {
            *out = sums.iter().sum();
        }
    }
}

#[inline(always)]
fn stencil_loop(data: &mut [Data]) {
    const N: usize = 1024;
    let (inputs, out) = split(data, 1);
    let (from, to) = (inputs[0].floats(), out.floats_mut());
    to.copy_from_slice(from);
    for y in 1..N - 1 {
        let [above, row, below] = [y - 1, y, y + 1].map(|y| &from[y * N..(y + 1) * N]);
        let to = &mut to[y * N..(y + 1) * N];
        for x in 1..N - 1 {
            to[x] = 0.2 * (row[x] + row[x - 1] + row[x + 1] + above[x] + below[x]);
        }
    }
}

#[inline(always)]
fn gather_loop(data: &mut [Data]) {
    const WIDTH: usize = 128;
    let (inputs, out) = split(data, 2);
    let table = inputs[1].floats();
    let rows = out.floats_mut().chunks_exact_mut(WIDTH);
    for (id, out) in inputs[0].words().iter().zip(rows) {
        let at = *id as usize * WIDTH;
        out.copy_from_slice(&table[at..at + WIDTH]);
    }
}
