//! Loads and stores of every space.
//!
//! Eight lanes at a time: contiguous addresses are one checked copy, equal ones one checked
//! value, others are checked lane by lane.

#![expect(
    unsafe_code,
    reason = "copies behind address checks, lane loops over register files"
)]
#![expect(
    clippy::needless_range_loop,
    reason = "a lane loop runs over several arrays at once"
)]

use crate::decode::form::{Inst, LOCAL_WINDOW, Op, Place, Slot, WINDOW_SIZE};
use crate::engine::context::Context;
use crate::lanes::{FULL, Handler, Isa, Kernel, LANES, Lane, Row, pick, source, store};
use ptx::Scalar;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// Addresses of all lanes.
///
/// # Safety
/// The slot lies in the context's files.
#[inline(always)]
pub(super) unsafe fn addresses(cx: &Context<'_>, slot: Slot, wide: bool, offset: i64) -> Row<u64> {
    let mut out = [0; LANES];
    // SAFETY: the caller vouches for the slot.
    unsafe {
        if wide {
            let from = source::<u64>(cx, slot);
            for lane in 0..LANES {
                out[lane] = from[lane].wrapping_add(offset as u64);
            }
        } else {
            let from = source::<u32>(cx, slot);
            for lane in 0..LANES {
                out[lane] = u64::from(from[lane].wrapping_add(offset as u32));
            }
        }
    }
    out
}

/// How eight addresses lie.
#[derive(PartialEq)]
enum Shape {
    Contiguous,
    Same,
    Scattered,
}

#[inline(always)]
fn shape<const SIMD: bool>(group: &[u64; 8], size: u64) -> Shape {
    #[cfg(target_arch = "x86_64")]
    if SIMD {
        // SAFETY: `SIMD` says that AVX2 is there.
        return unsafe { shape_avx2(group, size) };
    }
    let (mut next, mut same) = (0, 0);
    for (lane, address) in group.iter().enumerate() {
        next |= address ^ group[0].wrapping_add(lane as u64 * size);
        same |= address ^ group[0];
    }
    if next == 0 {
        Shape::Contiguous
    } else if same == 0 {
        Shape::Same
    } else {
        Shape::Scattered
    }
}

/// # Safety
/// Needs AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn shape_avx2(group: &[u64; 8], size: u64) -> Shape {
    use std::arch::x86_64::{
        _mm256_add_epi64, _mm256_loadu_si256, _mm256_or_si256, _mm256_set_epi64x,
        _mm256_set1_epi64x, _mm256_testz_si256, _mm256_xor_si256,
    };
    let size = size as i64;
    let first = _mm256_set1_epi64x(group[0] as i64);
    // SAFETY: each half is four addresses.
    let (low, high) = unsafe {
        (
            _mm256_loadu_si256(group.as_ptr().cast()),
            _mm256_loadu_si256(group.as_ptr().add(4).cast()),
        )
    };
    let steps = _mm256_add_epi64(first, _mm256_set_epi64x(3 * size, 2 * size, size, 0));
    let more = _mm256_add_epi64(steps, _mm256_set1_epi64x(4 * size));
    let next = _mm256_or_si256(_mm256_xor_si256(low, steps), _mm256_xor_si256(high, more));
    if _mm256_testz_si256(next, next) != 0 {
        return Shape::Contiguous;
    }
    let same = _mm256_or_si256(_mm256_xor_si256(low, first), _mm256_xor_si256(high, first));
    if _mm256_testz_si256(same, same) != 0 {
        Shape::Same
    } else {
        Shape::Scattered
    }
}

/// Addresses of a warp, read from their register as they are needed: a copy on the stack would
/// be read back before it has left the store buffer.
struct Addresses {
    row: *const u8,
    wide: bool,
    offset: i64,
}

impl Addresses {
    /// # Safety
    /// The slot lies in the context's files.
    #[inline(always)]
    unsafe fn new(cx: &Context<'_>, slot: Slot, wide: bool, offset: i64) -> Self {
        // SAFETY: the caller vouches for the slot.
        let row = unsafe {
            if wide {
                cx.source_base::<u64>(slot)
            } else {
                cx.source_base::<u32>(slot)
            }
        };
        Self { row, wide, offset }
    }

    /// # Safety
    /// `lane` is below 32.
    #[inline(always)]
    unsafe fn lane(&self, lane: usize) -> u64 {
        // SAFETY: a register has 32 lanes.
        unsafe {
            if self.wide {
                (*self.row.cast::<u64>().add(lane)).wrapping_add(self.offset as u64)
            } else {
                u64::from((*self.row.cast::<u32>().add(lane)).wrapping_add(self.offset as u32))
            }
        }
    }

    /// How eight lanes from `first` lie; the common offset makes no difference.
    ///
    /// # Safety
    /// `first` is a multiple of 8 below 32.
    #[inline(always)]
    unsafe fn shape<const SIMD: bool>(&self, first: usize, size: u64) -> Shape {
        // SAFETY: a register has 32 lanes.
        unsafe {
            if self.wide {
                shape::<SIMD>(&*self.row.cast::<u64>().add(first).cast(), size)
            } else {
                let group: &[u32; 8] = &*self.row.cast::<u32>().add(first).cast();
                shape::<false>(&group.map(u64::from), size)
            }
        }
    }
}

/// Whether eight lanes may share one check: not so where each has a memory of its own.
#[inline(always)]
fn joint(place: Place, first: u64) -> bool {
    match place {
        Place::Global | Place::Const | Place::Param | Place::Shared => true,
        Place::Local | Place::Frame => false,
        Place::Generic => first.wrapping_sub(LOCAL_WINDOW) >= WINDOW_SIZE,
    }
}

struct Load<M>(PhantomData<M>);
struct Store<M>(PhantomData<M>);

impl<M: Lane> Load<M> {
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
