//! `wmma.load` and `wmma.store`: fragments from and to lines in memory.
//!
//! The distribution of a `wmma` fragment over the lanes is the implementation's choice. Here it is
//! that of `mma` for the same elements, so that `wmma.mma` is the same multiplication.

#![expect(
    unsafe_code,
    reason = "copies behind address checks, lane loops over register files"
)]

use super::sums::{join, part};
use crate::decode::form::{Fragment, Inst, Op, Pointer, Role, Slot};
use crate::engine::context::Context;
use crate::lane_loop::{Kernel, source, store};
use crate::lane_value::{Bits, LANES, Row};
use crate::ops::addresses::addresses;
use std::marker::PhantomData;
use std::ptr;

/// Bytes of the largest matrix.
const MOST: usize = 1024;

/// A matrix, line after line.
#[repr(align(32))]
struct Matrix([u8; MOST]);

impl Matrix {
    /// Exchanges lines and elements: `lines` of `length` elements of `size` bytes.
    fn turned(&self, (lines, length): (usize, usize), size: usize) -> Self {
        fn each<const N: usize>(from: &[u8], to: &mut [u8], (lines, length): (usize, usize)) {
            let (from, _) = from.as_chunks::<N>();
            let (to, _) = to.as_chunks_mut::<N>();
            for line in 0..lines {
                for at in 0..length {
                    to[at * lines + line] = from[line * length + at];
                }
            }
        }
        let mut out = Self([0; MOST]);
        match size {
            1 => each::<1>(&self.0, &mut out.0, (lines, length)),
            2 => each::<2>(&self.0, &mut out.0, (lines, length)),
            4 => each::<4>(&self.0, &mut out.0, (lines, length)),
            _ => each::<8>(&self.0, &mut out.0, (lines, length)),
        }
        out
    }
}

/// `W` is the bank of the registers.
pub(super) struct Lines<W>(PhantomData<W>);

/// Number of lines in memory, elements of a line, and bytes of a line.
fn shape(fragment: Fragment) -> (usize, usize, usize) {
    let (mut lines, mut length) = fragment.straight();
    if fragment.crossed {
        (lines, length) = (length, lines);
    }
    (lines, length, length * usize::from(fragment.bits) / 8)
}

/// Eight rows of `len` bytes, `step` apart.
///
/// # Safety
/// Both sides have room for them.
#[inline(always)]
unsafe fn eight(from: *const u8, from_step: usize, to: *mut u8, to_step: usize, len: usize) {
    for g in 0..8 {
        // SAFETY: the caller vouches for the rows.
        unsafe { ptr::copy_nonoverlapping(from.add(g * from_step), to.add(g * to_step), len) };
    }
}

impl<W: Bits> Lines<W> {
    /// Moves registers to a matrix of straight lines, or out of it.
    ///
    /// # Safety
    /// The slots are of bank `W`, as many as the fragment has.
    #[inline(always)]
    unsafe fn registers(
        cx: &mut Context<'_>,
        (fragment, slots): (Fragment, &[Slot]),
        mask: u32,
        matrix: &mut Matrix,
        write: bool,
    ) {
        let (lines, length) = fragment.straight();
        let step = length * usize::from(fragment.bits) / 8;
        let by = fragment.tiles;
        if fragment.role == Role::Sum {
            // SAFETY: the caller vouches for the slots.
            unsafe { Self::sums(cx, (fragment, slots), mask, matrix, write) };
            return;
        }
        // A row of a tile: four lanes.
        let size = 4 * size_of::<W>();
        let depth = usize::from(by.depth);
        for line in 0..lines / 8 {
            for at in 0..depth {
                let register = if fragment.role == Role::A {
                    by.a(line, at)
                } else {
                    by.b(line, at)
                };
                let start = 8 * line * step + at * size;
                let mut row: Row<W> = [W::default(); LANES];
                // SAFETY: the tile is in the matrix; the caller vouches for the slots.
                unsafe {
                    let from = matrix.0[start..].as_ptr();
                    eight(from, step, row.as_mut_ptr().cast(), size, size);
                    for slot in slots.iter().skip(register).step_by(depth * lines / 8) {
                        store(cx, *slot, mask, &row);
                    }
                }
            }
        }
    }

