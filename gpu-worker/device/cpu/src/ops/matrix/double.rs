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
use crate::lane_value::{LANES, Row};
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
fn half(rows: &[&Row<u32>], lane: usize, at: usize) -> f32 {
    let bits = rows[at / 2][lane] >> (16 * (at % 2)) & 0xffff;
    f32::from_bits(soft::convert(soft::F16, soft::F32, u64::from(bits), Round::Nearest) as u32)
}

/// Row and column of element `at` of C or D in f32, in a lane of the lower half of the quad.
fn place(lane: usize, at: usize) -> (usize, usize) {
    (lane & 1 | at & 2, at & 4 | lane & 2 | at & 1)
}

/// The sources of `mma.m8n8k4` of halves.
struct Sources<'r> {
    quads: Quads,
    /// Two registers of A, two of B, those of C.
    rows: [&'r Row<u32>; 12],
    /// The current quad.
    quad: usize,
}

impl Sources<'_> {
    /// The lane that holds row or column `at`; both halves of the quad share them.
    #[inline(always)]
    fn lane(&self, at: usize) -> usize {
        4 * self.quad + at % 4 + at / 4 * 16
    }

    #[inline(always)]
    fn a(&self, m: usize, k: usize) -> f32 {
        if self.quads.a_by_column {
            half(&self.rows[..2], self.lane(k + m / 4 * 4), m % 4)
        } else {
            half(&self.rows[..2], self.lane(m), k)
        }
    }

    #[inline(always)]
    fn b(&self, k: usize, n: usize) -> f32 {
        if self.quads.b_by_column {
            half(&self.rows[2..4], self.lane(n), k)
        } else {
            half(&self.rows[2..4], self.lane(k + n / 4 * 4), n % 4)
        }
    }

    #[inline(always)]
    fn c(&self, m: usize, n: usize) -> f32 {
        let rows = &self.rows[4..];
        if self.quads.c == Total::F16 {
            return half(rows, self.lane(m), n);
        }
        let from = m % 2 + (n & 2) + m / 4 * 4;
        f32::from_bits(rows[n & 4 | m & 2 | n & 1][self.lane(from)])
    }

    /// One element of D.
    #[inline(always)]
    fn sum(&self, m: usize, n: usize) -> f32 {
        let add = |sum, k| self.a(m, k).mul_add(self.b(k, n), sum);
        (0..4).fold(self.c(m, n), add)
    }

    /// The quad's part of D.
    #[inline(always)]
    fn multiply(&self, result: &mut [Row<u32>; 8]) {
        let halves = self.quads.d == Total::F16;
        for row in 0..8 {
            let (side, low) = (row / 4 * 4, row % 4);
            let holder = self.lane(row);
            for at in 0..8 {
                let (m, n) = if halves { (low, at) } else { place(low, at) };
                let sum = self.sum(m + side, n);
                if halves {
                    let bits = u64::from(sum.to_bits());
                    let cut = soft::convert(soft::F32, soft::F16, bits, Round::Nearest);
                    result[at / 2][holder] |= (cut as u32) << (16 * (at % 2));
                } else {
                    result[at][holder] = if sum.is_nan() {
                        0x7fff_ffff
                    } else {
                        sum.to_bits()
                    };
                }
            }
        }
    }
}

impl Kernel for Quartets {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::MmaQuads(quads) = inst.op else {
            return true;
        };
        let count = |total: Total| if total == Total::F16 { 4 } else { 8 };
        let slots = &cx.operands[inst.imm as usize..];
        let (out, slots) = slots.split_at(count(quads.d));
        let last = 4 + count(quads.c) - 1;
        // SAFETY: decode gave the slots: D, two of A, two of B, C.
        unsafe {
            let rows = std::array::from_fn(|at| source::<u32>(cx, slots[at.min(last)]));
            let mut result = [[0_u32; LANES]; 8];
            for quad in 0..4 {
                Sources { quads, rows, quad }.multiply(&mut result);
            }
            for (slot, row) in out.iter().zip(&result) {
                store(cx, *slot, mask, row);
            }
        }
        true
    }
}
