//! Loads and stores of every space.
//!
//! Eight lanes at a time: contiguous addresses are one checked copy, equal ones one checked
//! value, others are checked lane by lane. Where all lanes are on and each eight lie so, one check
//! does for all.

#![expect(
    unsafe_code,
    reason = "copies behind address checks, lane loops over register files"
)]
#![expect(
    clippy::needless_range_loop,
    reason = "a lane loop runs over several arrays at once"
)]

use super::addresses::{Addresses, Group, Shape, joint};
use crate::decode::form::{Inst, Op, Place};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, pick, source, store};
use crate::lane_value::{FULL, LANES, Lane, Row};
use ptx::Scalar;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

struct Load<M>(PhantomData<M>);
struct Store<M>(PhantomData<M>);

impl<M: Lane> Load<M> {
    /// All lanes of a register.
    ///
    /// # Safety
    /// `row` is the register's, and the groups were checked.
    #[inline(always)]
    unsafe fn groups(row: *mut M::Bits, groups: &[Group; 4]) {
        for (at, group) in groups.iter().enumerate() {
            // SAFETY: the caller vouches for both sides.
            unsafe {
                let to = row.add(8 * at);
                if group.same {
                    ptr::write(to.cast(), [Self::part(group.at, 0); 8]);
                } else if size_of::<M>() == size_of::<M::Bits>() {
                    ptr::copy_nonoverlapping(group.at, to.cast::<u8>(), 8 * size_of::<M>());
                } else {
                    let values = ptr::read_unaligned(group.at.cast::<[M; 8]>());
                    ptr::write(to.cast(), values.map(Lane::bits));
                }
            }
        }
    }

    /// One part (of a vector: `part` of `lanes`) of one lane.
    ///
    /// # Safety
    /// `at` is readable for a whole vector.
    #[inline(always)]
    unsafe fn part(at: *const u8, part: usize) -> M::Bits {
        // SAFETY: the caller vouches for the address.
        unsafe { ptr::read_unaligned(at.cast::<M>().add(part)).bits() }
    }

    #[inline(always)]
    unsafe fn vector<const LANED: usize, const SIMD: bool>(
        cx: &mut Context<'_>,
        inst: &Inst,
        mask: u32,
        (place, wide): (Place, bool),
    ) -> bool {
        let size = size_of::<M>() as u64 * LANED as u64;
        // With all lanes on, values go straight to their register; a fault ends the launch, so
        // nobody sees half a load. Otherwise they go through rows, for the mask.
        let direct = LANED == 1 && mask == FULL;
        let mut rows = [const { MaybeUninit::<Row<M::Bits>>::uninit() }; LANED];
        if !direct {
            rows = [const { MaybeUninit::zeroed() }; LANED];
        }
        let rows: [*mut M::Bits; LANED] = std::array::from_fn(|part| {
            if direct {
                // SAFETY: the caller vouches for the slots.
                unsafe { cx.target_base::<M::Bits>(inst.slots[1]).cast() }
            } else {
                rows[part].as_mut_ptr().cast()
            }
        });
        // SAFETY: the caller vouches for the slots; each read follows its check.
        unsafe {
            let all = Addresses::new(cx, inst.slots[0], wide, inst.imm);
            if direct && let Some(groups) = all.groups::<SIMD>(cx, (place, inst.line), size, false)
            {
                Self::groups(rows[0], &groups);
                return true;
            }
            for first in (0..LANES).step_by(8) {
                let lanes = mask >> first & 0xff;
                if lanes == 0 {
                    continue;
                }
                let start = all.lane(first);
                let kind = if lanes == 0xff && joint(place, start) {
                    all.shape::<SIMD>(first, size)
                } else {
                    Shape::Scattered
                };
                let len = if kind == Shape::Contiguous {
                    8 * size
                } else {
                    size
                };
                let mut run = None;
                if kind != Shape::Scattered {
                    run = cx.spot(place, start, (len, size), false, first as u32);
                    if run.is_none() {
                        // Lane by lane, to blame the right one, or none where allocations touch.
                        cx.noted = None;
                    }
                }
                let Some(at) = run else {
                    for lane in first..first + 8 {
                        if mask >> lane & 1 == 0 {
                            continue;
                        }
                        let want = (size, size);
                        let Some(at) = cx.spot(place, all.lane(lane), want, false, lane as u32)
                        else {
                            return false;
                        };
                        for part in 0..LANED {
                            *rows[part].add(lane) = Self::part(at, part);
                        }
                    }
                    continue;
                };
                if kind == Shape::Same {
                    for part in 0..LANED {
                        let value = Self::part(at, part);
                        ptr::write(rows[part].add(first).cast(), [value; 8]);
                    }
                } else if LANED == 1 {
                    let to = rows[0].add(first);
                    if size_of::<M>() == size_of::<M::Bits>() {
                        ptr::copy_nonoverlapping(at, to.cast::<u8>(), 8 * size_of::<M>());
                    } else {
                        let values = ptr::read_unaligned(at.cast::<[M; 8]>());
                        ptr::write(to.cast(), values.map(Lane::bits));
                    }
                } else {
                    for lane in 0..8 {
                        for part in 0..LANED {
                            *rows[part].add(first + lane) = Self::part(at, lane * LANED + part);
                        }
                    }
                }
            }
            if !direct {
                for (part, row) in rows.iter().enumerate() {
                    store(cx, inst.slots[1 + part], mask, &*row.cast::<Row<M::Bits>>());
                }
            }
            cx.met(inst.line);
        }
        true
    }
}

