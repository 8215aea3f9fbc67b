//! `atom`, `red`, fences.

#![expect(
    unsafe_code,
    reason = "atomics behind address checks, lane loops over register files"
)]

use super::addresses::addresses;
use super::rules::{finish32, least64, most64};
use super::soft;
use super::soft::widen;
use crate::decode::form::{Atomic, Inst, Op, Place, Pointer, Round, SHARED_WINDOW, WINDOW_SIZE};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, pick, source, store};
use crate::lane_value::{Bits, LANES};
use ptx::Scalar;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// An operation, its type, and true if subnormals of f32 are flushed.
type What = (Atomic, Scalar, bool);

/// Halves of 16 bits: one, or two in a word.
fn halves(op: Atomic, ty: Scalar, a: u32, b: u32) -> u32 {
    let bf16 = matches!(ty, Scalar::Bf16 | Scalar::Bf16x2);
    let format = if bf16 { soft::BF16 } else { soft::F16 };
    let one = |a: u32, b: u32| {
        let (x, y) = (widen(format, a & 0xffff), widen(format, b & 0xffff));
        let value = match op {
            Atomic::Min => least64(x, y),
            Atomic::Max => most64(x, y),
            _ => x + y,
        };
        soft::convert(soft::F64, format, value.to_bits(), Round::Nearest) as u32
    };
    if ty.size() == 2 {
        one(a, b)
    } else {
        one(a >> 16, b >> 16) << 16 | one(a, b)
    }
}

/// The value to store, from the old one. Sums of f32 in global memory flush subnormals, as the
/// device does.
fn next((op, ty, flush): What, old: u64, b: u64, c: u64) -> u64 {
    let (low, low_b) = (old as u32, b as u32);
    match (op, ty) {
        (Atomic::Exch, _) => b,
        (Atomic::Cas, _) => {
            if old == b {
                c
            } else {
                old
            }
        }
        (Atomic::And, _) => old & b,
        (Atomic::Or, _) => old | b,
        (Atomic::Xor, _) => old ^ b,
        (Atomic::Inc, _) => u64::from(if low >= low_b { 0 } else { low + 1 }),
        (Atomic::Dec, _) => u64::from(if low == 0 || low > low_b {
            low_b
        } else {
            low - 1
        }),
        (Atomic::Add, Scalar::F32) => {
            let enter = |bits: u32| match bits & 0x7f80_0000 {
                0 if flush => f32::from_bits(bits & 0x8000_0000),
                _ => f32::from_bits(bits),
            };
            let sum = enter(low) + enter(low_b);
            u64::from(finish32(sum, flush, false).to_bits())
        }
        (Atomic::Add, Scalar::F64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        (_, Scalar::F16 | Scalar::Bf16 | Scalar::F16x2 | Scalar::Bf16x2) => {
            u64::from(halves(op, ty, low, low_b))
        }
        (Atomic::Add, _) => old.wrapping_add(b),
        (Atomic::Min, Scalar::S32) => u64::from((low as i32).min(low_b as i32) as u32),
        (Atomic::Max, Scalar::S32) => u64::from((low as i32).max(low_b as i32) as u32),
        (Atomic::Min, Scalar::S64) => (old as i64).min(b as i64) as u64,
        (Atomic::Max, Scalar::S64) => (old as i64).max(b as i64) as u64,
        (Atomic::Min, _) => old.min(b),
        (Atomic::Max, _) => old.max(b),
    }
}

/// Runs one lane's atomic; returns the old value.
///
/// # Safety
/// `at` is valid for `size` bytes and aligned to them; 16-bit values are in an accessible word.
unsafe fn exchange(at: *mut u8, what: What, b: u64, c: u64) -> u64 {
    let order = Ordering::SeqCst;
    let (op, ty, _) = what;
    // SAFETY: the caller vouches for the address. Meanwhile it is accessed only by atomics, or by
    // the tenant's own races, which the hardware has as well.
    unsafe {
        match ty.size() {
            8 => {
                let cell = AtomicU64::from_ptr(at.cast());
                match (op, ty) {
                    (Atomic::Exch, _) => return cell.swap(b, order),
                    (Atomic::Add, Scalar::U64 | Scalar::S64) => return cell.fetch_add(b, order),
                    _ => {}
                }
                let update = |old| Some(next(what, old, b, c));
                cell.fetch_update(order, order, update).unwrap_or(0)
            }
            4 => {
                let cell = AtomicU32::from_ptr(at.cast());
                match (op, ty) {
                    (Atomic::Exch, _) => return u64::from(cell.swap(b as u32, order)),
                    (Atomic::Add, Scalar::U32 | Scalar::S32) => {
                        return u64::from(cell.fetch_add(b as u32, order));
                    }
                    _ => {}
                }
                let update = |old| Some(next(what, u64::from(old), b, c) as u32);
                u64::from(cell.fetch_update(order, order, update).unwrap_or(0))
            }
            _ => {
                // A half is accessed through its word.
                let shift = (at as usize & 2) as u32 * 8;
                let cell = AtomicU32::from_ptr((at as usize & !3) as *mut u32);
                let update = |word: u32| {
                    let new = next(what, u64::from(word >> shift & 0xffff), b, c) as u32;
                    Some(word & !(0xffff << shift) | (new & 0xffff) << shift)
                };
                let word = cell.fetch_update(order, order, update).unwrap_or(0);
                u64::from(word >> shift & 0xffff)
            }
        }
    }
}

/// True if an address points into shared memory.
fn is_shared(place: Place, address: u64) -> bool {
    match place {
        Place::Shared => true,
        Place::Generic => address.wrapping_sub(SHARED_WINDOW) < WINDOW_SIZE,
        _ => false,
    }
}

struct Atom<B>(PhantomData<B>);

impl<B: Bits> Kernel for Atom<B> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Atomic { at, op, ty, fetch } = inst.op else {
            return true;
        };
        let Pointer { place, wide } = at;
        let size = ty.size();
        // SAFETY: the caller vouches for the slots; each access follows its check. Pages are the
        // unit of commitment, so the word around a checked half is accessible.
        unsafe {
            let all = addresses(cx, inst.slots[1], wide, inst.imm);
            let b = source::<B>(cx, inst.slots[2]);
            let c = source::<B>(cx, inst.slots[if op == Atomic::Cas { 3 } else { 2 }]);
            let mut out = [B::default(); LANES];
            for lane in 0..LANES {
                if mask >> lane & 1 == 0 {
                    continue;
                }
                let Some(at) = cx.resolve(place, all[lane], (size, size), true, lane as u32) else {
                    return false;
                };
                let what = (op, ty, !is_shared(place, all[lane]));
                out[lane] = B::cut(exchange(at, what, b[lane].low(), c[lane].low()));
            }
            if fetch {
                store(cx, inst.slots[0], mask, &out);
            }
        }
        true
    }
}

