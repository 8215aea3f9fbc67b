//! Locks with data that stays valid although a thread panicked while holding them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, even if a thread panicked while holding it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value behind a lock that most programs never change: they pay one load.
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

    /// Takes the lock, unless the value was never changed.
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
