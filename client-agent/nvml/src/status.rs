//! NVML's result codes, and their texts.

use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A result code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) i32);

/// The result of a function, or the status that explains its failure.
pub(crate) type Result<T = ()> = std::result::Result<T, Status>;

macro_rules! codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Status {
            $(pub(crate) const $name: Self = Self($number);)*
        }

        /// The text of a code, if it is NVML's.
        fn text(code: i32) -> Option<&'static CStr> {
            match code { $($number => Some($text),)* _ => None }
        }
    };
}

// Codes that are never returned here are explained too.
#[expect(dead_code, reason = "the list is NVML's, not ours")]
mod list {
    use super::{CStr, Status};

    codes! {
        SUCCESS = 0, c"Success";
        UNINITIALIZED = 1, c"Uninitialized";
        INVALID_ARGUMENT = 2, c"Invalid Argument";
        NOT_SUPPORTED = 3, c"Not Supported";
        NO_PERMISSION = 4, c"Insufficient Permissions";
        ALREADY_INITIALIZED = 5, c"Already Initialized";
        NOT_FOUND = 6, c"Not Found";
        INSUFFICIENT_SIZE = 7, c"Insufficient Size";
        INSUFFICIENT_POWER = 8, c"Insufficient External Power";
        DRIVER_NOT_LOADED = 9, c"Driver Not Loaded";
        TIMEOUT = 10, c"Timeout";
        IRQ_ISSUE = 11, c"Interrupt Request Issue";
        LIBRARY_NOT_FOUND = 12, c"NVML Shared Library Not Found";
        FUNCTION_NOT_FOUND = 13, c"Function Not Found";
        CORRUPTED_INFOROM = 14, c"Corrupted infoROM";
        GPU_IS_LOST = 15, c"GPU is lost";
        RESET_REQUIRED = 16, c"GPU requires restart";
        OPERATING_SYSTEM = 17, c"The operating system has blocked the request";
        LIB_RM_VERSION_MISMATCH = 18, c"Driver and library versions differ";
        IN_USE = 19, c"In use by another client";
        MEMORY = 20, c"Insufficient Memory";
        NO_DATA = 21, c"No data";
        ARGUMENT_VERSION_MISMATCH = 25, c"Argument version mismatch";
        DEPRECATED = 26, c"Deprecated";
        NOT_READY = 27, c"Not ready";
        GPU_NOT_FOUND = 28, c"GPU not found";
        INVALID_STATE = 29, c"Invalid state";
        UNKNOWN = 999, c"Unknown Error";
    }

    pub(super) fn known(code: i32) -> Option<&'static CStr> {
        text(code)
    }
}

/// The text of an unknown code.
const NO_CODE: &CStr = c"Unknown Error";
/// Maximum number of different reasons: their texts must stay, because programs keep pointers to
/// them.
const REASONS: usize = 16;

/// The reasons why the driver is "not loaded", the newest last.
#[derive(Default)]
pub(crate) struct Reasons(Mutex<Vec<&'static CStr>>);

impl Reasons {
    fn lock(&self) -> MutexGuard<'_, Vec<&'static CStr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reason of [`Status::DRIVER_NOT_LOADED`].
    pub(crate) fn note(&self, why: &str) {
        let text = format!("Driver Not Loaded: {}", why.replace('\0', "?"));
        let Ok(text) = CString::new(text) else {
            return;
        };
        let mut reasons = self.lock();
        if let Some(at) = reasons.iter().position(|known| **known == *text) {
            let known = reasons.remove(at);
            reasons.push(known);
        } else if reasons.len() < REASONS {
            reasons.push(Box::leak(text.into_boxed_c_str()));
        }
    }

    /// The text of a code, with the newest reason if it has one; the text stays valid.
    pub(crate) fn explain(&self, code: i32) -> *const c_char {
        let reason = || self.lock().last().copied();
        let is_noted = code == Status::DRIVER_NOT_LOADED.0;
        let noted = is_noted.then(reason).flatten();
        noted
            .or_else(|| list::known(code))
            .unwrap_or(NO_CODE)
            .as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "reads texts as programs do")]
    fn the_newest_reason_is_told_and_texts_stay() {
        let reasons = Reasons::default();
        let text = |code| {
            // SAFETY: texts end with a zero byte and stay.
            unsafe { CStr::from_ptr(reasons.explain(code)) }
        };
        assert_eq!(text(9), c"Driver Not Loaded");
        reasons.note("first");
        let first = text(9);
        for number in 0..100 {
            reasons.note(&format!("no\0 {number}"));
        }
        assert_eq!(text(9), c"Driver Not Loaded: no? 14", "so many are kept");
        reasons.note("first");
        assert_eq!((text(9), first), (first, c"Driver Not Loaded: first"));
        assert_eq!((text(3), text(77)), (c"Not Supported", c"Unknown Error"));
    }
}
