//! One session's memory: a window of device addresses over a range of the process's addresses.
//!
//! A device address is an index, never a host pointer. It is checked against the exact table of
//! live allocations and then translated. Behind the window is a range of the device's
//! [`PhysicalMemory`], mapped as a whole for the lifetime of the session. Its pages take memory
//! from their first touch on, and are given back when the last allocation on them is freed.
//!
//! To the host, all of the window may be read and written; the table decides which access is
//! allowed, to the byte. Protecting the gaps between allocations would cost the host a mapping for
//! each of them, and the number of mappings is limited.

#![expect(
    unsafe_code,
    reason = "a mapped range, and copies behind the allocation table's checks"
)]

mod block;
mod blocks;
mod exchange;
mod freed;
mod imports;
mod mapping;
mod maps;
mod missed;
mod moves;
mod page;
mod pages;
mod physical;
pub(crate) mod remapped;

use crate::engine::runtime::Heap;
use crate::error::MemoryError;
use device::TenantNumber;
pub(crate) use imports::ExportedPages;
pub(crate) use page::PAGE;
pub(crate) use physical::PhysicalMemory;
use std::collections::BTreeMap;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Minimum bytes of a copy that is written to the file rather than through the mapping.
const WRITTEN: u64 = 1 << 16;
/// The minimum alignment of module variables.
pub(crate) const ALIGN: u64 = 256;

/// A run of live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) writable: bool,
}

/// A session's memory. Addresses are those that the tenant sees.
#[derive(Debug)]
pub struct Memory {
    base: u64,
    size: u64,
    capacity: u64,
    used: u64,
    physical: Arc<PhysicalMemory>,
    /// The tenant that owns it, if known.
    tenant: Option<TenantNumber>,
    /// Start of its range of the physical memory.
    start: u64,
    host: NonNull<u8>,
    live: Vec<Live>,
    /// Ranges that show bytes of the store: the end of each, by its start. They are pages of whole
    /// allocations; the session has no pages of its own behind them.
    shown: BTreeMap<u64, u64>,
    /// Allocations imported from other sessions, and exported to them.
    imports: imports::Imports,
    /// Allocations that it maps at additional addresses.
    maps: maps::Maps,
    /// Blocks of module variables, by address.
    blocks: Vec<block::Block>,
    heap: Option<Heap>,
    /// Allocations that were freed last, for the messages of faults.
    freed: freed::Freed,
}

// SAFETY: the mapping belongs to this value alone. Shared access goes through raw pointers to plain
// bytes; races on them are the tenant's own (see `engine`).
unsafe impl Send for Memory {}
// SAFETY: as above; the table itself changes only through `&mut self`.
unsafe impl Sync for Memory {}

impl Memory {
    /// A window of `size` bytes that tenants see at `base`, with its own physical memory. At most
    /// `capacity` bytes of it may be allocated at once. Nothing is in memory yet.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] if the host has no such range, or if the window is empty or
    /// wraps.
    pub fn new(base: u64, size: u64, capacity: u64) -> Result<Self, MemoryError> {
        let physical = PhysicalMemory::new().map_err(|_| MemoryError::OutOfMemory(size))?;
        Self::within(Arc::new(physical), (base, size), capacity)
    }

    /// As [`Memory::new`], with a range of this physical memory.
    pub(crate) fn within(
        physical: Arc<PhysicalMemory>,
        (base, size): (u64, u64),
        capacity: u64,
    ) -> Result<Self, MemoryError> {
        let none = MemoryError::OutOfMemory(size);
        let size = size.checked_next_multiple_of(PAGE).ok_or(none)?;
        if size == 0 || !base.is_multiple_of(PAGE) || base.checked_add(size).is_none() {
            return Err(none);
        }
        let start = physical.take(size).ok_or(none)?;
        // SAFETY: at an address chosen by the host.
        let Some(host) = (unsafe { physical.map(None, (start, size)) }) else {
            physical.give(start);
            return Err(none);
        };
        Ok(Self {
            base,
            size,
            capacity,
            used: 0,
            physical,
            tenant: None,
            start,
            host,
            live: Vec::new(),
            shown: BTreeMap::new(),
            imports: imports::Imports::default(),
            maps: maps::Maps::default(),
            blocks: Vec::new(),
            heap: None,
            freed: freed::Freed::default(),
        })
    }

    /// First address of the window.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of the window.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes allocated, module variables included.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Start of the part for module variables: the last sixteenth of the window.
    pub fn internal_base(&self) -> u64 {
        self.base + (self.size - self.size / 16) / PAGE * PAGE
    }

