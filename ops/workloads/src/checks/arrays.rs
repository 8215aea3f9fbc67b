//! Elementwise kernels, atomics, scans and spinning blocks.

use super::bench::{Bench, Check, Checked, line};
use crate::{Gpu, Params, SplitMix64, kernels};

pub(super) fn checks<G: Gpu>() -> Vec<Check<G>> {
    vec![
        Check::of(&["empty"], empty),
        Check::of(&["saxpy"], saxpy),
        Check::of(&["vector_add"], vector_add),
        Check::of(&["histogram"], histogram),
        Check::of(&["atomics"], atomics),
        Check::of(&["scan_blocks", "scan_offsets"], scan),
        Check::of(&["spin_lock"], spin_lock),
        Check::of(&["spin_turns"], spin_turns),
    ]
}

fn empty<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut bench = Bench::new(gpu, kernels::EMPTY)?;
    bench.launch("empty", [3, 2, 2], [33, 2, 1], Params::new())?;
    bench.launch("empty", line(1), line(1), Params::new())?;
    bench.finish()
}

fn saxpy<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(1);
    let (x, y) = (random.vector(1000, 2.0), random.vector(1000, 2.0));
    let mut bench = Bench::new(gpu, kernels::SAXPY)?;
    let (at_x, at_y) = (bench.filled(&x)?, bench.filled(&y)?);
    let params = Params::new().u32(997).f32(1.5).address(at_x).address(at_y);
    bench.launch("saxpy", line(8), line(128), params)?;
    // One rounding: the compiler emits a fused multiply-add.
    let mut expected = y.clone();
    for (y, x) in expected.iter_mut().zip(&x).take(997) {
        *y = x.mul_add(1.5, *y);
    }
    bench.expect("y", at_y, &expected)?;
    bench.finish()
}

fn vector_add<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(2);
    let (a, b) = (random.vector(1001, 2.0), random.vector(1001, 2.0));
    let mut bench = Bench::new(gpu, kernels::VECTOR_ADD)?;
    let (at_a, at_b) = (bench.filled(&a)?, bench.filled(&b)?);
    let out = bench.filled(&vec![0.0f32; 1001])?;
    let params = Params::new()
        .address(at_a)
        .address(at_b)
        .address(out)
        .u32(1001);
    bench.launch("vector_add", line(3), line(48), params)?;
    let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    bench.expect("out", out, &expected)?;
    bench.finish()
}

fn histogram<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(3);
    // Few distinct values, so that lanes collide.
    let bytes: Vec<u8> = (0..5003).map(|_| (random.below(9) * 31) as u8).collect();
    let mut bench = Bench::new(gpu, kernels::HISTOGRAM)?;
    let at = bench.filled(&bytes)?;
    let bins = bench.filled(&[1u32; 256])?;
    let params = Params::new().address(at).address(bins).u32(5003);
    bench.launch("histogram", line(3), line(96), params)?;
    let mut expected = [1u32; 256];
    for byte in bytes {
        expected[byte as usize] += 1;
    }
    bench.expect("bins", bins, &expected)?;
    bench.finish()
}

fn atomics<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(4);
    let values: Vec<u32> = (0..777).map(|_| random.bits() as u32 | 16).collect();
    let mut bench = Bench::new(gpu, kernels::HISTOGRAM)?;
    let at = bench.filled(&values)?;
    let out = bench.filled(&[0u32, u32::MAX, 0, u32::MAX, 0, 0, 0, 0])?;
    let params = Params::new().address(at).address(out).u32(777);
    bench.launch("atomics", line(7), line(128), params)?;
    let expected = [
        values.iter().fold(0, |sum: u32, v| sum.wrapping_add(*v)),
        values.iter().copied().min().unwrap_or(0),
        values.iter().copied().max().unwrap_or(0),
        values.iter().fold(u32::MAX, |all, v| all & v),
        values.iter().fold(0, |any, v| any | v),
        values.iter().fold(0, |odd, v| odd ^ v),
        7,
        777,
    ];
    bench.expect("out", out, &expected)?;
    bench.finish()
}

fn scan<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut random = SplitMix64::new(5);
    let values: Vec<u32> = (0..1000).map(|_| random.bits() as u32).collect();
    let mut bench = Bench::new(gpu, kernels::SCAN)?;
    let (input, out) = (bench.filled(&values)?, bench.filled(&[0u32; 1000])?);
    let (totals, scanned) = (bench.filled(&[0u32; 8])?, bench.filled(&[0u32; 8])?);
    let total = bench.filled(&[0u32])?;
    let params = Params::new()
        .address(input)
        .address(out)
        .address(totals)
        .u32(1000);
    bench.launch("scan_blocks", line(8), line(128), params)?;
    let params = Params::new()
        .address(totals)
        .address(scanned)
        .address(total)
        .u32(8);
    bench.launch("scan_blocks", line(1), line(32), params)?;
    let params = Params::new().address(out).address(scanned).u32(1000);
    bench.launch("scan_offsets", line(8), line(128), params)?;
    let sums = values.iter().scan(0u32, |sum, v| {
        *sum = sum.wrapping_add(*v);
        Some(*sum)
    });
    let expected: Vec<u32> = sums.collect();
    bench.expect("sums", out, &expected)?;
    bench.expect("total", total, &expected[999..])?;
    bench.finish()
}

fn spin_lock<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut bench = Bench::new(gpu, kernels::SPIN)?;
    let (lock, counter) = (bench.filled(&[0u32])?, bench.filled(&[5u32])?);
    let params = Params::new().address(lock).address(counter);
    bench.launch("spin_lock", line(40), line(64), params)?;
    bench.expect("counter", counter, &[5u32 + 40 * 64])?;
    bench.expect("lock", lock, &[0u32])?;
    bench.finish()
}

fn spin_turns<G: Gpu>(gpu: &mut G) -> Checked<G> {
    let mut bench = Bench::new(gpu, kernels::SPIN)?;
    let (ticket, turn) = (bench.filled(&[0u32])?, bench.filled(&[0u32])?);
    let order = bench.filled(&[0u32; 40])?;
    let params = Params::new().address(ticket).address(turn).address(order);
    bench.launch("spin_turns", line(40), line(33), params)?;
    let expected: Vec<u32> = (0..40).map(|t| 3 * t + 1).collect();
    bench.expect("order", order, &expected)?;
    bench.finish()
}
