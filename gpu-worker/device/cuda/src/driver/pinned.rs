//! Host memory that the device copies from and to without waiting.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use bus_schemas::Failure;
use cudarc::driver::sys;

use super::check;

/// Pinned host memory, freed when dropped, which waits for the device.
#[derive(Debug)]
pub(crate) struct Pinned {
    pointer: *mut c_void,
    len: usize,
}

// SAFETY: plain memory, owned.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Allocates pinned memory, which takes milliseconds for each MiB.
    pub(crate) fn new(len: usize) -> Result<Self, Failure> {
        let len = len.max(1);
        let mut pointer = ptr::null_mut();
        // SAFETY: an out-pointer to a local.
        let result = unsafe { sys::cuMemHostAlloc(&raw mut pointer, len, 0) };
        check(result, "allocating host memory")?;
        // SAFETY: allocated with this length, and no other thread has it yet.
        unsafe { ptr::write_bytes(pointer.cast::<u8>(), 0, len) };
        Ok(Self { pointer, len })
    }

    /// Creates an empty one, which needs no driver call to make or to drop.
    pub(crate) fn none() -> Self {
        Self {
            pointer: NonNull::dangling().as_ptr(),
            len: 0,
        }
    }

    /// Bytes that it holds.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn pointer(&mut self) -> *mut c_void {
        self.pointer
    }

    /// Returns the first bytes, at most as many as it holds. Copies into it are done.
    pub(crate) fn bytes(&self, len: usize) -> &[u8] {
        let len = len.min(self.len);
        // SAFETY: allocated with at least this length and initialised; no copy writes to it, see above.
        unsafe { std::slice::from_raw_parts(self.pointer.cast::<u8>(), len) }
    }

    /// Writes bytes at an offset, at most as many as it holds. Copies from it are done.
    pub(crate) fn fill(&mut self, offset: usize, bytes: &[u8]) {
        let offset = offset.min(self.len);
        let len = bytes.len().min(self.len - offset);
        // SAFETY: the range lies inside, see above; the source is separate memory of the same length.
        unsafe {
            let to = self.pointer.cast::<u8>().add(offset);
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, len);
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: made by `new`, freed once, after the copies from and to it.
            unsafe { sys::cuMemFreeHost(self.pointer) };
        }
    }
}
