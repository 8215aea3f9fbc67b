//! The pages behind a session's addresses: given back, or shown from somewhere else.

use super::{Memory, PAGE};
use crate::error::MemoryError;
use std::os::fd::RawFd;

impl Memory {
    /// Puts fresh pages of zeros in the place of those at an offset of the reservation; gives
    /// whether the host did. Where it did not, they are as they were: what it may refuse is one
    /// mapping more, and it does so before it changes anything.
    pub(super) fn renew(&mut self, from: u64, bytes: u64, access: i32) -> bool {
        debug_assert!(from + bytes <= self.size && (from | bytes).is_multiple_of(PAGE));
        // SAFETY: whole pages within the reservation, which is this value's own; `&mut self` says
        // that nobody looks at them. Contents and access change in one step.
        let mapped = unsafe {
            libc::mmap(
                self.host.as_ptr().add(from as usize).cast(),
                bytes as usize,
                access,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        mapped != libc::MAP_FAILED
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
        if !self.is_whole(addr, bytes) {
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
        // All at once is cheaper than one by one as kernels come to them. Where the host does not
        // know how, they are mapped then.
        // SAFETY: the range was just mapped; nothing in it changes.
        unsafe { libc::madvise(shown, bytes as usize, libc::MADV_POPULATE_READ) };
        true
    }

    /// Puts pages of zeros of this session's own in the place of shown ones. Gives whether the host
    /// did; where it did not, they are as they were.
    pub(crate) fn clear(&mut self, addr: u64, bytes: u64) -> bool {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        self.is_whole(addr, bytes) && self.renew(addr - self.base, bytes, access)
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

    /// As [`Memory::discard`], of the whole pages between two offsets of the reservation.
    pub(super) fn drop_pages(&mut self, from: u64, end: u64) {
        let to = end.min(self.size) / PAGE * PAGE;
        if from < to {
            // SAFETY: whole pages of the reservation whose contents are not wanted any more, and
            // `&mut self` says that nobody looks. What the host may refuse it may also ignore: whoever
            // frees them takes the pages in any case.
            unsafe {
                let at = self.host.as_ptr().add(from as usize).cast();
                libc::madvise(at, (to - from) as usize, libc::MADV_DONTNEED);
            }
        }
    }
}
