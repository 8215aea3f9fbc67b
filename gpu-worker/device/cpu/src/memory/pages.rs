//! The pages behind a session's addresses: given back, or replaced by shown ones.
//!
//! A range that shows bytes from elsewhere has no pages of the session. Its own pages read as zeros
//! when they replace the shown ones.

use super::{Memory, PAGE};
use crate::error::MemoryError;
use std::os::fd::RawFd;

impl Memory {
    /// Gives the pages between two offsets of the window back to the host, so that they read as
    /// zeros. Shown pages there are replaced by the session's own. True if the host did all that;
    /// if not, the pages must not get a new owner.
    pub(super) fn renew(&mut self, from: u64, bytes: u64) -> bool {
        debug_assert!(from + bytes <= self.size && (from | bytes).is_multiple_of(PAGE));
        let (addr, end) = (self.base + from, self.base + from + bytes);
        (!self.shows(addr, end) || self.hide(addr, end)) && self.punch(from, bytes)
    }

    /// Ranges that are shown from elsewhere: first addresses and bytes.
    pub(crate) fn shown(&self) -> Vec<(u64, u64)> {
        let shown = self.shown.iter();
        shown.map(|(start, end)| (*start, end - start)).collect()
    }

    /// True if pages of a range belong to another range: they are imported, or maps.
    pub(super) fn is_lent(&self, addr: u64, end: u64) -> bool {
        self.imports.overlap(addr, end) || self.maps.overlap(addr, end)
    }

    /// True if pages of a range are shown, imported, or maps.
    pub(crate) fn shows(&self, addr: u64, end: u64) -> bool {
        let before = self.shown.range(..end).next_back();
        before.is_some_and(|(_, until)| *until > addr) || self.is_lent(addr, end)
    }

    /// Replaces all shown pages in a range by this session's own pages, of zeros; no shown range
    /// may reach beyond it. True if the host did it; otherwise nothing changes.
    fn hide(&mut self, addr: u64, end: u64) -> bool {
        let (from, bytes) = (addr - self.base, end - addr);
        // SAFETY: within the window, which is this value's own; `&mut self` excludes readers.
        let mapped = unsafe {
            let at = self.host.add(from as usize);
            self.physical.map(Some(at), (self.start + from, bytes))
        };
        if mapped.is_none() {
            return false;
        }
        let hidden: Vec<u64> = self.shown.range(addr..end).map(|it| *it.0).collect();
        for start in hidden {
            self.shown.remove(&start);
        }
        true
    }

    /// Writes bytes to this session's own pages without a page fault for each page that is not in
    /// memory. True on success; otherwise some bytes may be written. Fails if any of the pages is
    /// shown from elsewhere.
    pub(super) fn write_file(&self, addr: u64, bytes: &[u8]) -> bool {
        let own = !self.shows(addr, addr + bytes.len() as u64);
        let at = self.start + (addr - self.base);
        own && self.physical.write(at, bytes).is_ok()
    }

    /// Gives this session's own pages between two offsets of the window back to the host.
    pub(super) fn punch(&self, from: u64, bytes: u64) -> bool {
        self.physical.punch(self.start + from, bytes)
    }

    /// True if a range is whole pages of one live allocation of the client.
    fn is_whole(&self, addr: u64, bytes: u64) -> bool {
        bytes > 0
            && (addr | bytes).is_multiple_of(PAGE)
            && addr < self.internal_base()
            && self.contains(addr, bytes)
    }

    /// Shows a file's bytes at `addr`, whole pages of one live allocation. They may be read and
    /// written; a written page becomes this session's own. True if the host did it; otherwise
    /// nothing changes.
    ///
    /// The caller ensures that these bytes of the file are neither written nor removed while they
    /// are shown here.
    pub(crate) fn show(&mut self, addr: u64, bytes: u64, file: RawFd, offset: u64) -> bool {
        let Ok(offset) = libc::off_t::try_from(offset) else {
            return false;
        };
        let end = addr + bytes;
        if !self.is_whole(addr, bytes)
            || self.shows(addr, end)
            || self.imports.is_exported(addr, end)
            || self.maps.is_mapped(addr, end)
        {
            return false;
        }
        // SAFETY: `is_whole` checked the range, which is this value's own. The mapping is private,
        // so writes stay here. `&mut self` excludes readers meanwhile.
        let shown = unsafe {
            let at = self.host.as_ptr().add((addr - self.base) as usize).cast();
            libc::mmap(
                at,
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_NORESERVE | libc::MAP_FIXED,
                file,
                offset,
            )
        };
        if shown == libc::MAP_FAILED {
            return false;
        }
        // From now on its own pages are invisible, until they return as zeros.
        self.shown.insert(addr, addr + bytes);
        if !self.punch(addr - self.base, bytes) {
            self.hide(addr, addr + bytes);
            return false;
        }
        // Mapping all pages at once is cheaper than one by one when kernels touch them. A host
        // without support maps them then.
        // SAFETY: the range was just mapped; nothing in it changes.
        unsafe { libc::madvise(shown, bytes as usize, libc::MADV_POPULATE_READ) };
        true
    }

    /// Replaces shown pages by this session's own pages of zeros. True if the host did it;
    /// otherwise nothing changes.
    pub(crate) fn clear(&mut self, addr: u64, bytes: u64) -> bool {
        self.is_whole(addr, bytes) && self.renew(addr - self.base, bytes)
    }

    /// Makes shown pages this session's own, with the same bytes. `spare` is a buffer for them.
    /// True if the host did it; otherwise nothing changes.
    pub(crate) fn own(&mut self, addr: u64, bytes: u64, spare: &mut Vec<u8>) -> bool {
        spare.clear();
        match self.bytes(addr, bytes) {
            Ok(shown) => spare.extend_from_slice(shown),
            Err(_) => return false,
        }
        self.clear(addr, bytes) && self.write(addr, spare).is_ok()
    }

    /// Address in the process, for the process's page table.
    pub(crate) fn place(&self, addr: u64) -> u64 {
        addr.wrapping_add(self.delta())
    }

    /// Gives the pages that are entirely in a range back to the host. They read as zeros; shown
    /// pages read as their original bytes.
    ///
    /// # Errors
    /// If the range is not within one live allocation.
    pub(crate) fn discard(&mut self, addr: u64, len: u64) -> Result<(), MemoryError> {
        self.host(addr, len)?;
        let from = (addr - self.base).next_multiple_of(PAGE);
        self.drop_pages(from, addr + len - self.base);
        Ok(())
    }

    /// As [`Memory::discard`], for the whole pages between two offsets of the window.
    pub(super) fn drop_pages(&mut self, from: u64, end: u64) {
        let to = end.min(self.size) / PAGE * PAGE;
        if from >= to {
            return;
        }
        // A refusal by the host can be ignored, because freeing the allocation takes the pages in
        // any case.
        self.punch(from, to - from);
        if self.shows(self.base + from, self.base + to) {
            // SAFETY: whole pages of the window with contents that are not needed any more.
            // `&mut self` excludes readers.
            unsafe {
                let at = self.host.as_ptr().add(from as usize).cast();
                libc::madvise(at, (to - from) as usize, libc::MADV_DONTNEED);
            }
        }
    }
}
