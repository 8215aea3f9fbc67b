//! Loads and stores of every space.
//!
//! Eight lanes are handled at a time. Contiguous addresses are one checked copy, equal ones one
//! checked value, and others are checked lane by lane. If all lanes are active and each eight are
//! contiguous or equal, one check covers all.

#![expect(
    unsafe_code,
    reason = "copies behind address checks, lane loops over register files"
)]
#![expect(
    clippy::needless_range_loop,
    reason = "a lane loop runs over several arrays at once"
)]

use super::addresses::{Addresses, Group, Shape, joint};
use crate::decode::form::{Inst, Op, Place, Pointer};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, pick, source, store};
use crate::lane_value::{FULL, LANES, Lane, Row};
use ptx::Scalar;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

struct Memory<M, const WRITE: bool>(PhantomData<M>);

/// Eight lanes of an access: its space, the addresses, the first of the lanes.
type Eight<'a> = (Place, &'a Addresses, usize);

impl<M: Lane, const WRITE: bool> Memory<M, WRITE> {
    /// True if a value has the same form in memory as in a register.
    const WHOLE: bool = size_of::<M>() == size_of::<M::Bits>();

    /// One part (of a vector: `part` of `lanes`) of one lane.
    ///
    /// # Safety
    /// `at` is readable for a whole vector.
    #[inline(always)]
    unsafe fn part(at: *const u8, part: usize) -> M::Bits {
        // SAFETY: the caller vouches for the address.
        unsafe { ptr::read_unaligned(at.cast::<M>().add(part)).bits() }
    }

    /// Loads eight neighbouring lanes.
    ///
    /// # Safety
    /// Both sides hold eight values.
    #[inline(always)]
    unsafe fn read_run(at: *const u8, to: *mut M::Bits) {
        // SAFETY: the caller vouches for both sides.
        unsafe {
            if Self::WHOLE {
                ptr::copy_nonoverlapping(at, to.cast::<u8>(), 8 * size_of::<M>());
            } else {
                let values = ptr::read_unaligned(at.cast::<[M; 8]>());
                ptr::write(to.cast(), values.map(Lane::bits));
            }
        }
    }

    /// Stores eight neighbouring lanes.
    ///
    /// # Safety
    /// As `read_run`.
    #[inline(always)]
    unsafe fn write_run(from: *const M::Bits, at: *mut u8) {
        // SAFETY: the caller vouches for both sides.
        unsafe {
            if Self::WHOLE {
                ptr::copy_nonoverlapping(from.cast::<u8>(), at, 8 * size_of::<M>());
            } else {
                let bits = ptr::read(from.cast::<[M::Bits; 8]>());
                ptr::write_unaligned(at.cast::<[M; 8]>(), bits.map(M::of));
            }
        }
    }

    /// All lanes of a register, loaded.
    ///
    /// # Safety
    /// `row` is the register's, and the groups were checked.
    #[inline(always)]
    unsafe fn load_groups(row: *mut M::Bits, groups: &[Group; 4]) {
        for (at, group) in groups.iter().enumerate() {
            // SAFETY: the caller vouches for both sides.
            unsafe {
                let to = row.add(8 * at);
                if group.same {
                    ptr::write(to.cast(), [Self::part(group.at, 0); 8]);
                } else {
                    Self::read_run(group.at, to);
                }
            }
        }
    }

    /// Fills eight lanes with the values at one address.
    ///
    /// # Safety
    /// `at` is readable for a whole vector, and the rows have 32 lanes.
    #[inline(always)]
    unsafe fn fill<const LANED: usize>(rows: &[*mut M::Bits; LANED], first: usize, at: *const u8) {
        for (part, row) in rows.iter().enumerate() {
            // SAFETY: the caller vouches for both sides.
            unsafe { ptr::write(row.add(first).cast(), [Self::part(at, part); 8]) };
        }
    }

    /// The host address of eight lanes, if one check covers all of them; true if it is the same for
    /// all.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    #[inline(always)]
    unsafe fn run_of<const SIMD: bool>(
        cx: &mut Context<'_>,
        (place, all, first): Eight<'_>,
        lanes: u32,
        size: u64,
    ) -> Option<(*mut u8, bool)> {
        // SAFETY: a register has 32 lanes.
        let start = unsafe { all.lane(first) };
        if lanes != 0xff || !joint(place, start) {
            return None;
        }
        // SAFETY: as above.
        let len = match unsafe { all.shape::<SIMD>(first, size) } {
            Shape::Contiguous => 8 * size,
            Shape::Same if !WRITE => size,
            _ => return None,
        };
        let found = cx.resolve(place, start, (len, size), WRITE, first as u32);
        if found.is_none() {
            // The caller checks lane by lane, to report the right lane, or none if allocations
            // touch.
            cx.noted = None;
        }
        found.map(|at| (at, len == size))
    }

    /// Handles eight lanes one by one: `each` moves the value of an active lane. False after a
    /// fault.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    #[inline(always)]
    unsafe fn one_by_one(
        cx: &mut Context<'_>,
        (place, all, first): Eight<'_>,
        mask: u32,
        size: u64,
        each: impl Fn(usize, *mut u8),
    ) -> bool {
        for lane in first..first + 8 {
            if mask >> lane & 1 == 0 {
                continue;
            }
            // SAFETY: a register has 32 lanes.
            let address = unsafe { all.lane(lane) };
            let Some(at) = cx.resolve(place, address, (size, size), WRITE, lane as u32) else {
                return false;
            };
            each(lane, at);
        }
        true
    }

