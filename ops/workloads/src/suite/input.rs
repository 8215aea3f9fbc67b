//! Buffers of the suite's kernels: seeded inputs, zeroed outputs.

use super::Data;
use crate::SplitMix64;

const MEBI: usize = 1 << 20;

fn floats(seed: u64, count: usize, limit: f32) -> Data {
    Data::Floats(SplitMix64::new(seed).vector(count, limit))
}

fn words(seed: u64, count: usize) -> Data {
    let mut random = SplitMix64::new(seed);
    Data::Words((0..count).map(|_| random.bits() as u32).collect())
}

fn zeros(count: usize) -> Data {
    Data::Floats(vec![0.0; count])
}

pub(super) fn saxpy() -> Vec<Data> {
    vec![floats(1, MEBI, 1.0), floats(2, MEBI, 1.0)]
}

pub(super) fn gelu() -> Vec<Data> {
    vec![floats(3, MEBI, 4.0), zeros(MEBI)]
}

pub(super) fn layernorm() -> Vec<Data> {
    let (gain, bias) = (floats(5, 1024, 1.0), floats(6, 1024, 1.0));
    vec![floats(4, MEBI, 2.0), gain, bias, zeros(MEBI)]
}

pub(super) fn softmax() -> Vec<Data> {
    vec![floats(7, MEBI, 5.0), zeros(MEBI)]
}

pub(super) fn reduce() -> Vec<Data> {
    vec![floats(8, MEBI, 1.0), zeros(MEBI / 256)]
}

pub(super) fn scan() -> Vec<Data> {
    let out = Data::Words(vec![0; MEBI]);
    vec![words(9, MEBI), out, Data::Words(vec![0; MEBI / 256])]
}

pub(super) fn matmul() -> Vec<Data> {
    let count = 512 * 512;
    vec![floats(10, count, 1.0), floats(11, count, 1.0), zeros(count)]
}

/// Pairs of f16 with values that are multiples of 1/64 below 1: sums of their products are exact.
fn halves(seed: u64, count: usize) -> Data {
    let mut random = SplitMix64::new(seed);
    let mut half = || {
        let sign = if random.below(2) == 0 { 0 } else { 0x8000 };
        // 1 + k / 64, scaled by one half: exponent of 0.5, six bits of mantissa.
        sign | 0x3800 | random.below(64) << 4
    };
    Data::Words((0..count).map(|_| half() | half() << 16).collect())
}

pub(super) fn mma() -> Vec<Data> {
    let pairs = 256 * 256 / 2;
    vec![halves(12, pairs), halves(13, pairs), zeros(256 * 256)]
}

pub(super) fn attention() -> Vec<Data> {
    let cache = 128 * 512 * 64;
    let (keys, values) = (floats(15, cache, 1.0), floats(16, cache, 1.0));
    vec![floats(14, 128 * 64, 1.0), keys, values, zeros(128 * 64)]
}

pub(super) fn transpose() -> Vec<Data> {
    vec![floats(17, MEBI, 1.0), zeros(MEBI)]
}

pub(super) fn histogram() -> Vec<Data> {
    vec![words(18, MEBI / 4), Data::Words(vec![0; 256])]
}

pub(super) fn nbody() -> Vec<Data> {
    vec![floats(19, 2048 * 4, 1.0), zeros(2048 * 4)]
}

pub(super) fn stencil() -> Vec<Data> {
    vec![floats(20, MEBI, 1.0), zeros(MEBI)]
}

pub(super) fn gather() -> Vec<Data> {
    let mut random = SplitMix64::new(21);
    let ids = (0..8192).map(|_| random.below(16_384)).collect();
    let table = floats(22, 16_384 * 128, 1.0);
    vec![Data::Words(ids), table, zeros(8192 * 128)]
}
