//! Memory for generated code: written first, then executable and never writable again.

#![expect(unsafe_code, reason = "mmap of generated code")]

use std::ptr::{self, NonNull};

/// Generated code, executable.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes never change after the mapping is made.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps code; `None` if the system refuses executable memory.
    pub(super) fn new(code: &[u8]) -> Option<Self> {
        let len = code.len().next_multiple_of(4096).max(4096);
        let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address chosen by the kernel touches nothing else.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, read | write, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        let mapping = Self {
            start: NonNull::new(at.cast())?,
            len,
        };
        // SAFETY: the mapping has room for the code, and has no other users yet.
        let sealed = unsafe {
            ptr::copy_nonoverlapping(code.as_ptr(), mapping.start.as_ptr(), code.len());
            libc::mprotect(at, len, read | libc::PROT_EXEC)
        };
        (sealed == 0).then_some(mapping)
    }

    /// Bytes mapped.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Address of a byte of the code.
    pub(super) fn at(&self, offset: usize) -> *const u8 {
        self.start.as_ptr().wrapping_add(offset)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and none of its code runs any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