    /// Reserves the range of `malloc` in kernels, once; it stays for the session.
    ///
    /// # Errors
    /// If there is no room for it.
    pub(crate) fn provide_heap(&mut self) -> Result<(), MemoryError> {
        if self.heap.is_none() {
            let start = self.reserve(Heap::BYTES, PAGE)?;
            let end = start + Heap::BYTES;
            let live = Live {
                start,
                end,
                writable: true,
            };
            if let Err(error) = self.occupy(&[live]) {
                self.vacate(start)?;
                return Err(error);
            }
            self.heap = Some(Heap::new(start));
        }
        Ok(())
    }

    /// The heap, if a module that needs it was loaded.
    pub(crate) fn heap(&self) -> Option<&Heap> {
        self.heap.as_ref()
    }

    /// Difference between a device address and its host address.
    pub(crate) fn delta(&self) -> u64 {
        (self.host.as_ptr() as u64).wrapping_sub(self.base)
    }

    /// The live run that contains `[addr, addr + len)`, if any.
    pub(crate) fn find(&self, addr: u64, len: u64) -> Option<Live> {
        let end = addr.checked_add(len)?;
        let next = self.live.partition_point(|live| live.start <= addr);
        let live = *self.live.get(next.checked_sub(1)?)?;
        (end <= live.end).then_some(live)
    }

    /// True if a range is within one live allocation.
    pub fn contains(&self, addr: u64, len: u64) -> bool {
        len == 0 || self.find(addr, len).is_some()
    }

    /// True if adjacent live allocations cover all of `[addr, addr + len)`; a program may have
    /// mapped them so.
    pub(crate) fn covers(&self, addr: u64, len: u64) -> bool {
        let Some(end) = addr.checked_add(len) else {
            return false;
        };
        let next = self.live.partition_point(|live| live.start <= addr);
        let from = self.live.get(next.saturating_sub(1)..).unwrap_or_default();
        let mut covered = addr;
        for live in from {
            if live.start > covered || live.end <= covered && covered < end {
                return false;
            }
            covered = live.end;
            if covered >= end {
                return true;
            }
        }
        false
    }

    fn host(&self, addr: u64, len: u64) -> Result<*mut u8, MemoryError> {
        let illegal = MemoryError::IllegalAddress { addr, len };
        if self.find(addr, len).is_none() && !self.covers(addr, len) {
            return Err(illegal);
        }
        // The sum cannot leave the window, because `find` has placed the range inside it.
        Ok(addr.wrapping_add(self.delta()) as *mut u8)
    }

    /// Allocates `len` zeroed bytes at `addr`, an address chosen by the client.
    ///
    /// # Errors
    /// If the range is not free, or the capacity is not sufficient.
    pub fn alloc(&mut self, addr: u64, len: u64) -> Result<(), MemoryError> {
        self.insert(addr, len)
    }

    fn insert(&mut self, addr: u64, len: u64) -> Result<(), MemoryError> {
        let occupied = MemoryError::Occupied { addr, len };
        let end = addr.checked_add(len).ok_or(occupied)?;
        if len == 0 || addr < self.base || end > self.internal_base() {
            return Err(occupied);
        }
        let place = self.live.partition_point(|live| live.start < addr);
        let before = place
            .checked_sub(1)
            .is_some_and(|at| self.live[at].end > addr);
        let after = self.live.get(place).is_some_and(|live| live.start < end);
        if before || after || self.is_lent(addr, end) {
            return Err(occupied);
        }
        let used = self.used.checked_add(len);
        if used.is_none_or(|used| used > self.capacity) {
            return Err(MemoryError::OutOfMemory(len));
        }
        self.used += len;
        self.freed.reused(addr, end);
        let live = Live {
            start: addr,
            end,
            writable: true,
        };
        self.live.insert(place, live);
        Ok(())
    }

    /// Frees the allocation that starts at `addr`; its pages go back to the host.
    ///
    /// # Errors
    /// If no allocation starts there, or the host does not take its pages back; nothing changes
    /// then.
    pub fn free(&mut self, addr: u64) -> Result<(), MemoryError> {
        for at in self.maps_of(addr) {
            self.drop_map(at);
        }
        let place = self.live.partition_point(|live| live.start < addr);
        let found = self.live.get(place).filter(|live| live.start == addr);
        let found = found.filter(|live| !self.is_lent(addr, live.end));
        let live = *found.ok_or(MemoryError::NotAllocated(addr))?;
        let page = |at: u64| (at - self.base) / PAGE;
        let mut from = page(live.start);
        let mut to = page(live.end - 1) + 1;
        // Pages shared with a neighbour stay.
        if let Some(before) = place.checked_sub(1).map(|at| self.live[at]) {
            from = from.max(page(before.end - 1) + 1);
        }
        if let Some(after) = self.live.get(place + 1) {
            to = to.min(page(after.start));
        }
        if from < to && !self.renew(from * PAGE, (to - from) * PAGE) {
            // The next owner of these pages must not see their contents.
            return Err(MemoryError::OutOfMemory((to - from) * PAGE));
        }
        self.live.remove(place);
        self.freed.push(live.start, live.end);
        self.used -= live.end - live.start;
        // Bytes that stay on shared pages must not be seen by their next owner.
        let (low, high) = (live.start, live.end);
        let kept = if from < to {
            let head = (self.base + from * PAGE).min(high);
            [
                (low, head),
                ((self.base + to * PAGE).clamp(low, high), high),
            ]
        } else {
            [(low, high), (high, high)]
        };
        for (start, end) in kept {
            if start < end {
                // SAFETY: these bytes of the window were live until now.
                unsafe {
                    let at = start.wrapping_add(self.delta()) as *mut u8;
                    ptr::write_bytes(at, 0, (end - start) as usize);
                }
            }
        }
        Ok(())
    }

