//! The gate that tells a move in progress that its session was closed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bus_schemas::{Code, Failure};

/// A gate that is open while the session of a move is open.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: Mutex<bool>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the gate with its session. Waits for actions that pass through meanwhile.
    pub(crate) fn close(&self) {
        *self.lock() = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.lock()
    }

    /// Runs an action unless the session was closed; closing waits for it meanwhile.
    pub(crate) fn through<T>(&self, what: impl FnOnce() -> T) -> Result<T, Failure> {
        let closed = self.lock();
        match *closed {
            true => Err(Failure::new(Code::SessionGone, "the session was closed")),
            false => Ok(what()),
        }
    }
}