impl<M: Lane> Kernel for Load<M> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Load {
            place, lanes, wide, ..
        } = inst.op
        else {
            return true;
        };
        // SAFETY: passed on.
        unsafe {
            match lanes {
                1 => Self::vector::<1, SIMD>(cx, inst, mask, (place, wide)),
                2 => Self::vector::<2, SIMD>(cx, inst, mask, (place, wide)),
                _ => Self::vector::<4, SIMD>(cx, inst, mask, (place, wide)),
            }
        }
    }
}

impl<M: Lane> Store<M> {
    /// All lanes of a register.
    ///
    /// # Safety
    /// The groups were checked, for writing.
    #[inline(always)]
    unsafe fn groups(row: &Row<M::Bits>, groups: &[Group; 4]) {
        for (at, group) in groups.iter().enumerate() {
            // SAFETY: the caller vouches for the groups.
            unsafe {
                let from = row.as_ptr().add(8 * at);
                let to = group.at.cast_mut();
                if size_of::<M>() == size_of::<M::Bits>() {
                    ptr::copy_nonoverlapping(from.cast::<u8>(), to, 8 * size_of::<M>());
                } else {
                    let bits = ptr::read(from.cast::<[M::Bits; 8]>());
                    ptr::write_unaligned(to.cast::<[M; 8]>(), bits.map(M::of));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn vector<const LANED: usize, const SIMD: bool>(
        cx: &mut Context<'_>,
        inst: &Inst,
        mask: u32,
        (place, wide): (Place, bool),
    ) -> bool {
        let size = size_of::<M>() as u64 * LANED as u64;
        // SAFETY: the caller vouches for the slots; each write follows its check.
        unsafe {
            let all = Addresses::new(cx, inst.slots[0], wide, inst.imm);
            let mut rows = [source::<M::Bits>(cx, inst.slots[1]); LANED];
            for part in 1..LANED {
                rows[part] = source::<M::Bits>(cx, inst.slots[1 + part]);
            }
            if LANED == 1
                && mask == FULL
                && let Some(groups) = all.groups::<SIMD>(cx, (place, inst.line), size, true)
            {
                Self::groups(rows[0], &groups);
                return true;
            }
            for first in (0..LANES).step_by(8) {
                let lanes = mask >> first & 0xff;
                if lanes == 0 {
                    continue;
                }
                let start = all.lane(first);
                let run = lanes == 0xff
                    && joint(place, start)
                    && all.shape::<SIMD>(first, size) == Shape::Contiguous;
                if run && let Some(at) = cx.spot(place, start, (8 * size, size), true, 0) {
                    if LANED == 1 && size_of::<M>() == size_of::<M::Bits>() {
                        let from = rows[0].as_ptr().add(first);
                        ptr::copy_nonoverlapping(from.cast::<u8>(), at, 8 * size_of::<M>());
                        continue;
                    }
                    for lane in 0..8 {
                        for part in 0..LANED {
                            let value = M::of(rows[part][first + lane]);
                            let to = at.cast::<M>().add(lane * LANED + part);
                            ptr::write_unaligned(to, value);
                        }
                    }
                    continue;
                }
                cx.noted = None;
                for lane in first..first + 8 {
                    if mask >> lane & 1 == 0 {
                        continue;
                    }
                    let Some(at) = cx.spot(place, all.lane(lane), (size, size), true, lane as u32)
                    else {
                        return false;
                    };
                    for part in 0..LANED {
                        let value = M::of(rows[part][lane]);
                        ptr::write_unaligned(at.cast::<M>().add(part), value);
                    }
                }
            }
            cx.met(inst.line);
        }
        true
    }
}

impl<M: Lane> Kernel for Store<M> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Store {
            place, lanes, wide, ..
        } = inst.op
        else {
            return true;
        };
        // SAFETY: passed on.
        unsafe {
            match lanes {
                1 => Self::vector::<1, SIMD>(cx, inst, mask, (place, wide)),
                2 => Self::vector::<2, SIMD>(cx, inst, mask, (place, wide)),
                _ => Self::vector::<4, SIMD>(cx, inst, mask, (place, wide)),
            }
        }
    }
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    macro_rules! by_memory {
        ($ty:expr, $kernel:ident) => {
            match ($ty, $ty.size()) {
                (Scalar::S8, _) => pick::<$kernel<i8>>(isa),
                (Scalar::S16, _) => pick::<$kernel<i16>>(isa),
                (Scalar::Pred, _) => return None,
                (_, 1) => pick::<$kernel<u8>>(isa),
                (_, 2) => pick::<$kernel<u16>>(isa),
                (_, 4) => pick::<$kernel<u32>>(isa),
                (_, 8) => pick::<$kernel<u64>>(isa),
                _ => return None,
            }
        };
    }
    Some(match op {
        Op::Load { ty, .. } => by_memory!(ty, Load),
        Op::Store { ty, .. } => by_memory!(ty, Store),
        _ => return None,
    })
}
