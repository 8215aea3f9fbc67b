//! Maps and moves of a session's allocations.
//!
//! A map is a second mapping of the allocation's pages of the device's physical memory, as an
//! import is of another session's. It has no pages of its own, so it stays in place when its
//! session leaves the device.

use super::{Live, Memory, PAGE, remapped};
use crate::error::MemoryError;

impl Memory {
    /// Bytes of the map at an address, if any.
    pub(crate) fn map_at(&self, addr: u64) -> Option<u64> {
        let (end, home) = self.maps.places.get(&addr)?;
        home.map(|_| end - addr)
    }

    /// Checks that the client's allocation at `addr` has `len` bytes of whole pages, all its own.
    fn is_home(&self, addr: u64, len: u64) -> Result<(), MemoryError> {
        let whole = addr < self.internal_base() && (addr | len).is_multiple_of(PAGE);
        let own = whole && !self.is_lent(addr, addr.saturating_add(len));
        match own && self.allocated(addr) == Some(len) {
            true => Ok(()),
            false => Err(MemoryError::NotAllocated(addr)),
        }
    }

    /// Checks that `len` bytes at `addr` are free, with their whole pages.
    fn is_vacant(&self, addr: u64, len: u64) -> Result<(), MemoryError> {
        let end = addr.checked_add(len).filter(|_| addr.is_multiple_of(PAGE));
        let free = end.filter(|end| {
            let place = self.live.partition_point(|live| live.end <= addr);
            let free = self.live.get(place).is_none_or(|live| live.start >= *end);
            let inside = addr >= self.base && *end <= self.internal_base();
            inside && free && !self.shows(addr, *end)
        });
        free.map(drop).ok_or(MemoryError::Occupied { addr, len })
    }

    /// Begins to move an allocation to other addresses. It is at both until [`Memory::end_move`],
    /// and counts as allocated once. The caller ensures that none of its bytes is shown from elsewhere.
    ///
    /// # Errors
    /// If the allocation may not move, or the target is not free; nothing changes then.
    pub(crate) fn begin_move(
        &mut self,
        (to, from): (u64, u64),
        len: u64,
    ) -> Result<(), MemoryError> {
        self.is_home(from, len)?;
        let end = from + len;
        if self.imports.is_exported(from, end) || self.maps.is_mapped(from, end) {
            return Err(MemoryError::Occupied { addr: from, len });
        }
        self.is_vacant(to, len)?;
        self.used -= len;
        let made = self.alloc(to, len);
        if made.is_err() {
            self.used += len;
        }
        made
    }

    /// Moves some bytes of an allocation that is being moved; they take memory at only one of both
    /// places.
    ///
    /// # Errors
    /// If the host has no memory for them.
    pub(crate) fn move_bytes(
        &mut self,
        (to, from): (u64, u64),
        len: u64,
    ) -> Result<(), MemoryError> {
        let (first, last) = (from - self.base, from - self.base + len);
        let runs: Vec<_> = self.runs(first..last).collect();
        for run in runs {
            let (at, bytes) = (self.base + run.start, run.end - run.start);
            let there = self.host(at, bytes)?;
            // SAFETY: `host` checked the range, and it has no writer: the other place does not
            // overlap it.
            let there = unsafe { std::slice::from_raw_parts(there, bytes as usize) };
            let written = self
                .physical
                .write(self.start + run.start + to - from, there);
            written.map_err(|_| MemoryError::OutOfMemory(bytes))?;
        }
        match self.punch(first, len) {
            true => Ok(()),
            false => Err(MemoryError::OutOfMemory(len)),
        }
    }

    /// Ends a move: the allocation is at the new addresses alone.
    ///
    /// # Errors
    /// If the host does not take the pages back.
    pub(crate) fn end_move(&mut self, from: u64, len: u64) -> Result<(), MemoryError> {
        self.used += len;
        let freed = self.free(from);
        if freed.is_err() {
            self.used -= len;
        }
        freed
    }

    /// Maps the allocation that begins at `from` at `to` as well. None of its bytes may be shown
    /// from elsewhere.
    ///
    /// # Errors
    /// If no allocation of that size begins there, or `to` is not free, or the host does not map
    /// it.
    pub(crate) fn map(&mut self, (to, from): (u64, u64), len: u64) -> Result<(), MemoryError> {
        self.is_home(from, len)?;
        self.is_vacant(to, len)?;
        if self.shows(from, from + len) {
            return Err(MemoryError::Occupied { addr: from, len });
        }
        if !self
            .physical
            .remapped()
            .begin(self.tenant, remapped::most())
        {
            return Err(MemoryError::OutOfMemory(len));
        }
        if !self.show_pages(to, (self.start + (from - self.base), len)) {
            self.physical.remapped().end(self.tenant, 1);
            return Err(MemoryError::OutOfMemory(len));
        }
        self.maps.add((to, from), len);
        let place = self.live.partition_point(|live| live.end <= to);
        let live = Live {
            start: to,
            end: to + len,
            writable: true,
        };
        self.live.insert(place, live);
        Ok(())
    }

    /// Maps pages of the physical memory on free pages of the window, or its own pages again.
    fn show_pages(&mut self, at: u64, (start, bytes): (u64, u64)) -> bool {
        // SAFETY: within the window, which is this value's own. `&mut self` excludes readers, and
        // this session's own pages there were freed.
        let mapped = unsafe {
            let at = self.host.add((at - self.base) as usize);
            self.physical.map(Some(at), (start, bytes))
        };
        mapped.is_some()
    }

    /// Drops the map at `addr`, which cannot be reached any more. True if there was one.
    pub(crate) fn drop_map(&mut self, addr: u64) -> bool {
        let Some(len) = self.map_at(addr) else {
            return false;
        };
        if let Ok(place) = self.live.binary_search_by_key(&addr, |live| live.start) {
            self.live.remove(place);
        }
        let own = self.show_pages(addr, (self.start + (addr - self.base), len));
        // Otherwise the pages stay, and nothing is ever allocated on them.
        self.maps.remove(addr, !own);
        self.physical.remapped().end(self.tenant, usize::from(own));
        true
    }

    /// Addresses at which the allocation that begins at `addr` is mapped.
    pub(crate) fn maps_of(&self, addr: u64) -> Vec<u64> {
        if !self.maps.homes.contains_key(&addr) {
            return Vec::new();
        }
        let places = self.maps.places.iter();
        let of = places.filter(|(_, (_, home))| *home == Some(addr));
        of.map(|(at, _)| *at).collect()
    }

    /// Number of maps.
    pub(crate) fn maps(&self) -> usize {
        self.maps.places.len()
    }
}

#[cfg(test)]
mod tests;