    /// As `registers`, for C and D.
    ///
    /// # Safety
    /// As `registers`.
    #[inline(always)]
    unsafe fn sums(
        cx: &mut Context<'_>,
        (fragment, slots): (Fragment, &[Slot]),
        mask: u32,
        matrix: &mut Matrix,
        write: bool,
    ) {
        let by = fragment.tiles;
        let size = usize::from(fragment.bits) / 8;
        let step = 8 * size * usize::from(by.columns);
        for column in 0..usize::from(by.columns) {
            for row in 0..usize::from(by.rows) {
                let start = 8 * row * step + 8 * size * column;
                let at = matrix.0[start..].as_mut_ptr();
                let tile = by.c(row, column);
                // SAFETY: the tile is in the matrix; the caller vouches for the slots.
                unsafe {
                    if size == 2 {
                        let mut words: Row<W> = [W::default(); LANES];
                        if write {
                            words = *source::<W>(cx, slots[tile]);
                            eight(words.as_ptr().cast(), 16, at, step, 16);
                        } else {
                            eight(at, step, words.as_mut_ptr().cast(), 16, 16);
                            store(cx, slots[tile], mask, &words);
                        }
                        continue;
                    }
                    let (even, odd) = (slots[2 * tile], slots[2 * tile + 1]);
                    if write {
                        let sum = join(source::<W>(cx, even), source::<W>(cx, odd));
                        eight(sum.as_ptr().cast(), 8 * size, at, step, 8 * size);
                    } else {
                        let mut sum = [W::default(); 64];
                        eight(at, step, sum.as_mut_ptr().cast(), 8 * size, 8 * size);
                        let rows = part(&sum);
                        store(cx, even, mask, &rows[0]);
                        store(cx, odd, mask, &rows[1]);
                    }
                }
            }
        }
    }
}

impl<W: Bits> Kernel for Lines<W> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::MatrixLines {
            fragment,
            at: Pointer { place, wide },
            write,
        } = inst.op
        else {
            return true;
        };
        let slots = &cx.operands[inst.target as usize..][..usize::from(fragment.registers)];
        let (lines, length, bytes) = shape(fragment);
        let size = usize::from(fragment.bits) / 8;
        let lane = mask.trailing_zeros() % LANES as u32;
        let mut matrix = Matrix([0; MOST]);
        // SAFETY: the caller vouches for the slots; each copy follows its check.
        unsafe {
            // Address and stride are the same for all lanes.
            let address = addresses(cx, inst.slots[1], wide, inst.imm)[lane as usize];
            let stride = u64::from(source::<u32>(cx, inst.slots[2])[lane as usize]);
            let stride = stride * u64::from(fragment.bits) / 8;
            if write {
                Self::registers(cx, (fragment, slots), mask, &mut matrix, true);
                if fragment.crossed {
                    matrix = matrix.turned(fragment.straight(), size);
                }
            }
            for line in 0..lines {
                let at = address.wrapping_add(stride.wrapping_mul(line as u64));
                let want = (bytes as u64, size.max(1) as u64);
                let Some(at) = cx.resolve(place, at, want, write, lane) else {
                    return false;
                };
                let held = matrix.0[line * bytes..][..bytes].as_mut_ptr();
                if write {
                    ptr::copy_nonoverlapping(held, at, bytes);
                } else {
                    ptr::copy_nonoverlapping(at, held, bytes);
                }
            }
            if !write {
                if fragment.crossed {
                    matrix = matrix.turned((lines, length), size);
                }
                Self::registers(cx, (fragment, slots), mask, &mut matrix, false);
            }
        }
        true
    }
}
