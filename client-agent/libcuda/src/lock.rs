//! Locks whose data are whole although a thread panicked with them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, whatever became of the thread that had it last.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
