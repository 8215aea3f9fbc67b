//! The pages behind a session's addresses: given back, or shown from somewhere else.
//!
//! Where bytes are shown from elsewhere, the session has no pages of its own: what it maps there
//! when they are hidden again reads as zeros.

use super::{Memory, PAGE};
use crate::error::MemoryError;
use std::os::fd::RawFd;

impl Memory {
    /// Gives the pages between two offsets of the window back to the host, so that they read as
    /// zeros; what is shown there is not any more. Gives whether the host did all that: if not,
    /// nobody may be given them.
    pub(super) fn renew(&mut self, from: u64, bytes: u64) -> bool {
        debug_assert!(from + bytes <= self.size && (from | bytes).is_multiple_of(PAGE));
        let (addr, end) = (self.base + from, self.base + from + bytes);
        (!self.shows(addr, end) || self.hide(addr, end)) && self.punch(from, bytes)
    }

    /// What is shown from elsewhere: first addresses and bytes.
    pub(crate) fn shown(&self) -> Vec<(u64, u64)> {
        let shown = self.shown.iter();
        shown.map(|(start, end)| (*start, end - start)).collect()
    }

    /// Whether pages of a range are another range's: imported, or mapped there.
    pub(super) fn is_lent(&self, addr: u64, end: u64) -> bool {
        self.imports.overlap(addr, end) || self.maps.overlap(addr, end)
    }

    /// Whether something is shown in a range, or lies there that was imported or is mapped there.
    pub(crate) fn shows(&self, addr: u64, end: u64) -> bool {
        let before = self.shown.range(..end).next_back();
        before.is_some_and(|(_, until)| *until > addr) || self.is_lent(addr, end)
    }

    /// Maps this session's own pages, of zeros, in the place of all that is shown in a range; nothing
    /// that is shown reaches beyond it. Gives whether the host did; where it did not, everything is
    /// as it was.
    fn hide(&mut self, addr: u64, end: u64) -> bool {
        let (from, bytes) = (addr - self.base, end - addr);
        // SAFETY: within the window, which is this value's own; `&mut self` says that nobody looks.
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

    /// Writes bytes of this session's own pages, none of them shown from elsewhere, without a page fault
    /// for each that is not in memory. Gives whether it did: where not, some may be written.
    pub(super) fn write_file(&self, addr: u64, bytes: &[u8]) -> bool {
        let own = !self.shows(addr, addr + bytes.len() as u64);
        let at = self.start + (addr - self.base);
        own && self.physical.write(at, bytes).is_ok()
    }

    /// Gives this session's own pages between two offsets of the window back to the host.
    pub(super) fn punch(&self, from: u64, bytes: u64) -> bool {
        self.physical.punch(self.start + from, bytes)
    }

    /// Whether a range is whole pages of one live allocation of the client.
    fn is_whole(&self, addr: u64, bytes: u64) -> bool {
        bytes > 0
            && (addr | bytes).is_multiple_of(PAGE)
            && addr < self.internal_base()
            && self.contains(addr, bytes)
    }

    /// Shows a file's bytes at `addr`, whole pages of one live allocation, which may be read and
    /// written: a page that is written becomes this session's own. Gives whether the host did; where
    /// it did not, everything is as it was.
    ///
    /// The caller vouches that nobody writes to these bytes of the file, nor takes them from it,
    /// while they are shown here.
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
        // SAFETY: `is_whole` checked the range, which is this value's own; the mapping is private,
        // so what is written here stays here. `&mut self` says that nobody looks meanwhile.
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
        // Nobody sees its own pages any more, until it has them again, as zeros.
        self.shown.insert(addr, addr + bytes);
        if !self.punch(addr - self.base, bytes) {
            self.hide(addr, addr + bytes);
            return false;
        }
        // All at once is cheaper than one by one as kernels come to them. Where the host does not
        // know how, they are mapped then.
        // SAFETY: the range was just mapped; nothing in it changes.
        unsafe { libc::madvise(shown, bytes as usize, libc::MADV_POPULATE_READ) };
        true
    }

    /// Puts pages of zeros of this session's own in the place of shown ones. Gives whether the host
    /// did; where it did not, they are as they were.
    pub(crate) fn clear(&mut self, addr: u64, bytes: u64) -> bool {
        self.is_whole(addr, bytes) && self.renew(addr - self.base, bytes)
    }

    /// Makes shown pages this session's own, with the bytes that they have. `spare` is room for
    /// them. Gives whether the host did; where it did not, they are as they were.
    pub(crate) fn own(&mut self, addr: u64, bytes: u64, spare: &mut Vec<u8>) -> bool {
        spare.clear();
        match self.bytes(addr, bytes) {
            Ok(shown) => spare.extend_from_slice(shown),
            Err(_) => return false,
        }
        self.clear(addr, bytes) && self.write(addr, spare).is_ok()
    }

    /// Where in the process an address lies, for the process's page table.
    pub(crate) fn place(&self, addr: u64) -> u64 {
        addr.wrapping_add(self.delta())
    }

    /// Gives the pages that lie wholly in a range back to the host: they read as zeros, those that
    /// were shown as what they showed.
    ///
    /// # Errors
    /// If the range is not within one live allocation.
    pub(crate) fn discard(&mut self, addr: u64, len: u64) -> Result<(), MemoryError> {
        self.host(addr, len)?;
        let from = (addr - self.base).next_multiple_of(PAGE);
        self.drop_pages(from, addr + len - self.base);
        Ok(())
    }

    /// As [`Memory::discard`], of the whole pages between two offsets of the window.
    pub(super) fn drop_pages(&mut self, from: u64, end: u64) {
        let to = end.min(self.size) / PAGE * PAGE;
        if from >= to {
            return;
        }
        // What the host may refuse it may also ignore: whoever frees them takes the pages in any case.
        self.punch(from, to - from);
        if self.shows(self.base + from, self.base + to) {
            // SAFETY: whole pages of the window whose contents are not wanted any more, and `&mut
            // self` says that nobody looks.
            unsafe {
                let at = self.host.as_ptr().add(from as usize).cast();
                libc::madvise(at, (to - from) as usize, libc::MADV_DONTNEED);
            }
        }
    }
}
