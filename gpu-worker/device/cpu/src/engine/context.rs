//! The context of an executing instruction: register files, memories, and a recorded fault.

#![expect(
    unsafe_code,
    reason = "addresses into register files and checked memories"
)]

use crate::decode::form::{LOCAL_WINDOW, PARAM_WINDOW, Place, SHARED_WINDOW, Slot, WINDOW_SIZE};
use crate::error::FaultKind;
use crate::lane_value::Bits;
use crate::memory::{Live, Memory};
use bus_schemas::FaultAccess;

/// A fault as an instruction records it; the scheduler adds kernel, line and thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    pub(crate) kind: FaultKind,
    pub(crate) address: Option<u64>,
    pub(crate) lane: u32,
    pub(crate) access: Option<FaultAccess>,
    pub(crate) detail: &'static str,
}

/// The detail of an access that is not within a live allocation, before the nearest one is searched.
const NOT_LIVE: &str = "not within a live allocation of the session";

/// Number of allocations that a context remembers for instructions.
pub(crate) const LIVES: usize = 4;

/// The state of the running warp that lane loops use.
pub(crate) struct Context<'m> {
    /// Registers of 32 bits of the frame, and the launch's constants.
    pub(crate) words: [*mut u8; 2],
    /// Registers of 64 bits of the frame, and the launch's constants.
    pub(crate) doubles: [*mut u8; 2],
    pub(crate) preds: *mut u32,
    /// One less than a power of two. Every predicate of the frame is at most this, and it is within
    /// the file.
    pub(crate) preds_mask: u32,
    /// Operands that do not fit into an instruction.
    pub(crate) operands: &'m [Slot],
    pub(crate) carry: u32,
    pub(crate) memory: &'m Memory,
    /// The last accessed allocation.
    pub(crate) live: Live,
    /// The allocations that instructions accessed last; some lines share an entry.
    pub(crate) lives: [Live; LIVES],
    pub(crate) delta: u64,
    pub(crate) shared: *mut u8,
    pub(crate) shared_len: u64,
    /// Local memory of the warp's lane 0.
    pub(crate) local: *mut u8,
    /// Bytes of local memory of one thread.
    pub(crate) local_len: u64,
    /// Offset of the running function's frame in it.
    pub(crate) local_frame: u64,
    /// The launch's parameters, and their bytes.
    pub(crate) params: *const u8,
    pub(crate) params_len: u64,
    pub(crate) clock: u64,
    pub(crate) noted: Option<Noted>,
    /// Cost of runtime calls beyond one instruction, in instructions.
    pub(crate) spent: u64,
    /// The recorded fault's detail, if that depends on the run.
    pub(crate) noted_detail: Option<String>,
    /// Budget and use of a warp's native code: backward jumps, instructions.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) jumps: u32,
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) executed: u64,
    /// Number of instructions after which it stops at the next backward jump.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) until: u64,
    /// Set from outside: the warp stops at the next backward jump.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) stop: *const std::sync::atomic::AtomicBool,
    /// Allocations that native code accessed last.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) sites: [crate::native::site::Site; crate::native::site::SITES],
}

