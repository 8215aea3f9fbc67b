//! Handles: numbers by which programs name objects.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use super::Word;

/// A number by which a program names an object of type `T`. It is never an address, so a stale or
/// foreign handle causes an error and not a crash. Only the table of the type tells whether the
/// object exists.
#[repr(transparent)]
pub(crate) struct Handle<T> {
    number: usize,
    object: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    /// The handle that names nothing.
    pub(crate) const NULL: Self = Self::new(0);

    pub(crate) const fn new(number: usize) -> Self {
        let object = PhantomData;
        Self { number, object }
    }

    #[inline]
    pub(crate) const fn number(self) -> usize {
        self.number
    }

    #[inline]
    pub(crate) const fn is_null(self) -> bool {
        self.number == 0
    }
}

// Implemented by hand, so that `T` needs no bounds.
impl<T> Copy for Handle<T> {}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Default for Handle<T> {
    fn default() -> Self {
        Self::NULL
    }
}

impl<T> Eq for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Ord for Handle<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl<T> PartialOrd for Handle<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.number)
    }
}

impl<T> Word for Handle<T> {
    #[inline]
    fn word(&self) -> u64 {
        self.number as u64
    }
}
