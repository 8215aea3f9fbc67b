//! The context of an executing instruction: register files, memories, and a noted fault.

#![expect(
    unsafe_code,
    reason = "addresses into register files and checked memories"
)]

use crate::decode::form::{LOCAL_WINDOW, PARAM_WINDOW, Place, SHARED_WINDOW, Slot, WINDOW_SIZE};
use crate::error::FaultKind;
use crate::lane_value::Bits;
use crate::memory::{Live, Memory};

/// A fault as an instruction notes it; the scheduler adds kernel, line and thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    pub(crate) kind: FaultKind,
    pub(crate) address: Option<u64>,
    pub(crate) lane: u32,
    pub(crate) detail: &'static str,
}

/// Allocations that a context remembers for instructions.
pub(crate) const LIVES: usize = 4;

/// The state of the running warp that lane loops touch.
pub(crate) struct Context<'m> {
    /// Registers of 32 bits of the frame, and the launch's constants.
    pub(crate) words: [*mut u8; 2],
    /// Registers of 64 bits of the frame, and the launch's constants.
    pub(crate) doubles: [*mut u8; 2],
    pub(crate) preds: *mut u32,
    /// One less than a power of two: no predicate of the frame is above it, and it lies in the file.
    pub(crate) preds_mask: u32,
    /// Operands of instructions that have more than fit into one.
    pub(crate) operands: &'m [Slot],
    pub(crate) carry: u32,
    pub(crate) memory: &'m Memory,
    /// The allocation hit last.
    pub(crate) live: Live,
    /// The allocations that instructions hit last; those of some lines share one.
    pub(crate) lives: [Live; LIVES],
    pub(crate) delta: u64,
    pub(crate) shared: *mut u8,
    pub(crate) shared_len: u64,
    /// Local memory of the warp's lane 0.
    pub(crate) local: *mut u8,
    /// Bytes of local memory of one thread.
    pub(crate) local_len: u64,
    /// Where the running function's frame starts in it.
    pub(crate) local_frame: u64,
    /// The launch's parameters, and their bytes.
    pub(crate) params: *const u8,
    pub(crate) params_len: u64,
    pub(crate) clock: u64,
    pub(crate) noted: Option<Noted>,
    /// What calls of the runtime cost beyond one instruction, in instructions.
    pub(crate) spent: u64,
    /// The noted fault's detail, where that depends on the run.
    pub(crate) noted_detail: Option<String>,
    /// What a warp's native code may use, and has: jumps back, instructions.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) jumps: u32,
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) executed: u64,
    /// Instructions after which it stops at the next jump back.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) until: u64,
    /// Set from outside: it stops at the next jump back.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) stop: *const std::sync::atomic::AtomicBool,
    /// Allocations that native code hit last.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) sites: [crate::native::site::Site; crate::native::site::SITES],
}

