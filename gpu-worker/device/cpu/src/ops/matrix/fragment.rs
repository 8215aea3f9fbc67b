//! `ldmatrix`, `stmatrix`, `movmatrix`: tiles of 8 by 8 times 16 bits.

#![expect(
    unsafe_code,
    reason = "copies behind address checks, lane loops over register files"
)]

use crate::decode::form::{Inst, Op, Pointer};
use crate::engine::context::Context;
use crate::lane_loop::{Kernel, source, store};
use crate::lane_value::{LANES, Row};
use crate::ops::addresses::addresses;
use std::ptr;

/// Exchanges rows and columns of a tile of 16-bit elements.
#[inline(always)]
pub(super) fn transpose(row: &Row<u32>) -> Row<u32> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: SSE2 is always available.
        unsafe { transpose_sse2(row) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let element = |g: usize, at: usize| row[4 * g + at / 2] >> (16 * (at % 2)) & 0xffff;
        std::array::from_fn(|lane| {
            let (g, t) = (lane / 4, lane % 4);
            element(2 * t, g) | element(2 * t + 1, g) << 16
        })
    }
}

/// # Safety
/// Needs SSE2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_sse2(row: &Row<u32>) -> Row<u32> {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi16, _mm_unpackhi_epi32,
        _mm_unpackhi_epi64, _mm_unpacklo_epi16, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    let mut out = [0_u32; LANES];
    // SAFETY: a register is eight rows of 16 bytes.
    unsafe {
        let at = |g: usize| _mm_loadu_si128(row.as_ptr().add(4 * g).cast());
        // Pairs of rows, then fours, then all eight.
        let mut two = [at(0); 8];
        let mut four = two;
        for pair in 0..4 {
            let (a, b) = (at(2 * pair), at(2 * pair + 1));
            two[2 * pair] = _mm_unpacklo_epi16(a, b);
            two[2 * pair + 1] = _mm_unpackhi_epi16(a, b);
        }
        for half in 0..2 {
            for side in 0..2 {
                let (a, b): (__m128i, __m128i) = (two[4 * half + side], two[4 * half + 2 + side]);
                four[4 * half + 2 * side] = _mm_unpacklo_epi32(a, b);
                four[4 * half + 2 * side + 1] = _mm_unpackhi_epi32(a, b);
            }
        }
        for column in 0..4 {
            let (a, b) = (four[column], four[4 + column]);
            let to = out.as_mut_ptr().add(8 * column);
            _mm_storeu_si128(to.cast(), _mm_unpacklo_epi64(a, b));
            _mm_storeu_si128(to.add(4).cast(), _mm_unpackhi_epi64(a, b));
        }
    }
    out
}

/// `ldmatrix` and `stmatrix`: lane `8 i + g` has the address of row `g` of matrix `i`.
pub(super) struct Rows;

impl Kernel for Rows {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::MatrixRows {
            count,
            turned,
            at: Pointer { place, wide },
            write,
        } = inst.op
        else {
            return true;
        };
        // SAFETY: the caller vouches for the slots; each copy follows its check.
        unsafe {
            let all = addresses(cx, inst.slots[1], wide, inst.imm);
            for matrix in 0..usize::from(count) {
                let slot = inst.slots[2 + matrix];
                let mut held: Row<u32> = [0; LANES];
                if write {
                    held = *source::<u32>(cx, slot);
                    if turned {
                        held = transpose(&held);
                    }
                }
                for g in 0..8 {
                    let lane = 8 * matrix + g;
                    let Some(at) = cx.resolve(place, all[lane], (16, 16), write, lane as u32)
                    else {
                        return false;
                    };
                    let row = held.as_mut_ptr().add(4 * g).cast::<u8>();
                    if write {
                        ptr::copy_nonoverlapping(row, at, 16);
                    } else {
                        ptr::copy_nonoverlapping(at, row, 16);
                    }
                }
                if !write {
                    let row = if turned { transpose(&held) } else { held };
                    store(cx, slot, mask, &row);
                }
            }
        }
        true
    }
}

/// `movmatrix`.
pub(super) struct Turn;

impl Kernel for Turn {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let row = transpose(source::<u32>(cx, inst.slots[2]));
            store(cx, inst.slots[1], mask, &row);
        }
        true
    }
}
