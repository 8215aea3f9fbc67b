//! Moves, packing, selection, predicate logic, special registers.

#![expect(unsafe_code, reason = "lane loops over raw register files")]
#![expect(
    clippy::needless_range_loop,
    reason = "a lane loop runs over several arrays at once"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::decode::form::{
    Inst, LOCAL_WINDOW, Lanemask, Logic, Op, PARAM_WINDOW, Place, SHARED_WINDOW, WINDOW_SIZE,
};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, Map1, Map2, ops, pick, source, store};
use crate::lane_value::{Bits, LANES};
use std::marker::PhantomData;

ops! { 1;
    Move32(a: u32) -> u32 = a;
    Move64(a: u64) -> u64 = a;
}

ops! { 2;
    Pack64(low: u32, high: u32) -> u64 = u64::from(high) << 32 | u64::from(low);
}

/// Packs several parts into one register, lowest first.
struct Pack<W>(PhantomData<W>);
/// Unpacks one register into several parts.
struct Unpack<W>(PhantomData<W>);

fn parts(op: Op) -> usize {
    match op {
        Op::Pack32(n) | Op::Unpack32(n) => usize::from(n),
        Op::Pack64x4 | Op::Unpack64x4 => 4,
        _ => 2,
    }
}

impl<W: Bits> Kernel for Pack<W> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let count = parts(inst.op);
        let bits = (if W::DOUBLE { 64 } else { 32 }) / count as u32;
        let ones = (1_u64 << bits) - 1;
        let mut out = [0_u64; LANES];
        // SAFETY: the caller vouches for the slots.
        unsafe {
            for part in 0..count {
                let from = source::<u32>(cx, inst.slots[1 + part]);
                for lane in 0..LANES {
                    out[lane] |= (u64::from(from[lane]) & ones) << (bits * part as u32);
                }
            }
            store(cx, inst.slots[0], mask, &out.map(W::cut));
        }
        true
    }
}

impl<W: Bits> Kernel for Unpack<W> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let count = parts(inst.op);
        let bits = (if W::DOUBLE { 64 } else { 32 }) / count as u32;
        let ones = ((1_u64 << bits) - 1) as u32;
        // SAFETY: the caller vouches for the slots.
        unsafe {
            // A copy, because a part may be the register itself.
            let whole = *source::<W>(cx, inst.slots[count]);
            for part in 0..count {
                let mut out = [0; LANES];
                for lane in 0..LANES {
                    out[lane] = (whole[lane].low() >> (bits * part as u32)) as u32 & ones;
                }
                store(cx, inst.slots[part], mask, &out);
            }
        }
        true
    }
}

struct Select<W>(PhantomData<W>);

impl<W: Bits> Kernel for Select<W> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let first = cx.pred(inst.slots[3]);
            let a = source::<W>(cx, inst.slots[1]);
            let b = source::<W>(cx, inst.slots[2]);
            let mut out = [W::default(); LANES];
            for lane in 0..LANES {
                out[lane] = if first >> lane & 1 != 0 {
                    a[lane]
                } else {
                    b[lane]
                };
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

struct Predicates;

impl Kernel for Predicates {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            match inst.op {
                Op::Logic(logic, not_a, not_b) => {
                    let flip = |bits: u32, negated: bool| if negated { !bits } else { bits };
                    let a = flip(cx.pred(inst.slots[1]), not_a);
                    let b = flip(cx.pred(inst.slots[2]), not_b);
                    let value = match logic {
                        Logic::And => a & b,
                        Logic::Or => a | b,
                        Logic::Xor => a ^ b,
                        Logic::Not => !a,
                        Logic::Copy => a,
                    };
                    cx.set_pred(inst.slots[0], mask, value);
                }
                Op::SelectPred => {
                    let first = cx.pred(inst.slots[3]);
                    let (a, b) = (cx.pred(inst.slots[1]), cx.pred(inst.slots[2]));
                    cx.set_pred(inst.slots[0], mask, a & first | b & !first);
                }
                Op::IsSpace(place) => {
                    let a = source::<u64>(cx, inst.slots[1]);
                    let mut bits = 0;
                    for lane in 0..LANES {
                        let within = |base: u64| a[lane].wrapping_sub(base) < WINDOW_SIZE;
                        let apart = [SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW];
                        let constant = || {
                            let live = cx.memory.find(a[lane], 1);
                            live.is_some_and(|live| !live.writable)
                        };
                        let is = match place {
                            Place::Shared => within(SHARED_WINDOW),
                            Place::Local => within(LOCAL_WINDOW),
                            Place::Param => within(PARAM_WINDOW),
                            Place::Const => constant(),
                            _ => !apart.into_iter().any(within) && !constant(),
                        };
                        bits |= u32::from(is) << lane;
                    }
                    cx.set_pred(inst.slots[0], mask, bits);
                }
                _ => {}
            }
        }
        true
    }
}

/// Nanoseconds since 1970: the same clock for all kernels, which only increases.
fn wall_clock() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
    let last = LAST.fetch_max(now, Ordering::Relaxed);
    match now > last {
        true => now,
        false => LAST.fetch_add(1, Ordering::Relaxed) + 1,
    }
}

/// Registers that depend on the time or the lane.
struct Moments;

impl Kernel for Moments {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            match inst.op {
                Op::Activemask => store(cx, inst.slots[0], mask, &[mask; LANES]),
                Op::Clock(nanoseconds) => {
                    let now = if nanoseconds { wall_clock() } else { cx.tick() };
                    store(cx, inst.slots[0], mask, &[now; LANES]);
                }
                Op::FrameAddress => {
                    let at = cx.frame_address(inst.imm);
                    store(cx, inst.slots[0], mask, &[at; LANES]);
                }
                Op::Lanemask(which) => {
                    let mut out = [0_u32; LANES];
                    for (lane, out) in out.iter_mut().enumerate() {
                        let one = 1_u32 << lane;
                        *out = match which {
                            Lanemask::Eq => one,
                            Lanemask::Lt => one - 1,
                            Lanemask::Le => one | (one - 1),
                            Lanemask::Gt => !(one | (one - 1)),
                            Lanemask::Ge => !(one - 1),
                        };
                    }
                    store(cx, inst.slots[0], mask, &out);
                }
                _ => {}
            }
        }
        true
    }
}

/// A hint, which does nothing.
struct Nothing;

impl Kernel for Nothing {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(_: &mut Context<'_>, _: &Inst, _: u32) -> bool {
        true
    }
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    Some(match op {
        Op::Move32 => pick::<Map1<Move32>>(isa),
        Op::Move64 => pick::<Map1<Move64>>(isa),
        Op::Pack64 => pick::<Map2<Pack64>>(isa),
        Op::Unpack64 | Op::Unpack64x4 => pick::<Unpack<u64>>(isa),
        Op::Pack64x4 => pick::<Pack<u64>>(isa),
        Op::Pack32(_) => pick::<Pack<u32>>(isa),
        Op::Unpack32(_) => pick::<Unpack<u32>>(isa),
        Op::Select32 => pick::<Select<u32>>(isa),
        Op::Select64 => pick::<Select<u64>>(isa),
        Op::Logic(..) | Op::SelectPred | Op::IsSpace(_) => pick::<Predicates>(isa),
        Op::Activemask | Op::Clock(_) | Op::Lanemask(_) | Op::FrameAddress => pick::<Moments>(isa),
        Op::Nothing => pick::<Nothing>(isa),
        _ => return None,
    })
}

/// The loop that does nothing.
pub(super) fn nothing(isa: Isa) -> Handler {
    pick::<Nothing>(isa)
}
