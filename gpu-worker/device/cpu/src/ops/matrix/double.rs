//! Multiplications in f64, and `mma.m8n8k4` of halves.

#![expect(unsafe_code, reason = "lane loops over raw register files")]
#![expect(
    clippy::needless_range_loop,
    reason = "loops over several matrices at once"
)]

use super::multiply::Operands;
use super::sums::{join, part};
use crate::decode::form::{Finish, Inst, Op, Quads, Round, Total};
use crate::engine::context::Context;
use crate::lane_loop::{Kernel, source, store};
use crate::lane_value::LANES;
use crate::ops::soft;

/// `mma` and `wmma.mma` in f64.
pub(super) struct Doubles;

#[inline(always)]
fn add(round: Round, a: u64, b: u64, c: u64) -> u64 {
    if round == Round::Nearest {
        let sum = f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c));
        return if sum.is_nan() {
            soft::F64.nan()
        } else {
            sum.to_bits()
        };
    }
    soft::fma(soft::F64, a, b, c, round)
}

impl Kernel for Doubles {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Mma(mma) = inst.op else {
            return true;
        };
        let round = match mma.finish {
            Finish::Rounded(round) => round,
            _ => Round::Nearest,
        };
        let (by, slots) = (mma.tiles, Operands::new(cx, inst, mma));
        let mut sums = [[0_u64; 64]; 2];
        // SAFETY: decode gave the slots, one for each tile of A and B and two of C and D.
        unsafe {
            for (pair, sum) in slots.c.chunks_exact(2).zip(&mut sums) {
                *sum = join(source::<u64>(cx, pair[0]), source::<u64>(cx, pair[1]));
            }
            for row in 0..usize::from(by.rows) {
                for depth in 0..usize::from(by.depth) {
                    let a = source::<u64>(cx, slots.a[by.a(row, depth)]);
                    let b = source::<u64>(cx, slots.b[by.b(0, depth)]);
                    for k in 0..4 {
                        for at in 0..64 {
                            let (m, n) = (at / 8, at % 8);
                            let to = &mut sums[row][at];
                            *to = add(round, a[4 * m + k], b[4 * n + k], *to);
                        }
                    }
                }
            }
            for (pair, sum) in slots.d.chunks_exact(2).zip(&sums) {
                let rows = part(sum);
                store(cx, pair[0], mask, &rows[0]);
                store(cx, pair[1], mask, &rows[1]);
            }
        }
        true
    }
}

/// `mma.m8n8k4` of halves: quad `q` is lanes `4 q ..` and `16 + 4 q ..`.
pub(super) struct Quartets;

/// The f32 value of half `at` of some registers' lane.
fn half(rows: &[&[u32; LANES]], lane: usize, at: usize) -> f32 {
    let bits = rows[at / 2][lane] >> (16 * (at % 2)) & 0xffff;
    f32::from_bits(soft::convert(soft::F16, soft::F32, u64::from(bits), Round::Nearest) as u32)
}

/// Row and column of element `at` of C or D in f32, in a lane of the lower half of the quad.
fn place(lane: usize, at: usize) -> (usize, usize) {
    (lane & 1 | at & 2, at & 4 | lane & 2 | at & 1)
}

impl Kernel for Quartets {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::MmaQuads(quads) = inst.op else {
            return true;
        };
        let Quads {
            a_by_column,
            b_by_column,
            c,
            d,
        } = quads;
        let count = |total: Total| if total == Total::F16 { 4 } else { 8 };
        let slots = &cx.operands[inst.imm as usize..];
        let (out, slots) = slots.split_at(count(d));
        // SAFETY: decode gave the slots: D, two of A, two of B, C.
        unsafe {
            let rows: [&[u32; LANES]; 12] = std::array::from_fn(|at| {
                let last = 4 + count(c) - 1;
                source::<u32>(cx, slots[at.min(last)])
            });
            let (a, b, c_rows) = (&rows[..2], &rows[2..4], &rows[4..]);
            let mut result = [[0_u32; LANES]; 8];
            for quad in 0..4 {
                // The lane that holds row or column `at`, which both halves split.
                let lane = |at: usize| 4 * quad + at % 4 + at / 4 * 16;
                let left = |m: usize, k: usize| {
                    if a_by_column {
                        half(a, lane(k + m / 4 * 4), m % 4)
                    } else {
                        half(a, lane(m), k)
                    }
                };
                let right = |k: usize, n: usize| {
                    if b_by_column {
                        half(b, lane(n), k)
                    } else {
                        half(b, lane(k + n / 4 * 4), n % 4)
                    }
                };
                for side in 0..2 {
                    for low in 0..4 {
                        let holder = lane(low + 4 * side);
                        for at in 0..8 {
                            let (m, n) = if d == Total::F16 {
                                (low, at)
                            } else {
                                place(low, at)
                            };
                            let m = m + 4 * side;
                            let mut sum = if c == Total::F16 {
                                half(c_rows, lane(m), n)
                            } else {
                                let from = m % 2 + (n & 2) + m / 4 * 4;
                                f32::from_bits(c_rows[n & 4 | m & 2 | n & 1][lane(from)])
                            };
                            for k in 0..4 {
                                sum = left(m, k).mul_add(right(k, n), sum);
                            }
                            let bits = u64::from(sum.to_bits());
                            if d == Total::F16 {
                                let cut = soft::convert(soft::F32, soft::F16, bits, Round::Nearest);
                                result[at / 2][holder] |= (cut as u32) << (16 * (at % 2));
                            } else {
                                let bits = if sum.is_nan() { 0x7fff_ffff } else { bits };
                                result[at][holder] = bits as u32;
                            }
                        }
                    }
                }
            }
            for (slot, row) in out.iter().zip(&result) {
                store(cx, *slot, mask, row);
            }
        }
        true
    }
}
