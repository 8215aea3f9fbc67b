//! `atom`, `red`, fences.

#![expect(
    unsafe_code,
    reason = "atomics behind address checks, lane loops over register files"
)]

use super::memory::addresses;
use super::soft;
use super::soft::widen;
use crate::decode::form::{Atomic, Inst, Op, Round};
use crate::engine::context::Context;
use crate::lanes::{Bits, Handler, Isa, Kernel, LANES, pick, source, store};
use ptx::Scalar;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

fn half_add(format: soft::Format, a: u32, b: u32) -> u32 {
    let sum = widen(format, a & 0xffff) + widen(format, b & 0xffff);
    soft::convert(soft::F64, format, sum.to_bits(), Round::Nearest) as u32
}

/// What is to be stored, from what was there.
fn next(op: Atomic, ty: Scalar, old: u64, b: u64, c: u64) -> u64 {
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
            let sum = f32::from_bits(low) + f32::from_bits(low_b);
            u64::from(super::float::finish32(sum, false, false).to_bits())
        }
        (Atomic::Add, Scalar::F64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        (Atomic::Add, Scalar::F16) => u64::from(half_add(soft::F16, low, low_b)),
        (Atomic::Add, Scalar::Bf16) => u64::from(half_add(soft::BF16, low, low_b)),
        (Atomic::Add, Scalar::F16x2 | Scalar::Bf16x2) => {
            let format = if ty == Scalar::F16x2 {
                soft::F16
            } else {
                soft::BF16
            };
            let high = half_add(format, low >> 16, low_b >> 16);
            u64::from(high << 16 | half_add(format, low, low_b))
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

/// Runs one lane's atomic; returns what was there.
///
/// # Safety
/// `at` is valid for `size` bytes, aligned to them; 16-bit values lie in an accessible word.
unsafe fn exchange(at: *mut u8, op: Atomic, ty: Scalar, b: u64, c: u64) -> u64 {
    let order = Ordering::SeqCst;
    // SAFETY: the caller vouches for the address; only atomics touch it while this runs, or the
    // tenant's own races, which the hardware has as well.
    unsafe {
        match ty.size() {
            8 => {
                let cell = AtomicU64::from_ptr(at.cast());
                match (op, ty) {
                    (Atomic::Exch, _) => return cell.swap(b, order),
                    (Atomic::Add, Scalar::U64 | Scalar::S64) => return cell.fetch_add(b, order),
                    _ => {}
                }
                let update = |old| Some(next(op, ty, old, b, c));
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
                let update = |old| Some(next(op, ty, u64::from(old), b, c) as u32);
                u64::from(cell.fetch_update(order, order, update).unwrap_or(0))
            }
            _ => {
                // Half a word: through the word that holds it.
                let shift = (at as usize & 2) as u32 * 8;
                let cell = AtomicU32::from_ptr((at as usize & !3) as *mut u32);
                let update = |word: u32| {
                    let new = next(op, ty, u64::from(word >> shift & 0xffff), b, c) as u32;
                    Some(word & !(0xffff << shift) | (new & 0xffff) << shift)
                };
                let word = cell.fetch_update(order, order, update).unwrap_or(0);
                u64::from(word >> shift & 0xffff)
            }
        }
    }
}

struct Atom<B>(PhantomData<B>);

impl<B: Bits> Kernel for Atom<B> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Atomic {
            place,
            op,
            ty,
            wide,
            fetch,
        } = inst.op
        else {
            return true;
        };
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
                let Some(at) = cx.spot(place, all[lane], (size, size), true, lane as u32) else {
                    return false;
                };
                out[lane] = B::cut(exchange(at, op, ty, b[lane].low(), c[lane].low()));
            }
            if fetch {
                store(cx, inst.slots[0], mask, &out);
            }
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
        Op::Fence => Some(pick::<Fence>(isa)),
        _ => None,
    }
}
