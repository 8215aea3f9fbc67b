//! The word to a move in progress that its session was closed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bus_schemas::{Code, Failure};

/// Open while the session of a move is.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: Mutex<bool>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session was closed. Waits for what goes through meanwhile.
    pub(crate) fn close(&self) {
        *self.lock() = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.lock()
    }

    /// Does something unless the session was closed, and holds its closing up meanwhile.
    pub(crate) fn through<T>(&self, what: impl FnOnce() -> T) -> Result<T, Failure> {
        let closed = self.lock();
        match *closed {
            true => Err(Failure::new(Code::SessionGone, "the session was closed")),
            false => Ok(what()),
        }
    }
}