    /// Bytes of the allocation that starts at `addr`, if any.
    pub(crate) fn allocated(&self, addr: u64) -> Option<u64> {
        let live = self.find(addr, 0).filter(|live| live.start == addr)?;
        Some(live.end - live.start)
    }

    /// Copies out of the session.
    ///
    /// # Errors
    /// If the range is not within one live allocation.
    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        if out.is_empty() {
            return Ok(());
        }
        let from = self.host(addr, out.len() as u64)?;
        // SAFETY: `host` checked the range; `out` cannot overlap the window.
        unsafe { ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// The current bytes of a range. No kernel of the session runs meanwhile, because that needs
    /// the memory too.
    ///
    /// # Errors
    /// If the range is not within one live allocation.
    pub(crate) fn bytes(&mut self, addr: u64, len: u64) -> Result<&[u8], MemoryError> {
        if len == 0 {
            return Ok(&[]);
        }
        let from = self.host(addr, len)?;
        // SAFETY: `host` checked the range, and it has no writer while this value is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(from, len as usize) })
    }

    /// Copies into the session; this may write to constant memory.
    ///
    /// # Errors
    /// If the range is not within one live allocation.
    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let len = bytes.len() as u64;
        let to = self.host(addr, len)?;
        if len >= WRITTEN && self.write_file(addr, bytes) {
            return Ok(());
        }
        // SAFETY: as in `read`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Copies within the session; the ranges may overlap.
    ///
    /// # Errors
    /// If a range is not within one live allocation.
    pub fn copy(&mut self, to: u64, from: u64, len: u64) -> Result<(), MemoryError> {
        if len == 0 {
            return Ok(());
        }
        let (source, target) = (self.host(from, len)?, self.host(to, len)?);
        // SAFETY: `host` checked both ranges.
        unsafe { ptr::copy(source, target, len as usize) };
        Ok(())
    }

    /// Writes the low `width` bytes of `value` `count` times.
    ///
    /// # Errors
    /// If `width` is not 1, 2 or 4, `addr` is not a multiple of it, or the range is not within
    /// one live allocation.
    pub fn fill(
        &mut self,
        addr: u64,
        value: u32,
        width: u32,
        count: u64,
    ) -> Result<(), MemoryError> {
        if !matches!(width, 1 | 2 | 4) {
            return Err(MemoryError::Width(width));
        }
        if !addr.is_multiple_of(u64::from(width)) {
            return Err(MemoryError::Misaligned(addr));
        }
        if count == 0 {
            return Ok(());
        }
        let len = count.checked_mul(u64::from(width));
        let len = len.ok_or(MemoryError::IllegalAddress {
            addr,
            len: u64::MAX,
        })?;
        let at = self.host(addr, len)?;
        let count = count as usize;
        // SAFETY: `host` checked the range. The address is aligned and so is the host's, because
        // both windows start on a page.
        unsafe {
            match width {
                1 => ptr::write_bytes(at, value as u8, count),
                2 => std::slice::from_raw_parts_mut(at.cast::<u16>(), count).fill(value as u16),
                _ => std::slice::from_raw_parts_mut(at.cast::<u32>(), count).fill(value),
            }
        }
        Ok(())
    }

    /// Sets the tenant; it has no maps yet.
    pub(crate) fn belongs(&mut self, tenant: TenantNumber) {
        debug_assert_eq!(self.maps(), 0, "its maps are counted already");
        self.tenant = Some(tenant);
    }

    /// The tenant that owns it, if known.
    pub(crate) fn tenant(&self) -> Option<TenantNumber> {
        self.tenant
    }

    /// Live allocations of the client without module variables: address and bytes.
    pub fn allocations(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let limit = self.internal_base();
        let own = self.live.iter().filter(move |live| live.start < limit);
        own.map(|live| (live.start, live.end - live.start))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the window is this value's own and there are no references to it any more.
        unsafe { libc::munmap(self.host.as_ptr().cast(), self.size as usize) };
        self.physical.give(self.start);
        self.physical.remapped().end(self.tenant, self.maps());
    }
}
