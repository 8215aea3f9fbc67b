//! The addresses that a warp's lanes access, and their pattern.

#![expect(unsafe_code, reason = "lane loops over register files")]

use crate::decode::form::{LOCAL_WINDOW, Place, Slot, WINDOW_SIZE};
use crate::engine::context::{Context, LIVES};
use crate::lane_loop::source;
use crate::lane_value::{LANES, Row};

/// Addresses of all lanes.
///
/// # Safety
/// The slot is in the context's files.
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

/// Pattern of eight addresses.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shape {
    Contiguous,
    Same,
    Scattered,
}

impl Shape {
    /// The pattern, from two facts: each address follows the previous one, and all equal the first.
    #[inline(always)]
    fn of(next: bool, same: bool) -> Self {
        match (next, same) {
            (true, _) => Self::Contiguous,
            (false, true) => Self::Same,
            (false, false) => Self::Scattered,
        }
    }
}

#[inline(always)]
fn shape<const SIMD: bool>(group: &[u64; 8], size: u64) -> Shape {
    #[cfg(target_arch = "x86_64")]
    if SIMD {
        // SAFETY: `SIMD` states that AVX2 is available.
        return unsafe { shape_avx2(group, size) };
    }
    let (mut next, mut same) = (0, 0);
    for (lane, address) in group.iter().enumerate() {
        next |= address ^ group[0].wrapping_add(lane as u64 * size);
        same |= address ^ group[0];
    }
    Shape::of(next == 0, same == 0)
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
    let same = _mm256_or_si256(_mm256_xor_si256(low, first), _mm256_xor_si256(high, first));
    Shape::of(
        _mm256_testz_si256(next, next) != 0,
        _mm256_testz_si256(same, same) != 0,
    )
}

/// Eight addresses of 32 bits.
#[inline(always)]
fn shape_narrow<const SIMD: bool>(group: &[u32; 8], size: u32) -> Shape {
    #[cfg(target_arch = "x86_64")]
    if SIMD {
        // SAFETY: `SIMD` states that AVX2 is available.
        return unsafe { shape_narrow_avx2(group, size) };
    }
    let (mut next, mut same) = (0, 0);
    for (lane, address) in group.iter().enumerate() {
        next |= address ^ group[0].wrapping_add(lane as u32 * size);
        same |= address ^ group[0];
    }
    Shape::of(next == 0, same == 0)
}

/// # Safety
/// Needs AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn shape_narrow_avx2(group: &[u32; 8], size: u32) -> Shape {
    use std::arch::x86_64::{
        _mm256_add_epi32, _mm256_loadu_si256, _mm256_mullo_epi32, _mm256_set1_epi32,
        _mm256_setr_epi32, _mm256_testz_si256, _mm256_xor_si256,
    };
    let first = _mm256_set1_epi32(group[0] as i32);
    // SAFETY: eight addresses of 32 bits.
    let all = unsafe { _mm256_loadu_si256(group.as_ptr().cast()) };
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let steps = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(size as i32));
    let next = _mm256_xor_si256(all, _mm256_add_epi32(first, steps));
    let same = _mm256_xor_si256(all, first);
    Shape::of(
        _mm256_testz_si256(next, next) != 0,
        _mm256_testz_si256(same, same) != 0,
    )
}

/// Addresses of a warp, read from their register as needed. A copy on the stack would be read back
/// before it has left the store buffer.
pub(super) struct Addresses {
    row: *const u8,
    wide: bool,
    offset: i64,
}

impl Addresses {
    /// # Safety
    /// The slot is in the context's files.
    #[inline(always)]
    pub(super) unsafe fn new(cx: &Context<'_>, slot: Slot, wide: bool, offset: i64) -> Self {
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
    pub(super) unsafe fn lane(&self, lane: usize) -> u64 {
        // SAFETY: a register has 32 lanes.
        unsafe {
            if self.wide {
                (*self.row.cast::<u64>().add(lane)).wrapping_add(self.offset as u64)
            } else {
                u64::from((*self.row.cast::<u32>().add(lane)).wrapping_add(self.offset as u32))
            }
        }
    }

    /// The pattern of eight lanes from `first`; the common offset makes no difference. Addresses of
    /// 32 bits may be neighbours across zero, because no memory reaches so far.
    ///
    /// # Safety
    /// `first` is a multiple of 8 below 32.
    #[inline(always)]
    pub(super) unsafe fn shape<const SIMD: bool>(&self, first: usize, size: u64) -> Shape {
        // SAFETY: a register has 32 lanes.
        unsafe {
            if self.wide {
                shape::<SIMD>(&*self.row.cast::<u64>().add(first).cast(), size)
            } else {
                shape_narrow::<SIMD>(&*self.row.cast::<u32>().add(first).cast(), size as u32)
            }
        }
    }
}

/// Eight checked lanes of an access.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// Address of the first lane.
    pub(super) at: *const u8,
    /// True if the others have the same address; otherwise they are its neighbours.
    pub(super) same: bool,
}

impl Addresses {
    /// The addresses of all lanes, if one check is enough. Each eight must be neighbours, or the
    /// same for a load. All must be aligned, and within the allocation that the instruction
    /// accessed last or within shared memory. After `None` the caller must check lane by lane.
    ///
    /// # Safety
    /// As [`Addresses::lane`].
    #[inline(always)]
    pub(super) unsafe fn groups<const SIMD: bool>(
        &self,
        cx: &Context<'_>,
        (place, line): (Place, u32),
        size: u64,
        write: bool,
    ) -> Option<[Group; 4]> {
        let (low, high, base) = match place {
            Place::Shared => (0, cx.shared_len, cx.shared as u64),
            // Windows contain no allocations, so an address in an allocation is global.
            Place::Global | Place::Const | Place::Generic => {
                let live = cx.lives[line as usize % LIVES];
                if write && !live.writable {
                    return None;
                }
                (live.start, live.end, cx.delta)
            }
            Place::Param | Place::Local | Place::Frame => return None,
        };
        let span = high - low;
        let (mut within, mut bits) = (true, 0);
        let mut groups = [Group {
            at: std::ptr::null(),
            same: false,
        }; 4];
        for (at, group) in groups.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the register.
            let (shape, start) = unsafe { (self.shape::<SIMD>(8 * at, size), self.lane(8 * at)) };
            let len = match shape {
                Shape::Contiguous => 8 * size,
                Shape::Same if !write => size,
                _ => return None,
            };
            let from = start.wrapping_sub(low);
            within &= from <= span && len <= span.wrapping_sub(from);
            bits |= start;
            group.at = start.wrapping_add(base) as *const u8;
            group.same = shape == Shape::Same;
        }
        (cfg!(unchecked_access) || within && bits & (size - 1) == 0).then_some(groups)
    }
}

/// True if eight lanes may share one check; false if each has its own memory.
#[inline(always)]
pub(super) fn joint(place: Place, first: u64) -> bool {
    match place {
        Place::Global | Place::Const | Place::Param | Place::Shared => true,
        Place::Local | Place::Frame => false,
        Place::Generic => first.wrapping_sub(LOCAL_WINDOW) >= WINDOW_SIZE,
    }
}
