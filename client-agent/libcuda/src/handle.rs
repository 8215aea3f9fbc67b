//! Handles that programs hold: numbers, never addresses, so that a stale or foreign one is an
//! error and not a crash. None is given out twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;

/// The first handle. Small numbers have meanings of their own: CUDA's default streams.
const FIRST: usize = 0x0001_0000;
/// They look like aligned pointers.
const STEP: usize = 16;

static NEXT: AtomicUsize = AtomicUsize::new(FIRST);

/// The objects of one kind.
pub(crate) struct Handles<T> {
    table: DashMap<usize, Arc<T>>,
}

impl<T> Handles<T> {
    pub(crate) fn new() -> Self {
        // Few shards: programs have few threads, and the table should be small.
        Self {
            table: DashMap::with_shard_amount(8),
        }
    }

    /// Keeps an object that needs to know its own handle.
    pub(crate) fn add_with(&self, make: impl FnOnce(usize) -> T) -> (usize, Arc<T>) {
        let handle = NEXT.fetch_add(STEP, Ordering::Relaxed);
        let object = Arc::new(make(handle));
        self.table.insert(handle, Arc::clone(&object));
        (handle, object)
    }

    /// Keeps an object and returns its handle.
    pub(crate) fn add(&self, object: T) -> usize {
        self.add_with(|_| object).0
    }

    /// The object of a handle.
    pub(crate) fn get(&self, handle: usize) -> Option<Arc<T>> {
        self.table.get(&handle).map(|object| Arc::clone(&object))
    }

    /// Looks at the object of a handle.
    #[inline]
    pub(crate) fn with<R>(&self, handle: usize, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.table.get(&handle).map(|object| look(&object))
    }

    /// Takes an object out.
    pub(crate) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        self.table.remove(&handle).map(|(_, object)| object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_handle_is_unknown_and_never_comes_back() {
        let handles = Handles::new();
        let first = handles.add("a");
        assert_eq!(handles.get(first).as_deref(), Some(&"a"));
        handles.remove(first);
        assert!(handles.get(first).is_none());
        assert_ne!(handles.add("b"), first);
    }
}
