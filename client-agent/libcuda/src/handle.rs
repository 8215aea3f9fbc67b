//! Tables of the objects that programs name by handles, one for each type. No handle is used twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use foldhash::fast::FixedState;

use crate::abi::Handle;
use crate::status::{Result, Status};

/// The first handle. Small numbers have a special meaning: default streams, the devices' default
/// pools.
const FIRST: usize = 0x0001_0000;
/// Handles look like aligned pointers.
const STEP: usize = 16;

static NEXT: AtomicUsize = AtomicUsize::new(FIRST);

/// The objects of one type.
pub(crate) struct Handles<T> {
    /// We assign the numbers, so the hash need not withstand attackers.
    table: DashMap<usize, Arc<T>, FixedState>,
}

/// A type of objects that have handles.
pub(crate) trait Object: Sized + 'static {
    /// The error for a handle that names no object of the type.
    const UNKNOWN: Status;

    /// The table of all objects of the type.
    fn table() -> &'static Handles<Self>;
}

/// Gives a type of objects its table: `table!(Type, ERROR_OF_AN_UNKNOWN_HANDLE)`.
macro_rules! table {
    ($object:ty, $unknown:ident) => {
        impl $crate::handle::Object for $object {
            const UNKNOWN: $crate::status::Status = $crate::status::Status::$unknown;

            #[inline]
            fn table() -> &'static $crate::handle::Handles<Self> {
                use std::sync::LazyLock;
                type Table = $crate::handle::Handles<$object>;
                static TABLE: LazyLock<Table> = LazyLock::new(Table::new);
                &TABLE
            }
        }
    };
}
pub(crate) use table;

impl<T: Object> Handle<T> {
    /// The object of the handle.
    ///
    /// # Errors
    /// [`Object::UNKNOWN`] if there is none, here and below.
    pub(crate) fn get(self) -> Result<Arc<T>> {
        T::table().get(self).ok_or(T::UNKNOWN)
    }

    /// Runs `look` on the object.
    #[inline]
    pub(crate) fn with<R>(self, look: impl FnOnce(&T) -> R) -> Result<R> {
        let found = T::table().table.get(&self.number());
        found.map(|object| look(&object)).ok_or(T::UNKNOWN)
    }

    /// Fails if there is no such object.
    pub(crate) fn check(self) -> Result {
        self.with(|_| ())
    }

    /// Removes the object from the table.
    pub(crate) fn remove(self) -> Result<Arc<T>> {
        let removed = T::table().table.remove(&self.number());
        removed.map(|(_, object)| object).ok_or(T::UNKNOWN)
    }
}

impl<T> Handles<T> {
    pub(crate) fn new() -> Self {
        // Few shards: programs have few threads, and the table should be small.
        Self {
            table: DashMap::with_hasher_and_shard_amount(FixedState::default(), 8),
        }
    }

    /// Adds an object that needs its own handle.
    pub(crate) fn add_with(&self, make: impl FnOnce(Handle<T>) -> T) -> (Handle<T>, Arc<T>) {
        let handle = Handle::new(NEXT.fetch_add(STEP, Ordering::Relaxed));
        let object = Arc::new(make(handle));
        self.table.insert(handle.number(), Arc::clone(&object));
        (handle, object)
    }

    /// Adds an object and returns its handle.
    pub(crate) fn add(&self, object: T) -> Handle<T> {
        self.add_with(|_| object).0
    }

    /// The object of a handle.
    pub(crate) fn get(&self, handle: Handle<T>) -> Option<Arc<T>> {
        let found = self.table.get(&handle.number());
        found.map(|object| Arc::clone(&object))
    }

    /// The handles of all objects that satisfy `wanted`.
    pub(crate) fn which(&self, mut wanted: impl FnMut(&T) -> bool) -> Vec<Handle<T>> {
        let rows = self.table.iter();
        rows.filter_map(|row| wanted(row.value()).then_some(Handle::new(*row.key())))
            .collect()
    }

    /// Removes all objects that satisfy `wanted`.
    pub(crate) fn take(&self, wanted: impl FnMut(&T) -> bool) {
        for handle in self.which(wanted) {
            self.table.remove(&handle.number());
        }
    }

    /// Replaces the object of a handle that is still known.
    pub(crate) fn replace(&self, handle: Handle<T>, make: impl FnOnce(&T) -> T) {
        if let Some(mut object) = self.table.get_mut(&handle.number()) {
            *object = Arc::new(make(&object));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Letter(char);
    table!(Letter, NOT_FOUND);

    #[test]
    fn a_removed_handle_is_unknown_and_never_comes_back() {
        let first = Letter::table().add(Letter('a'));
        assert_eq!(first.with(|letter| letter.0), Ok('a'));
        assert!(first.remove().is_ok());
        assert_eq!(first.check(), Err(Status::NOT_FOUND));
        assert_ne!(Letter::table().add(Letter('b')), first);
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
