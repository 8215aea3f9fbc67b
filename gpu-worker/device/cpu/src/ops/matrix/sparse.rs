//! `mma.sp`: products with a matrix A that stores half of the elements of every row, and numbers
//! that select their columns.
//!
//! Sums are as those of `mma`: C first, then the products in the order of the elements of A.
//! Missing elements of A are not multiplied, so that an infinity in B meets no zero.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use super::format::Format;
use super::multiply::side;
use super::sums;
use crate::decode::form::{Element, Inst, Op, Slot, Sparse};
use crate::engine::context::Context;
use crate::lane_loop::{Kernel, source};
use crate::lane_value::Row;
use std::marker::PhantomData;

/// Rows of A, D and C.
const ROWS: usize = 16;

/// Addition of the product of two elements of tiles.
pub(super) trait Sum {
    /// Adds the product of two elements, each by its tile, row and column.
    fn add<F: Format>(sum: u32, a: (&F::Tile, usize, usize), b: (&F::Tile, usize, usize)) -> u32;
}

/// f32 words.
pub(super) struct Floats;
/// Words of two i16.
pub(super) struct Integers;

impl Sum for Floats {
    #[inline(always)]
    fn add<F: Format>(sum: u32, a: (&F::Tile, usize, usize), b: (&F::Tile, usize, usize)) -> u32 {
        let element = |(tile, row, column): (&F::Tile, usize, usize)| {
            f32::from_bits(tile.as_ref()[row * F::WIDTH + column])
        };
        element(a)
            .mul_add(element(b), f32::from_bits(sum))
            .to_bits()
    }
}

impl Sum for Integers {
    #[inline(always)]
    fn add<F: Format>(sum: u32, a: (&F::Tile, usize, usize), b: (&F::Tile, usize, usize)) -> u32 {
        let element = |(tile, row, column): (&F::Tile, usize, usize)| {
            let pair = tile.as_ref()[row * F::WIDTH + column / 2];
            i32::from((pair >> (16 * (column % 2))) as i16)
        };
        sum.wrapping_add((element(a) * element(b)) as u32)
    }
}

/// The column of A of element `at` of a row, by the numbers in the lanes.
///
/// A number of two bits selects a unit of four: an element, a pair of 4-bit elements, or a half of
/// a 32-bit element. Numbers of 16-bit and wider elements are eight to a row in each word; the
/// upper half has row `row + 8`. Other numbers are sixteen to a row, and the next lane has row
/// `row + 8`.
fn column(sparse: Sparse, numbers: &Row<u32>, row: usize, at: usize) -> usize {
    let bits = sparse.mma.a.bits();
    let unit = match bits {
        4 => at / 2,
        32 => 2 * at,
        _ => at,
    };
    let (word, shift) = if bits >= 16 {
        (unit / 8, 16 * (row / 8) + 2 * (unit % 8))
    } else {
        (2 * (unit / 16) + row / 8, 2 * (unit % 16))
    };
    let lane = 4 * (row % 8) + usize::from(sparse.first_lane) + word;
    let number = (numbers[lane] >> shift & 3) as usize;
    match bits {
        4 => 8 * (at / 4) + 2 * number + at % 2,
        32 => 2 * at + number / 2,
        _ => 4 * (at / 2) + number,
    }
}

/// `mma.sp` of 32-bit sums.
pub(super) struct Multiply<F, S>(PhantomData<(F, S)>);

impl<F: Format, S: Sum> Kernel for Multiply<F, S> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::MmaSparse(sparse) = inst.op else {
            return true;
        };
        let mma = sparse.mma;
        let by = mma.tiles;
        let reach = mma.a.reach() as usize;
        let integral = matches!(mma.a, Element::S8 | Element::U8 | Element::S4 | Element::U4);
        let (stored, depth) = (by.a_registers(), usize::from(by.depth));
        let count = by.sums();
        let all: &[Slot] = &cx.operands[inst.imm as usize..];
        let (d, all) = all.split_at(count * mma.d.registers() as usize);
        let (a, all) = all.split_at(stored);
        let (b, all) = all.split_at(2 * depth);
        let (c, all) = all.split_at(count * mma.c.registers() as usize);
        let mut sums = sums::ZERO;
        // SAFETY: decode gave the slots: a register for each tile of A and B, those of C and D, and
        // one of numbers.
        unsafe {
            let left = side::<F, SIMD>(cx, mma.a, a, false);
            let right = side::<F, SIMD>(cx, mma.b, b, false);
            let numbers = source::<u32>(cx, all[0]);
            if !integral {
                sums::read::<SIMD>(cx, mma.c, c, &mut sums);
            }
            for row in 0..ROWS {
                for at in 0..depth * reach {
                    let from = column(sparse, numbers, row, at);
                    let a = left[by.a(row / 8, at / reach)].assume_init_ref();
                    let b = right[from / reach].assume_init_ref();
                    let a = (a, row % 8, at % reach);
                    for side in 0..8 {
                        let sum = &mut sums[row / 8][8 * (row % 8) + side];
                        *sum = S::add::<F>(*sum, a, (b, side, from % reach));
                    }
                }
            }
            if integral {
                sums::accumulate(cx, mma.finish, c, &mut sums);
            }
            sums::write::<SIMD>(cx, (mma.d, mma.finish), (d, mask), &sums);
        }
        true
    }
}