    #[inline(always)]
    unsafe fn load<const LANED: usize, const SIMD: bool>(
        cx: &mut Context<'_>,
        inst: &Inst,
        mask: u32,
        at: Pointer,
    ) -> bool {
        let size = size_of::<M>() as u64 * LANED as u64;
        // With all lanes active, values go straight to their register. A fault ends the launch, so
        // a partial load is never seen. Otherwise they go through rows, for the mask.
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
            let all = Addresses::new(cx, inst.slots[0], at.wide, inst.imm);
            let line = inst.line;
            if direct && let Some(groups) = all.groups::<SIMD>(cx, (at.place, line), size, false) {
                Self::load_groups(rows[0], &groups);
                return true;
            }
            for first in (0..LANES).step_by(8) {
                let lanes = mask >> first & 0xff;
                if lanes == 0 {
                    continue;
                }
                let eight = (at.place, &all, first);
                let to = |part: usize, lane: usize, value| *rows[part].add(lane) = value;
                match Self::run_of::<SIMD>(cx, eight, lanes, size) {
                    Some((at, true)) => Self::fill(&rows, first, at),
                    Some((at, false)) if LANED == 1 => Self::read_run(at, rows[0].add(first)),
                    Some((at, false)) => {
                        for lane in 0..8 {
                            for part in 0..LANED {
                                to(part, first + lane, Self::part(at, lane * LANED + part));
                            }
                        }
                    }
                    None => {
                        let each = |lane, at: *mut u8| {
                            for part in 0..LANED {
                                to(part, lane, Self::part(at, part));
                            }
                        };
                        if !Self::one_by_one(cx, eight, mask, size, each) {
                            return false;
                        }
                    }
                }
            }
            if !direct {
                for (part, row) in rows.iter().enumerate() {
                    store(cx, inst.slots[1 + part], mask, &*row.cast::<Row<M::Bits>>());
                }
            }
            cx.remember(inst.line);
        }
        true
    }

    #[inline(always)]
    unsafe fn store<const LANED: usize, const SIMD: bool>(
        cx: &mut Context<'_>,
        inst: &Inst,
        mask: u32,
        at: Pointer,
    ) -> bool {
        let size = size_of::<M>() as u64 * LANED as u64;
        // SAFETY: the caller vouches for the slots; each write follows its check.
        unsafe {
            let all = Addresses::new(cx, inst.slots[0], at.wide, inst.imm);
            let rows: [&Row<M::Bits>; LANED] =
                std::array::from_fn(|part| source(cx, inst.slots[1 + part]));
            if LANED == 1
                && mask == FULL
                && let Some(groups) = all.groups::<SIMD>(cx, (at.place, inst.line), size, true)
            {
                for (eighth, group) in groups.iter().enumerate() {
                    Self::write_run(rows[0].as_ptr().add(8 * eighth), group.at.cast_mut());
                }
                return true;
            }
            for first in (0..LANES).step_by(8) {
                let lanes = mask >> first & 0xff;
                if lanes == 0 {
                    continue;
                }
                let eight = (at.place, &all, first);
                let put = |lane: usize, at: *mut u8| {
                    for part in 0..LANED {
                        ptr::write_unaligned(at.cast::<M>().add(part), M::of(rows[part][lane]));
                    }
                };
                match Self::run_of::<SIMD>(cx, eight, lanes, size) {
                    Some((at, _)) if LANED == 1 && Self::WHOLE => {
                        Self::write_run(rows[0].as_ptr().add(first), at);
                    }
                    Some((at, _)) => {
                        for lane in 0..8 {
                            put(first + lane, at.cast::<M>().add(lane * LANED).cast());
                        }
                    }
                    None => {
                        if !Self::one_by_one(cx, eight, mask, size, put) {
                            return false;
                        }
                    }
                }
            }
            cx.remember(inst.line);
        }
        true
    }

    #[inline(always)]
    unsafe fn vector<const LANED: usize, const SIMD: bool>(
        cx: &mut Context<'_>,
        inst: &Inst,
        mask: u32,
        at: Pointer,
    ) -> bool {
        // SAFETY: forwarded from the caller.
        unsafe {
            if WRITE {
                Self::store::<LANED, SIMD>(cx, inst, mask, at)
            } else {
                Self::load::<LANED, SIMD>(cx, inst, mask, at)
            }
        }
    }
}

impl<M: Lane, const WRITE: bool> Kernel for Memory<M, WRITE> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let (Op::Load { at, lanes, .. } | Op::Store { at, lanes, .. }) = inst.op else {
            return true;
        };
        // SAFETY: forwarded from the caller.
        unsafe {
            match lanes {
                1 => Self::vector::<1, SIMD>(cx, inst, mask, at),
                2 => Self::vector::<2, SIMD>(cx, inst, mask, at),
                _ => Self::vector::<4, SIMD>(cx, inst, mask, at),
            }
        }
    }
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    fn by_memory<const WRITE: bool>(ty: Scalar, isa: Isa) -> Option<Handler> {
        Some(match (ty, ty.size()) {
            (Scalar::S8, _) => pick::<Memory<i8, WRITE>>(isa),
            (Scalar::S16, _) => pick::<Memory<i16, WRITE>>(isa),
            (Scalar::Pred, _) => return None,
            (_, 1) => pick::<Memory<u8, WRITE>>(isa),
            (_, 2) => pick::<Memory<u16, WRITE>>(isa),
            (_, 4) => pick::<Memory<u32, WRITE>>(isa),
            (_, 8) => pick::<Memory<u64, WRITE>>(isa),
            _ => return None,
        })
    }
    match op {
        Op::Load { ty, .. } => by_memory::<false>(ty, isa),
        Op::Store { ty, .. } => by_memory::<true>(ty, isa),
        _ => None,
    }
}
