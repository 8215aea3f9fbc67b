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

    /// The handles of all objects of which something holds.
    pub(crate) fn which(&self, mut wanted: impl FnMut(&T) -> bool) -> Vec<usize> {
        let rows = self.table.iter();
        rows.filter_map(|row| wanted(row.value()).then_some(*row.key()))
            .collect()
    }

    /// Takes all objects out of which something holds.
    pub(crate) fn take(&self, wanted: impl FnMut(&T) -> bool) {
        for handle in self.which(wanted) {
            self.remove(handle);
        }
    }

    /// Puts another object behind a handle that is still known.
    pub(crate) fn replace(&self, handle: usize, make: impl FnOnce(&T) -> T) {
        if let Some(mut object) = self.table.get_mut(&handle) {
            *object = Arc::new(make(&object));
        }
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

    #[test]
    fn some_objects_are_taken_and_one_is_replaced() {
        let handles = Handles::new();
        let [one, two, three] = [1, 2, 3].map(|number| handles.add(number));
        handles.take(|number| number % 2 == 1);
        assert!(handles.get(one).is_none() && handles.get(three).is_none());
        handles.replace(two, |number| number * 10);
        handles.replace(one, |number| number * 10);
        assert_eq!(handles.get(two).as_deref(), Some(&20));
        assert!(handles.get(one).is_none());
    }
}
