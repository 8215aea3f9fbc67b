//! Conversion of C and D between their registers and sums of 8 by 8.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use super::format::{Format, Half};
use crate::decode::form::{Element, Finish, Round, Slot, Total};
use crate::engine::context::Context;
use crate::lane_loop::{source, store};
use crate::lane_value::{LANES, Row};
use crate::ops::soft;

/// Maximum number of tiles of C and D.
const MOST: usize = 4;

/// Sums of 8 by 8, row by row: f32 or s32.
pub(super) type Sums = [[u32; 64]; MOST];

/// Zero sums.
pub(super) const ZERO: Sums = [[0; 64]; MOST];

/// Two registers as rows of eight: each lane has two neighbours, one in each.
#[inline(always)]
pub(super) fn join<T: Copy + Default>(even: &Row<T>, odd: &Row<T>) -> [T; 64] {
    let mut sum = [T::default(); 64];
    for lane in 0..LANES {
        sum[2 * lane] = even[lane];
        sum[2 * lane + 1] = odd[lane];
    }
    sum
}

/// The two registers of rows of eight.
#[inline(always)]
pub(super) fn part<T: Copy + Default>(sum: &[T; 64]) -> [Row<T>; 2] {
    let mut rows = [[T::default(); LANES]; 2];
    for lane in 0..LANES {
        rows[0][lane] = sum[2 * lane];
        rows[1][lane] = sum[2 * lane + 1];
    }
    rows
}

/// Reads C as f32.
///
/// # Safety
/// The slots are words of the context's files, as many as C has.
#[inline(always)]
pub(super) unsafe fn read<const SIMD: bool>(
    cx: &Context<'_>,
    c: Total,
    slots: &[Slot],
    sums: &mut Sums,
) {
    // SAFETY: the caller vouches for the slots.
    unsafe {
        if c == Total::F16 {
            for (slot, sum) in slots.iter().zip(sums) {
                Half::spread::<SIMD>(Element::F16, source::<u32>(cx, *slot), sum);
            }
        } else {
            for (pair, sum) in slots.chunks_exact(2).zip(sums) {
                *sum = join(source::<u32>(cx, pair[0]), source::<u32>(cx, pair[1]));
            }
        }
    }
}

/// Adds integer sums to C.
///
/// # Safety
/// As [`read`].
#[inline(always)]
pub(super) unsafe fn accumulate(cx: &Context<'_>, finish: Finish, slots: &[Slot], sums: &mut Sums) {
    for (pair, sum) in slots.chunks_exact(2).zip(sums) {
        // SAFETY: the caller vouches for the slots.
        let c = unsafe { join(source::<u32>(cx, pair[0]), source::<u32>(cx, pair[1])) };
        for at in 0..64 {
            sum[at] = if finish == Finish::Finite {
                (c[at] as i32).saturating_add(sum[at] as i32) as u32
            } else {
                c[at].wrapping_add(sum[at])
            };
        }
    }
}

/// Writes D.
///
/// # Safety
/// As [`read`], and the slots are not constants.
#[inline(always)]
pub(super) unsafe fn write<const SIMD: bool>(
    cx: &mut Context<'_>,
    (d, finish): (Total, Finish),
    (slots, mask): (&[Slot], u32),
    sums: &Sums,
) {
    // SAFETY: the caller vouches for the slots.
    unsafe {
        match d {
            Total::F16 => {
                for (slot, sum) in slots.iter().zip(sums) {
                    let row = narrow::<SIMD>(sum, finish == Finish::Finite);
                    store(cx, *slot, mask, &row);
                }
            }
            Total::F32 => {
                for (pair, sum) in slots.chunks_exact(2).zip(sums) {
                    let mut rows = part(sum);
                    for row in &mut rows {
                        for bits in row {
                            *bits = single(*bits, finish == Finish::Finite);
                        }
                    }
                    store(cx, pair[0], mask, &rows[0]);
                    store(cx, pair[1], mask, &rows[1]);
                }
            }
            Total::S32 | Total::F64 => {
                for (pair, sum) in slots.chunks_exact(2).zip(sums) {
                    let rows = part(sum);
                    store(cx, pair[0], mask, &rows[0]);
                    store(cx, pair[1], mask, &rows[1]);
                }
            }
        }
    }
}

/// Makes a NaN canonical; with `.satfinite`, replaces values that are not finite.
#[inline(always)]
fn single(bits: u32, finite: bool) -> u32 {
    let magnitude = bits & 0x7fff_ffff;
    let not = magnitude > 0x7f80_0000;
    if finite {
        let clamped = bits & 0x8000_0000 | magnitude.min(0x7f7f_ffff);
        if not { 0 } else { clamped }
    } else if not {
        0x7fff_ffff
    } else {
        bits
    }
}

/// Rows of eight f32 as one register of pairs of halves.
#[inline(always)]
fn narrow<const SIMD: bool>(sum: &[u32; 64], finite: bool) -> Row<u32> {
    let mut row = halve::<SIMD>(sum);
    for word in &mut row {
        let half = |bits: u32| {
            let not = bits & 0x7fff > 0x7c00;
            match (finite, not) {
                (true, true) => 0,
                (true, false) => bits & 0x8000 | (bits & 0x7fff).min(0x7bff),
                (false, true) => 0x7fff,
                (false, false) => bits,
            }
        };
        *word = half(*word & 0xffff) | half(*word >> 16) << 16;
    }
    row
}

#[inline(always)]
fn halve<const SIMD: bool>(sum: &[u32; 64]) -> Row<u32> {
    #[cfg(target_arch = "x86_64")]
    if SIMD {
        // SAFETY: `SIMD` states that F16C is available.
        return unsafe { halve_f16c(sum) };
    }
    let half = |bits: u32| soft::convert(soft::F32, soft::F16, u64::from(bits), Round::Nearest);
    std::array::from_fn(|lane| (half(sum[2 * lane]) | half(sum[2 * lane + 1]) << 16) as u32)
}

/// # Safety
/// Needs F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn halve_f16c(sum: &[u32; 64]) -> Row<u32> {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps,
    };
    let mut row = [0_u32; LANES];
    for group in 0..8 {
        // SAFETY: a sum is eight groups of eight; eight halves fill four lanes.
        unsafe {
            let from = _mm256_loadu_ps(sum.as_ptr().add(8 * group).cast());
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(from);
            _mm_storeu_si128(row.as_mut_ptr().add(4 * group).cast(), halves);
        }
    }
    row
}
