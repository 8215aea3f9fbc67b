//! Multiplications of tiles, with the registers of C and D.
//!
//! Sums of floats are in this order: C first, then the products by ascending k. Each is added by
//! one fused multiply-add in f32 (f64 for f64); D in f16 is rounded once, at the end. So results
//! depend on the operands alone. Tensor cores add in another order and truncate aligned operands,
//! so their results differ in the last places.

#![expect(unsafe_code, reason = "lane loops over raw register files")]
#![expect(
    clippy::needless_range_loop,
    reason = "loops over several tiles at once"
)]

use super::format::{Format, MOST, turn};
use super::sums;
use crate::decode::form::{Element, Family, Finish, Inst, Mma, Op, Slot};
use crate::engine::context::Context;
use crate::lane_loop::{Kernel, source};
use crate::lane_value::Row;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Adds the product of two tiles: `a` is eight rows of `width`, `b` is `width` rows of eight.
pub(super) trait Core {
    fn add<F: Format, const SIMD: bool>(
        finish: Finish,
        a: &F::Tile,
        b: &F::Tile,
        sum: &mut [u32; 64],
    );
}

/// f32 words.
pub(super) struct Floats;
/// Words of two i16.
pub(super) struct Integers;
/// Words of 32 bits.
pub(super) struct Bits;

impl Core for Floats {
    #[inline(always)]
    fn add<F: Format, const SIMD: bool>(_: Finish, a: &F::Tile, b: &F::Tile, sum: &mut [u32; 64]) {
        #[cfg(target_arch = "x86_64")]
        if SIMD {
            // SAFETY: `SIMD` states that FMA is available.
            unsafe { floats::<F>(a.as_ref(), b.as_ref(), sum) };
            return;
        }
        let (width, a, b) = (F::WIDTH, a.as_ref(), b.as_ref());
        for row in 0..8 {
            for k in 0..width {
                let left = f32::from_bits(a[row * width + k]);
                for column in 0..8 {
                    let to = &mut sum[8 * row + column];
                    let right = f32::from_bits(b[8 * k + column]);
                    *to = left.mul_add(right, f32::from_bits(*to)).to_bits();
                }
            }
        }
    }
}

/// # Safety
/// Needs AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn floats<F: Format>(a: &[u32], b: &[u32], sum: &mut [u32; 64]) {
    let width = F::WIDTH;
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    };
    assert!(
        a.len() >= 8 * width && b.len() >= 8 * width,
        "tiles of eight rows"
    );
    let mut rows = [_mm256_setzero_ps(); 8];
    // SAFETY: a sum is eight rows of eight; the tiles were measured above.
    unsafe {
        for row in 0..8 {
            rows[row] = _mm256_loadu_ps(sum.as_ptr().add(8 * row).cast());
        }
        for k in 0..width {
            let right = _mm256_loadu_ps(b.as_ptr().add(8 * k).cast());
            for row in 0..8 {
                let left = _mm256_set1_ps(f32::from_bits(*a.get_unchecked(row * width + k)));
                rows[row] = _mm256_fmadd_ps(left, right, rows[row]);
            }
        }
        for row in 0..8 {
            _mm256_storeu_ps(sum.as_mut_ptr().add(8 * row).cast(), rows[row]);
        }
    }
}

impl Core for Integers {
    #[inline(always)]
    fn add<F: Format, const SIMD: bool>(_: Finish, a: &F::Tile, b: &F::Tile, sum: &mut [u32; 64]) {
        #[cfg(target_arch = "x86_64")]
        if SIMD {
            // SAFETY: `SIMD` states that AVX2 is available.
            unsafe { integers::<F>(a.as_ref(), b.as_ref(), sum) };
            return;
        }
        let (width, a, b) = (F::WIDTH, a.as_ref(), b.as_ref());
        let low = |pair: u32| i32::from(pair as i16);
        let high = |pair: u32| pair as i32 >> 16;
        for row in 0..8 {
            for k in 0..width {
                let left = a[row * width + k];
                for column in 0..8 {
                    let right = b[8 * k + column];
                    let product = low(left) * low(right) + high(left) * high(right);
                    let to = &mut sum[8 * row + column];
                    *to = to.wrapping_add(product as u32);
                }
            }
        }
    }
}

