//! `cp.async`, and memory barrier objects.
//!
//! A copy is made where it is issued, as its waits allow, so that groups need no bookkeeping. A
//! barrier object is 64 bits of the tenant's shared memory. Bits 0 to 19 are the arrivals that this
//! phase still lacks, and bits 20 to 39 the arrivals of every phase. Bits 40 to 62 are the bytes
//! still expected (in two's complement), and bit 63 is the phase. The state that an arrival returns
//! is the object before it.

#![expect(
    unsafe_code,
    reason = "copies behind address checks, lane loops over register files"
)]

use super::addresses::addresses;
use crate::decode::form::{Inst, Limit, Op, Place, Wait};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, pick, source, store};
use crate::lane_value::LANES;
use std::ptr;

struct Copy;

impl Copy {
    /// Copies for the lanes of a mask.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    #[inline(always)]
    unsafe fn bytes<const N: usize>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::CopyAsync { wide, limit, .. } = inst.op else {
            return true;
        };
        // SAFETY: the caller vouches for the slots; each copy follows its checks.
        unsafe {
            let to = addresses(cx, inst.slots[0], wide[0], inst.imm);
            let from = addresses(cx, inst.slots[1], wide[1], i64::from(inst.target as i32));
            let ignored = match limit {
                Limit::Ignored(false) => cx.pred(inst.slots[2]),
                Limit::Ignored(true) => !cx.pred(inst.slots[2]),
                _ => 0,
            };
            for lane in 0..LANES {
                if mask >> lane & 1 == 0 {
                    continue;
                }
                let have = match limit {
                    Limit::None => N,
                    Limit::Bytes => (source::<u32>(cx, inst.slots[2])[lane] as usize).min(N),
                    Limit::Ignored(_) if ignored >> lane & 1 != 0 => 0,
                    Limit::Ignored(_) => N,
                };
                let (size, index) = (N as u64, lane as u32);
                let mut buffer = [0_u8; N];
                if have > 0 {
                    let want = (have as u64, size);
                    let Some(at) = cx.resolve(Place::Global, from[lane], want, false, index) else {
                        return false;
                    };
                    if have == N {
                        buffer = ptr::read_unaligned(at.cast());
                    } else {
                        ptr::copy_nonoverlapping(at, buffer.as_mut_ptr(), have);
                    }
                }
                let Some(at) = cx.resolve(Place::Shared, to[lane], (size, size), true, index)
                else {
                    return false;
                };
                ptr::write_unaligned(at.cast(), buffer);
            }
        }
        true
    }
}

impl Kernel for Copy {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::CopyAsync { bytes, .. } = inst.op else {
            return true;
        };
        // SAFETY: forwarded from the caller.
        unsafe {
            match bytes {
                4 => Self::bytes::<4>(cx, inst, mask),
                8 => Self::bytes::<8>(cx, inst, mask),
                _ => Self::bytes::<16>(cx, inst, mask),
            }
        }
    }
}

/// Maximum number of arrivals of a phase.
const COUNT: u64 = (1 << 20) - 1;
/// Maximum number of bytes expected at once, in either direction.
const BYTES: u64 = (1 << 23) - 1;

/// A barrier object in its parts.
#[derive(Clone, Copy)]
struct Object {
    pending: u64,
    count: u64,
    bytes: u64,
    phase: bool,
}

impl Object {
    fn of(bits: u64) -> Self {
        Self {
            pending: bits & COUNT,
            count: bits >> 20 & COUNT,
            bytes: bits >> 40 & BYTES,
            phase: bits >> 63 != 0,
        }
    }

    /// Its bits; those of the next phase if this one is over.
    fn bits(mut self) -> u64 {
        if self.pending == 0 && self.bytes == 0 {
            self.phase = !self.phase;
            self.pending = self.count;
        }
        self.pending | self.count << 20 | self.bytes << 40 | u64::from(self.phase) << 63
    }

    fn expect(&mut self, bytes: u32) {
        self.bytes = self.bytes.wrapping_add(u64::from(bytes)) & BYTES;
    }

    fn arrive(&mut self, arrivals: u64, drop: bool) {
        // More arrivals than pending are undefined; here the phase ends.
        self.pending = self.pending.saturating_sub(arrivals);
        if drop {
            self.count = self.count.saturating_sub(arrivals);
        }
    }
}

struct Barrier;

impl Kernel for Barrier {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::MemoryBarrier { wait, at } = inst.op else {
            return true;
        };
        let mut out = [0_u64; LANES];
        let mut over = 0;
        // SAFETY: the caller vouches for the slots; each access follows its check. A block is run
        // by one thread at a time, so no other thread accesses its shared memory.
        unsafe {
            let all = addresses(cx, inst.slots[1], at.wide, inst.imm);
            for lane in 0..LANES {
                if mask >> lane & 1 == 0 {
                    continue;
                }
                let Some(at) = cx.resolve(at.place, all[lane], (8, 8), true, lane as u32) else {
                    return false;
                };
                let at = at.cast::<u64>();
                let old = ptr::read_unaligned(at);
                let mut object = Object::of(old);
                if wait == (Wait::Test { parity: false }) {
                    let state = source::<u64>(cx, inst.slots[2])[lane];
                    over |= u32::from(object.phase != Object::of(state).phase) << lane;
                    continue;
                }
                let value = source::<u32>(cx, inst.slots[2])[lane];
                out[lane] = old;
                let new = match wait {
                    Wait::Test { .. } => {
                        over |= u32::from(object.phase != (value & 1 != 0)) << lane;
                        continue;
                    }
                    Wait::Init => {
                        let count = u64::from(value) & COUNT;
                        count | count << 20
                    }
                    Wait::Invalidate => 0,
                    Wait::Expect => {
                        object.expect(value);
                        object.bits()
                    }
                    Wait::Complete => {
                        object.expect(value.wrapping_neg());
                        object.bits()
                    }
                    Wait::Arrive { expect: true, drop } => {
                        object.expect(value);
                        object.arrive(1, drop);
                        object.bits()
                    }
                    Wait::Arrive { drop, .. } => {
                        object.arrive(u64::from(value), drop);
                        object.bits()
                    }
                };
                ptr::write_unaligned(at, new);
            }
            match wait {
                Wait::Test { .. } => cx.set_pred(inst.slots[0], mask, over),
                _ => store(cx, inst.slots[0], mask, &out),
            }
        }
        true
    }
}

/// The number of pending arrivals in a state.
struct Pending;

impl Kernel for Pending {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let state = source::<u64>(cx, inst.slots[1]);
            let out = state.map(|bits| Object::of(bits).pending as u32);
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    Some(match op {
        Op::CopyAsync { .. } => pick::<Copy>(isa),
        Op::MemoryBarrier { .. } => pick::<Barrier>(isa),
        Op::PendingCount => pick::<Pending>(isa),
        _ => return None,
    })
}