impl Context<'_> {
    /// Address of a source's lanes.
    ///
    /// # Safety
    /// The slot lies in the frame or the constants.
    #[inline(always)]
    pub(crate) unsafe fn source_base<B: Bits>(&self, slot: Slot) -> *const u8 {
        let bases = if B::DOUBLE {
            &self.doubles
        } else {
            &self.words
        };
        let base = bases[(slot.0 >> 31) as usize];
        // SAFETY: the caller vouches for the slot.
        unsafe { base.add((slot.0 & !Slot::CONSTANT) as usize) }
    }

    /// Address of a target's lanes.
    ///
    /// # Safety
    /// The slot lies in the frame.
    #[inline(always)]
    pub(crate) unsafe fn target_base<B: Bits>(&self, slot: Slot) -> *mut u8 {
        debug_assert!(slot.0 & Slot::CONSTANT == 0, "constants are never targets");
        let base = if B::DOUBLE {
            self.doubles[0]
        } else {
            self.words[0]
        };
        // SAFETY: the caller vouches for the slot.
        unsafe { base.add((slot.0 & !Slot::CONSTANT) as usize) }
    }

    /// The lanes in which a predicate holds.
    ///
    /// # Safety
    /// The slot is a predicate of the frame.
    #[inline(always)]
    pub(crate) unsafe fn pred(&self, slot: Slot) -> u32 {
        // SAFETY: the caller vouches for the slot.
        unsafe { *self.preds.add((slot.0 & self.preds_mask) as usize) }
    }

    /// Sets a predicate in the lanes of a mask.
    ///
    /// # Safety
    /// As [`Context::pred`].
    #[inline(always)]
    pub(crate) unsafe fn set_pred(&mut self, slot: Slot, mask: u32, value: u32) {
        // SAFETY: the caller vouches for the slot.
        unsafe {
            let at = self.preds.add((slot.0 & self.preds_mask) as usize);
            *at = *at & !mask | value & mask;
        }
    }

    /// The next value of the virtual clock, which only ever grows.
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 16;
        self.clock
    }

    /// Local address of a byte of the running function's frame.
    pub(crate) fn frame_address(&self, offset: i64) -> u64 {
        self.local_frame.wrapping_add(offset as u64)
    }

    /// Notes that the instruction of a line hit the allocation hit last.
    #[inline(always)]
    pub(crate) fn remember(&mut self, line: u32) {
        self.lives[line as usize % LIVES] = self.live;
    }

    /// Notes a fault; the first one stays.
    #[cold]
    pub(crate) fn note(
        &mut self,
        kind: FaultKind,
        address: Option<u64>,
        lane: u32,
        detail: &'static str,
    ) {
        self.noted.get_or_insert(Noted {
            kind,
            address,
            lane,
            detail,
        });
    }

    /// Host address of `len` bytes of the session's memory.
    #[inline(always)]
    fn global(&mut self, address: u64, len: u64, write: bool, lane: u32) -> Option<*mut u8> {
        if cfg!(unchecked_access) {
            return Some(address.wrapping_add(self.delta) as *mut u8);
        }
        let within = |live: &Live| {
            let at = address.wrapping_sub(live.start);
            at <= live.end - live.start && len <= live.end - live.start - at
        };
        if !within(&self.live) {
            match self.memory.find(address, len) {
                Some(live) => self.live = live,
                None => {
                    let detail = "not within a live allocation of the session";
                    self.note(FaultKind::IllegalAddress, Some(address), lane, detail);
                    return None;
                }
            }
        }
        if write && !self.live.writable {
            let detail = "constant memory cannot be written by a kernel";
            self.note(FaultKind::IllegalAddress, Some(address), lane, detail);
            return None;
        }
        Some(address.wrapping_add(self.delta) as *mut u8)
    }

    #[inline(always)]
    fn shared(&mut self, address: u64, len: u64, lane: u32) -> Option<*mut u8> {
        if cfg!(unchecked_access) || address <= self.shared_len && len <= self.shared_len - address
        {
            // SAFETY: the range lies within the block's shared memory.
            return Some(unsafe { self.shared.add(address as usize) });
        }
        let detail = "outside the block's shared memory";
        self.note(FaultKind::IllegalAddress, Some(address), lane, detail);
        None
    }

    #[inline(always)]
    fn local(&mut self, address: u64, len: u64, lane: u32) -> Option<*mut u8> {
        if cfg!(unchecked_access) || address <= self.local_len && len <= self.local_len - address {
            let at = u64::from(lane) * self.local_len + address;
            // SAFETY: the range lies within the thread's share of the warp's local memory.
            return Some(unsafe { self.local.add(at as usize) });
        }
        let detail = "outside the thread's local memory";
        self.note(FaultKind::IllegalAddress, Some(address), lane, detail);
        None
    }

    #[cold]
    fn param(&mut self, address: u64, len: u64, write: bool, lane: u32) -> Option<*mut u8> {
        let at = address.wrapping_sub(PARAM_WINDOW);
        if write {
            let detail = "kernel parameters are read only";
            self.note(FaultKind::IllegalAddress, Some(address), lane, detail);
            return None;
        }
        if at <= self.params_len && len <= self.params_len - at {
            // SAFETY: the range lies within the launch's parameters; nobody writes through it.
            return Some(unsafe { self.params.add(at as usize).cast_mut() });
        }
        let detail = "outside the kernel's parameters";
        self.note(FaultKind::IllegalAddress, Some(address), lane, detail);
        None
    }

    /// Host address of `len` bytes that a lane accesses, or a noted fault.
    #[inline(always)]
    pub(crate) fn resolve(
        &mut self,
        place: Place,
        address: u64,
        (len, align): (u64, u64),
        write: bool,
        lane: u32,
    ) -> Option<*mut u8> {
        if !cfg!(unchecked_access) && address & (align - 1) != 0 {
            let detail = "not a multiple of the access size";
            self.note(FaultKind::Misaligned, Some(address), lane, detail);
            return None;
        }
        match place {
            Place::Global | Place::Const => self.global(address, len, write, lane),
            Place::Param => self.param(address, len, write, lane),
            Place::Shared => self.shared(address, len, lane),
            Place::Local => self.local(address, len, lane),
            Place::Frame => self.local(address.wrapping_add(self.local_frame), len, lane),
            Place::Generic => {
                let found = self.generic(address, len, write, lane);
                if let (None, Some(noted)) = (found, &mut self.noted) {
                    // As the kernel formed it, not as the window counts it.
                    noted.address = Some(address);
                }
                found
            }
        }
    }

    #[inline(always)]
    fn generic(&mut self, address: u64, len: u64, write: bool, lane: u32) -> Option<*mut u8> {
        if address.wrapping_sub(SHARED_WINDOW) < WINDOW_SIZE {
            self.shared(address - SHARED_WINDOW, len, lane)
        } else if address.wrapping_sub(LOCAL_WINDOW) < WINDOW_SIZE {
            self.local(address - LOCAL_WINDOW, len, lane)
        } else if address.wrapping_sub(PARAM_WINDOW) < WINDOW_SIZE {
            self.param(address, len, write, lane)
        } else {
            self.global(address, len, write, lane)
        }
    }
}
