//! Shuffles, votes, matches and reductions over a warp.
//!
//! The scheduler has gathered the lanes of all member masks before one of these runs. Lanes may
//! name different masks: each votes, matches and reduces among the lanes that it names.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use crate::decode::form::{Inst, Op, Redux, Shuffle, Slot, Vote};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, pick, source, store};
use crate::lane_value::{Bits, LANES};
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
                // An absent lane has no value, so the lane's own value is used. That is the same on
                // every run.
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

/// The active lanes that each lane names.
///
/// # Safety
/// As for [`source`].
unsafe fn groups(cx: &Context<'_>, members: Slot, mask: u32) -> [u32; LANES] {
    // SAFETY: the caller vouches for the slot.
    unsafe { source::<u32>(cx, members) }.map(|named| named & mask)
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
            let held = if negated { !held } else { held };
            let groups = groups(cx, inst.slots[2], mask);
            if vote == Vote::Ballot {
                store(cx, inst.slots[0], mask, &groups.map(|group| held & group));
                return true;
            }
            let mut out = 0;
            for (lane, group) in groups.into_iter().enumerate() {
                let yes = match vote {
                    Vote::All => held & group == group,
                    Vote::Any => held & group != 0,
                    _ => held & group == group || held & group == 0,
                };
                out |= u32::from(yes) << lane;
            }
            cx.set_pred(inst.slots[0], mask, out);
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
            let groups = groups(cx, inst.slots[3], mask);
            let (mut out, mut agreed) = ([0; LANES], 0);
            for lane in 0..LANES {
                for other in 0..LANES {
                    let same = groups[lane] >> other & 1 != 0 && a[lane].low() == a[other].low();
                    out[lane] |= u32::from(same) << other;
                }
                agreed |= u32::from(out[lane] == groups[lane]) << lane;
            }
            if all {
                for (lane, peers) in out.iter_mut().enumerate() {
                    *peers &= 0_u32.wrapping_sub(agreed >> lane & 1);
                }
                if inst.imm != 0 {
                    cx.set_pred(inst.slots[1], mask, agreed);
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
            let signed = ty.is_signed();
            let join = |x: u32, y: u32| match redux {
                Redux::Add => x.wrapping_add(y),
                Redux::And => x & y,
                Redux::Or => x | y,
                Redux::Xor => x ^ y,
                Redux::Min if signed => (x as i32).min(y as i32) as u32,
                Redux::Max if signed => (x as i32).max(y as i32) as u32,
                Redux::Min => x.min(y),
                Redux::Max => x.max(y),
            };
            let (mut out, mut last) = ([0; LANES], (0, 0));
            for (lane, group) in groups(cx, inst.slots[2], mask).into_iter().enumerate() {
                if group != last.0 {
                    let values = (0..LANES).filter(|other| group >> other & 1 != 0);
                    last = (
                        group,
                        values.map(|other| a[other]).reduce(join).unwrap_or(0),
                    );
                }
                out[lane] = last.1;
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

/// The lowest of the lanes that each lane names.
struct Elected;

impl Kernel for Elected {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let leaders = groups(cx, inst.slots[2], mask).map(u32::trailing_zeros);
            let mut elected = 0;
            for (lane, leader) in leaders.iter().enumerate() {
                elected |= u32::from(*leader == lane as u32) << lane;
            }
            store(cx, inst.slots[0], mask, &leaders);
            cx.set_pred(inst.slots[1], mask, elected);
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
        Op::Elect => pick::<Elected>(isa),
        _ => return None,
    })
}
