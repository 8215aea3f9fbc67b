//! Shuffles, votes, matches and reductions over a warp.
//!
//! The scheduler has gathered the lanes of the member mask before one of these runs.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use crate::decode::form::{Inst, Op, Redux, Shuffle, Vote};
use crate::engine::context::Context;
use crate::lanes::{Bits, Handler, Isa, Kernel, LANES, pick, source, store};
use std::marker::PhantomData;

struct Shuffled;

impl Kernel for Shuffled {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Shuffle(mode) = inst.op else {
            return true;
        };
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<u32>(cx, inst.slots[2]);
            let b = source::<u32>(cx, inst.slots[3]);
            let c = source::<u32>(cx, inst.slots[4]);
            let mut out = [0; LANES];
            let mut inside = 0;
            for lane in 0..LANES {
                let (me, by) = (lane as u32, b[lane] & 31);
                let (segment, clamp) = (c[lane] >> 8 & 31, c[lane] & 31);
                let most = me & segment | clamp & !segment;
                let least = me & segment;
                let (from, ok) = match mode {
                    Shuffle::Up => {
                        let from = me.wrapping_sub(by);
                        (from, from as i32 >= most as i32)
                    }
                    Shuffle::Down => (me + by, me + by <= most),
                    Shuffle::Bfly => (me ^ by, me ^ by <= most),
                    Shuffle::Idx => {
                        let from = least | by & !segment;
                        (from, from <= most)
                    }
                };
                // A lane that is not here has no value to give: one's own, so as to be the same
                // on every run.
                let there = ok && mask >> (from & 31) & 1 != 0;
                out[lane] = a[if there { (from & 31) as usize } else { lane }];
                inside |= u32::from(ok) << lane;
            }
            store(cx, inst.slots[0], mask, &out);
            if inst.imm != 0 {
                cx.set_pred(inst.slots[1], mask, inside);
            }
        }
        true
    }
}

struct Voted;

impl Kernel for Voted {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Vote(vote, negated) = inst.op else {
            return true;
        };
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let held = cx.pred(inst.slots[1]);
            let held = if negated { !held } else { held } & mask;
            let spread = |is: bool| if is { u32::MAX } else { 0 };
            match vote {
                Vote::Ballot => store(cx, inst.slots[0], mask, &[held; LANES]),
                Vote::All => cx.set_pred(inst.slots[0], mask, spread(held == mask)),
                Vote::Any => cx.set_pred(inst.slots[0], mask, spread(held != 0)),
                Vote::Uni => {
                    cx.set_pred(inst.slots[0], mask, spread(held == mask || held == 0));
                }
            }
        }
        true
    }
}

struct Matched<B>(PhantomData<B>);

impl<B: Bits> Kernel for Matched<B> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Match(all, _) = inst.op else {
            return true;
        };
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<B>(cx, inst.slots[2]);
            let mut out = [0; LANES];
            for lane in 0..LANES {
                for other in 0..LANES {
                    let same = mask >> other & 1 != 0 && a[lane].low() == a[other].low();
                    out[lane] |= u32::from(same) << other;
                }
            }
            if all {
                let uniform = (0..LANES).all(|lane| mask >> lane & 1 == 0 || out[lane] == mask);
                out = [if uniform { mask } else { 0 }; LANES];
                if inst.imm != 0 {
                    cx.set_pred(inst.slots[1], mask, if uniform { u32::MAX } else { 0 });
                }
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

struct Reduced;

impl Kernel for Reduced {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Redux(redux, ty) = inst.op else {
            return true;
        };
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<u32>(cx, inst.slots[1]);
            let values = (0..LANES)
                .filter(|lane| mask >> lane & 1 != 0)
                .map(|lane| a[lane]);
            let signed = ty.is_signed();
            let value = values.reduce(|x, y| match redux {
                Redux::Add => x.wrapping_add(y),
                Redux::And => x & y,
                Redux::Or => x | y,
                Redux::Xor => x ^ y,
                Redux::Min if signed => (x as i32).min(y as i32) as u32,
                Redux::Max if signed => (x as i32).max(y as i32) as u32,
                Redux::Min => x.min(y),
                Redux::Max => x.max(y),
            });
            store(cx, inst.slots[0], mask, &[value.unwrap_or(0); LANES]);
        }
        true
    }
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    Some(match op {
        Op::Shuffle(_) => pick::<Shuffled>(isa),
        Op::Vote(..) => pick::<Voted>(isa),
        Op::Match(_, true) => pick::<Matched<u64>>(isa),
        Op::Match(_, false) => pick::<Matched<u32>>(isa),
        Op::Redux(..) => pick::<Reduced>(isa),
        _ => return None,
    })
}