/// Several neighbours, each exchanged separately.
struct Vectors;

impl Kernel for Vectors {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::AtomicVector {
            at: Pointer { place, wide },
            op,
            ty,
            lanes,
            fetch,
        } = inst.op
        else {
            return true;
        };
        let count = usize::from(lanes);
        let (values, results) = cx.operands[inst.target as usize..].split_at(count);
        let size = ty.size() * u64::from(lanes);
        let mut out = [[0_u32; LANES]; 8];
        // SAFETY: as for one; the parts of an aligned vector are aligned.
        unsafe {
            let all = addresses(cx, inst.slots[0], wide, inst.imm);
            for lane in 0..LANES {
                if mask >> lane & 1 == 0 {
                    continue;
                }
                let Some(at) = cx.resolve(place, all[lane], (size, size), true, lane as u32) else {
                    return false;
                };
                let what = (op, ty, !is_shared(place, all[lane]));
                for (part, (slot, out)) in values.iter().zip(&mut out).enumerate() {
                    let b = u64::from(source::<u32>(cx, *slot)[lane]);
                    out[lane] = exchange(at.add(part * ty.size() as usize), what, b, b) as u32;
                }
            }
            if fetch {
                for (slot, row) in results.iter().zip(&out).take(count) {
                    store(cx, *slot, mask, row);
                }
            }
        }
        true
    }
}

/// Held while 128 bits are exchanged, because not every machine can do it in one instruction. It
/// does not exclude other accesses of the same bytes; the memory model does not require that.
static WIDE: Mutex<()> = Mutex::new(());

struct Wides;

impl Kernel for Wides {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::AtomicWide { at, cas } = inst.op else {
            return true;
        };
        let Pointer { place, wide } = at;
        let slots = &cx.operands[inst.target as usize..];
        let mut out = [[0_u64; LANES]; 2];
        // SAFETY: decode gave the slots; each access follows its check.
        unsafe {
            let all = addresses(cx, inst.slots[0], wide, inst.imm);
            for lane in 0..LANES {
                if mask >> lane & 1 == 0 {
                    continue;
                }
                let Some(at) = cx.resolve(place, all[lane], (16, 16), true, lane as u32) else {
                    return false;
                };
                let at = at.cast::<[u64; 2]>();
                let held = |pair: usize| {
                    let halves = [slots[2 * pair], slots[2 * pair + 1]];
                    halves.map(|slot| source::<u64>(cx, slot)[lane])
                };
                let guard = WIDE.lock().unwrap_or_else(PoisonError::into_inner);
                let old = ptr::read_unaligned(at);
                if !cas {
                    ptr::write_unaligned(at, held(1));
                } else if old == held(1) {
                    ptr::write_unaligned(at, held(2));
                }
                drop(guard);
                out[0][lane] = old[0];
                out[1][lane] = old[1];
            }
            let [low, high] = [slots[0], slots[1]];
            store(cx, low, mask, &out[0]);
            store(cx, high, mask, &out[1]);
        }
        true
    }
}

struct Fence;

impl Kernel for Fence {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(_: &mut Context<'_>, _: &Inst, _: u32) -> bool {
        fence(Ordering::SeqCst);
        true
    }
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    match op {
        Op::Atomic { ty, .. } if ty.size() == 8 => Some(pick::<Atom<u64>>(isa)),
        Op::Atomic { .. } => Some(pick::<Atom<u32>>(isa)),
        Op::AtomicVector { .. } => Some(pick::<Vectors>(isa)),
        Op::AtomicWide { .. } => Some(pick::<Wides>(isa)),
        Op::Fence => Some(pick::<Fence>(isa)),
        _ => None,
    }
}
