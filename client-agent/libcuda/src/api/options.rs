//! Options of compilations and links, and the logs that they name.

use std::ffi::{c_int, c_void};

/// The `CUjit_option` that limits registers.
const MAX_REGISTERS: c_int = 0;
/// The `CUlibraryOption` that says that an image stays where it is.
const PRESERVED: c_int = 1;
/// `CUjit_option`s that name the buffers of logs.
const INFO_LOG: [c_int; 2] = [3, 4];
const ERROR_LOG: [c_int; 2] = [5, 6];

/// Options of a compilation: their keys, and their values in the pointers themselves.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) count: u32,
    pub(super) keys: *const c_int,
    pub(super) values: *mut *mut c_void,
}

impl Options {
    pub(super) const NONE: Self = Self {
        count: 0,
        keys: std::ptr::null(),
        values: std::ptr::null_mut(),
    };

    /// Where an option's value stands.
    ///
    /// # Safety
    /// There are as many keys and values as the count says.
    unsafe fn place(self, key: c_int) -> Option<*mut *mut c_void> {
        if self.keys.is_null() || self.values.is_null() {
            return None;
        }
        (0..self.count as usize)
            // SAFETY: the caller vouches for both lists.
            .find(|at| unsafe { self.keys.add(*at).read() } == key)
            .map(|at| self.values.wrapping_add(at))
    }

    /// How many registers a thread may have.
    ///
    /// # Safety
    /// As [`Options::place`].
    pub(super) unsafe fn registers(self) -> Option<u32> {
        // SAFETY: the caller vouches for the lists.
        let value = unsafe { self.place(MAX_REGISTERS).map(|at| at.read()) }?;
        Some(value as usize as u32).filter(|count| *count > 0)
    }

    /// Writes a log and its length to where the options say.
    ///
    /// # Safety
    /// As [`Options::place`], and the buffer is as large as its option says.
    unsafe fn log(self, [buffer, size]: [c_int; 2], text: &str) {
        // SAFETY: the caller vouches for the lists and the buffer.
        unsafe {
            let (Some(buffer), Some(size)) = (self.place(buffer), self.place(size)) else {
                return;
            };
            let (to, room) = (
                buffer.read().cast::<u8>(),
                size.read() as usize as u32 as usize,
            );
            let count = text.len().min(room.saturating_sub(1));
            if !to.is_null() && room > 0 {
                std::ptr::copy_nonoverlapping(text.as_ptr(), to, count);
                to.add(count).write(0);
            }
            size.write(std::ptr::without_provenance_mut(count));
        }
    }
}

impl Options {
    /// Whether the program keeps the image where it is: an option of libraries.
    ///
    /// # Safety
    /// As [`Options::place`].
    pub(super) unsafe fn is_kept(self) -> bool {
        // SAFETY: the caller vouches for the lists.
        unsafe {
            self.place(PRESERVED)
                .is_some_and(|value| !value.read().is_null())
        }
    }

    /// Writes an error to its log.
    ///
    /// # Safety
    /// As [`Options::log`].
    pub(super) unsafe fn log_error(self, text: &str) {
        // SAFETY: the caller vouches for it.
        unsafe { self.log(ERROR_LOG, text) };
    }

    /// Writes what is worth knowing to its log, and empties that of errors.
    ///
    /// # Safety
    /// As [`Options::log`].
    pub(super) unsafe fn log_notes(self, text: &str) {
        // SAFETY: the caller vouches for it.
        unsafe {
            self.log(INFO_LOG, text);
            self.log(ERROR_LOG, "");
        }
    }

    /// Empties both logs.
    ///
    /// # Safety
    /// As [`Options::log`].
    pub(super) unsafe fn log_nothing(self) {
        // SAFETY: the caller vouches for it.
        unsafe { self.log_notes("") };
    }
}
