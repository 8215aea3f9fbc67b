//! Modes of captures and of threads, and the calls that they forbid.

use std::ffi::c_int;

use crate::status::{Result, Status};

/// `CUstreamCaptureMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Forbids unsafe calls to every thread.
    Global,
    /// Forbids unsafe calls to the capturing thread.
    Thread,
    /// Forbids unsafe calls to no thread.
    Relaxed,
}

impl Mode {
    /// Returns the mode of a number in the C interface.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`] if there is none.
    pub(crate) fn of(number: c_int) -> Result<Self> {
        match number {
            0 => Ok(Self::Global),
            1 => Ok(Self::Thread),
            2 => Ok(Self::Relaxed),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// Its number in the C interface.
    pub(crate) fn number(self) -> c_int {
        match self {
            Self::Global => 0,
            Self::Thread => 1,
            Self::Relaxed => 2,
        }
    }
}

/// A thread that makes a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    /// Its number in the process.
    pub(super) thread: usize,
    /// Its mode.
    pub(super) mode: Mode,
}

impl Caller {
    /// Says whether a capture that thread `began` started in `mode` forbids this caller unsafe
    /// calls.
    pub(super) fn is_forbidden(self, began: usize, mode: Mode) -> bool {
        match self.mode {
            Mode::Relaxed => false,
            _ if began == self.thread => mode != Mode::Relaxed,
            Mode::Thread => false,
            Mode::Global => mode == Mode::Global,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{Global, Relaxed, Thread};
    use super::*;

    #[test]
    fn the_thread_and_the_capture_decide_together() {
        // For each mode of the thread: modes of its own captures that forbid, then modes of others'
        // captures.
        for (mode, own, others) in [
            (Global, vec![Global, Thread], vec![Global]),
            (Thread, vec![Global, Thread], vec![]),
            (Relaxed, vec![], vec![]),
        ] {
            let caller = Caller { thread: 1, mode };
            let forbidding = |began: usize| {
                let all = [Global, Thread, Relaxed].into_iter();
                all.filter(move |it| caller.is_forbidden(began, *it))
            };
            assert!(forbidding(1).eq(own), "{mode:?}");
            assert!(forbidding(2).eq(others), "{mode:?}");
        }
    }

    #[test]
    fn modes_have_numbers() {
        for number in 0..3 {
            assert_eq!(Mode::of(number).map(Mode::number), Ok(number));
        }
        for number in [-1, 3, 7] {
            assert_eq!(Mode::of(number), Err(Status::INVALID_VALUE));
        }
    }
}