/// # Safety
/// Needs AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn integers<F: Format>(a: &[u32], b: &[u32], sum: &mut [u32; 64]) {
    let width = F::WIDTH;
    use std::arch::x86_64::{
        _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi32,
        _mm256_setzero_si256, _mm256_storeu_si256,
    };
    assert!(
        a.len() >= 8 * width && b.len() >= 8 * width,
        "tiles of eight rows"
    );
    let mut rows = [_mm256_setzero_si256(); 8];
    // SAFETY: a sum is eight rows of eight; the tiles were measured above.
    unsafe {
        for row in 0..8 {
            rows[row] = _mm256_loadu_si256(sum.as_ptr().add(8 * row).cast());
        }
        for k in 0..width {
            let right = _mm256_loadu_si256(b.as_ptr().add(8 * k).cast());
            for row in 0..8 {
                let left = _mm256_set1_epi32(*a.get_unchecked(row * width + k) as i32);
                rows[row] = _mm256_add_epi32(rows[row], _mm256_madd_epi16(left, right));
            }
        }
        for row in 0..8 {
            _mm256_storeu_si256(sum.as_mut_ptr().add(8 * row).cast(), rows[row]);
        }
    }
}

impl Core for Bits {
    #[inline(always)]
    fn add<F: Format, const SIMD: bool>(
        finish: Finish,
        a: &F::Tile,
        b: &F::Tile,
        sum: &mut [u32; 64],
    ) {
        let (width, a, b) = (F::WIDTH, a.as_ref(), b.as_ref());
        for row in 0..8 {
            for k in 0..width {
                let left = a[row * width + k];
                for column in 0..8 {
                    let right = b[8 * k + column];
                    let both = if finish == Finish::Xor {
                        left ^ right
                    } else {
                        left & right
                    };
                    sum[8 * row + column] += both.count_ones();
                }
            }
        }
    }
}

/// `mma.sync` and `wmma.mma` of 32-bit sums.
pub(super) struct Multiply<F, C>(PhantomData<(F, C)>);

/// Tiles of A or of B. They are not cleared, because only written ones are read.
pub(super) type Side<F> = [MaybeUninit<<F as Format>::Tile>; MOST];

/// Reads all registers of A, or of B, which is transposed.
///
/// # Safety
/// The slots are words of the context's files.
#[inline(always)]
pub(super) unsafe fn side<F: Format, const SIMD: bool>(
    cx: &Context<'_>,
    element: Element,
    slots: &[Slot],
    turned: bool,
) -> Side<F> {
    let mut side = [const { MaybeUninit::uninit() }; MOST];
    for (slot, tile) in slots.iter().zip(&mut side) {
        // SAFETY: the caller vouches for the slot.
        let row: &Row<u32> = unsafe { source::<u32>(cx, *slot) };
        let tile = tile.write(F::BLANK);
        if turned {
            let mut straight = F::BLANK;
            F::spread::<SIMD>(element, row, &mut straight);
            turn::<F>(&straight, tile);
        } else {
            F::spread::<SIMD>(element, row, tile);
        }
    }
    side
}

impl<F: Format, C: Core> Kernel for Multiply<F, C> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Mma(mma) = inst.op else {
            return true;
        };
        let Mma {
            tiles: by, finish, ..
        } = mma;
        let slots = Operands::new(cx, inst, mma);
        let integral = matches!(mma.a.family(), Family::Integer | Family::Bit);
        let mut sums = sums::ZERO;
        // SAFETY: decode gave the slots, one for each tile, and no more than `MOST`.
        unsafe {
            let left = side::<F, SIMD>(cx, mma.a, slots.a, false);
            let right = side::<F, SIMD>(cx, mma.b, slots.b, true);
            if !integral {
                sums::read::<SIMD>(cx, mma.c, slots.c, &mut sums);
            }
            for column in 0..usize::from(by.columns) {
                for row in 0..usize::from(by.rows) {
                    let sum = &mut sums[by.c(row, column)];
                    for depth in 0..usize::from(by.depth) {
                        let a = left[by.a(row, depth)].assume_init_ref();
                        let b = right[by.b(column, depth)].assume_init_ref();
                        C::add::<F, SIMD>(finish, a, b, sum);
                    }
                }
            }
            if integral {
                sums::accumulate(cx, finish, slots.c, &mut sums);
            }
            sums::write::<SIMD>(cx, (mma.d, finish), (slots.d, mask), &sums);
        }
        true
    }
}

/// The registers of a multiplication.
pub(super) struct Operands<'m> {
    pub(super) d: &'m [Slot],
    pub(super) a: &'m [Slot],
    pub(super) b: &'m [Slot],
    pub(super) c: &'m [Slot],
}

impl<'m> Operands<'m> {
    #[inline(always)]
    pub(super) fn new(cx: &Context<'m>, inst: &Inst, mma: Mma) -> Self {
        let all = &cx.operands[inst.imm as usize..];
        let sums = mma.tiles.sums();
        let (d, all) = all.split_at(sums * mma.d.registers() as usize);
        let (a, all) = all.split_at(mma.tiles.a_registers());
        let (b, all) = all.split_at(mma.tiles.b_registers());
        let c = &all[..sums * mma.c.registers() as usize];
        Self { d, a, b, c }
    }
}
