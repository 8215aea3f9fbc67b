//! Locks whose data are whole although a thread panicked with them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, whatever became of the thread that had it last.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value behind a lock that most programs never take to change it: they pay one load.
#[derive(Debug, Default)]
pub(crate) struct Seldom<T> {
    is_used: AtomicBool,
    value: Mutex<T>,
}

impl<T> Seldom<T> {
    /// Takes the lock, to change the value.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.is_used.store(true, Ordering::Release);
        lock(&self.value)
    }

    /// Takes the lock, unless the value is still the first one.
    #[inline]
    pub(crate) fn if_used(&self) -> Option<MutexGuard<'_, T>> {
        self.is_used
            .load(Ordering::Acquire)
            .then(|| lock(&self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_looked_at_once_it_was_changed() {
        let seldom = Seldom::<u32>::default();
        assert!(seldom.if_used().is_none());
        *seldom.lock() = 7;
        assert_eq!(seldom.if_used().as_deref(), Some(&7));
    }
}