impl Context<'_> {
    /// Address of a source's lanes.
    ///
    /// # Safety
    /// The slot is in the frame or the constants.
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
    /// The slot is in the frame.
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

    /// The lanes in which a predicate is true.
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

    /// The next value of the virtual clock, which only increases.
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 16;
        self.clock
    }

    /// Local address of a byte of the running function's frame.
    pub(crate) fn frame_address(&self, offset: i64) -> u64 {
        self.local_frame.wrapping_add(offset as u64)
    }

    /// Remembers the last accessed allocation for the instruction of a line.
    #[inline(always)]
    pub(crate) fn remember(&mut self, line: u32) {
        self.lives[line as usize % LIVES] = self.live;
    }

    /// Records a fault; the first one stays.
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
            access: None,
            detail,
        });
    }

    /// Records the fault of an access of `len` bytes.
    #[cold]
    fn refuse(
        &mut self,
        kind: FaultKind,
        (address, len): (u64, u64),
        write: bool,
        lane: u32,
        detail: &'static str,
    ) {
        self.noted.get_or_insert(Noted {
            kind,
            address: Some(address),
            lane,
            access: Some(FaultAccess { write, bytes: len }),
            detail,
        });
    }

    /// Takes the recorded fault, with the allocation that it missed as its detail. Allocations are searched only
    /// here: checks of several lanes at once record faults that are dropped again.
    pub(crate) fn take_noted(&mut self) -> Option<Noted> {
        let noted = self.noted.take()?;
        if noted.detail == NOT_LIVE
            && let (Some(address), Some(access)) = (noted.address, noted.access)
        {
            self.noted_detail = self.memory.missed(address, access.bytes);
        }
        Some(noted)
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
                    let kind = FaultKind::IllegalAddress;
                    self.refuse(kind, (address, len), write, lane, NOT_LIVE);
                    return None;
                }
            }
        }
        if write && !self.live.writable {
            let detail = "constant memory cannot be written by a kernel";
            self.refuse(
                FaultKind::IllegalAddress,
                (address, len),
                write,
                lane,
                detail,
            );
            return None;
        }
        Some(address.wrapping_add(self.delta) as *mut u8)
    }

    #[inline(always)]
    fn shared(&mut self, address: u64, len: u64, write: bool, lane: u32) -> Option<*mut u8> {
        if cfg!(unchecked_access) || address <= self.shared_len && len <= self.shared_len - address
        {
            // SAFETY: the range is within the block's shared memory.
            return Some(unsafe { self.shared.add(address as usize) });
        }
        let detail = "outside the block's shared memory";
        self.refuse(
            FaultKind::IllegalAddress,
            (address, len),
            write,
            lane,
            detail,
        );
        None
    }

    #[inline(always)]
    fn local(&mut self, address: u64, len: u64, write: bool, lane: u32) -> Option<*mut u8> {
        if cfg!(unchecked_access) || address <= self.local_len && len <= self.local_len - address {
            let at = u64::from(lane) * self.local_len + address;
            // SAFETY: the range is within the thread's share of the warp's local memory.
            return Some(unsafe { self.local.add(at as usize) });
        }
        let detail = "outside the thread's local memory";
        self.refuse(
            FaultKind::IllegalAddress,
            (address, len),
            write,
            lane,
            detail,
        );
        None
    }

    #[cold]
    fn param(&mut self, address: u64, len: u64, write: bool, lane: u32) -> Option<*mut u8> {
        let at = address.wrapping_sub(PARAM_WINDOW);
        if write {
            let detail = "kernel parameters are read only";
            self.refuse(
                FaultKind::IllegalAddress,
                (address, len),
                write,
                lane,
                detail,
            );
            return None;
        }
        if at <= self.params_len && len <= self.params_len - at {
            // SAFETY: the range is within the launch's parameters; the pointer is never written
            // through.
            return Some(unsafe { self.params.add(at as usize).cast_mut() });
        }
        let detail = "outside the kernel's parameters";
        self.refuse(
            FaultKind::IllegalAddress,
            (address, len),
            write,
            lane,
            detail,
        );
        None
    }

    /// Host address of `len` bytes that a lane accesses; records a fault otherwise.
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
            self.refuse(FaultKind::Misaligned, (address, len), write, lane, detail);
            return None;
        }
        match place {
            Place::Global | Place::Const => self.global(address, len, write, lane),
            Place::Param => self.param(address, len, write, lane),
            Place::Shared => self.shared(address, len, write, lane),
            Place::Local => self.local(address, len, write, lane),
            Place::Frame => self.local(address.wrapping_add(self.local_frame), len, write, lane),
            Place::Generic => {
                let found = self.generic(address, len, write, lane);
                if let (None, Some(noted)) = (found, &mut self.noted) {
                    // The address as the kernel formed it, not relative to the window.
                    noted.address = Some(address);
                }
                found
            }
        }
    }

    #[inline(always)]
    fn generic(&mut self, address: u64, len: u64, write: bool, lane: u32) -> Option<*mut u8> {
        if address.wrapping_sub(SHARED_WINDOW) < WINDOW_SIZE {
            self.shared(address - SHARED_WINDOW, len, write, lane)
        } else if address.wrapping_sub(LOCAL_WINDOW) < WINDOW_SIZE {
            self.local(address - LOCAL_WINDOW, len, write, lane)
        } else if address.wrapping_sub(PARAM_WINDOW) < WINDOW_SIZE {
            self.param(address, len, write, lane)
        } else {
            self.global(address, len, write, lane)
        }
    }
}
