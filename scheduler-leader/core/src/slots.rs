//! Slots: typed indices of workers, flows, tenants and sessions, and the arenas that they index. An
//! arena of one kind of slot cannot be indexed by another kind.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// An index of one kind of thing.
pub(crate) trait Slot: Copy {
    /// The slot at an index.
    fn at(index: usize) -> Self;

    /// Its index.
    fn index(self) -> usize;
}

macro_rules! slot {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) struct $name(u32);

        impl Slot for $name {
            fn at(index: usize) -> Self {
                // An index that did not fit would be more than memory holds.
                Self(index as u32)
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<$name> for u64 {
            fn from(slot: $name) -> Self {
                Self::from(slot.0)
            }
        }
    };
}

slot! {
    /// A worker's place among all that the scheduler ever knew; lost workers keep theirs.
    WorkerSlot
}
slot! {
    /// A flow's place: one tenant on one worker.
    FlowSlot
}
slot! {
    /// A tenant's place among all that were ever set or had a session.
    TenantSlot
}
slot! {
    /// A session's place among the present ones; reused once the session has ended.
    SessionSlot
}

impl WorkerSlot {
    /// The lowest and the highest possible slot.
    pub(crate) const FIRST: Self = Self(0);
    pub(crate) const LAST: Self = Self(u32::MAX);
}

impl TenantSlot {
    /// The slot of no tenant.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

impl SessionSlot {
    /// The first.
    #[cfg(test)]
    pub(crate) const FIRST: Self = Self(0);
    /// The slot of no session.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// Rows by slot. Rows are never removed, so that a slot once given out stays valid.
#[derive(Debug, Clone)]
pub(crate) struct Arena<S, T> {
    rows: Vec<T>,
    slots: PhantomData<fn(S)>,
}

impl<S, T> Default for Arena<S, T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            slots: PhantomData,
        }
    }
}

impl<S: Slot, T> Arena<S, T> {
    /// Adds a row and returns its slot.
    pub(crate) fn push(&mut self, row: T) -> S {
        self.rows.push(row);
        S::at(self.rows.len() - 1)
    }

    /// The slot that the next row gets.
    pub(crate) fn next(&self) -> S {
        S::at(self.rows.len())
    }

    /// The row at a slot that may have none. (Not `get`: clippy would take indexing, which is
    /// checked by the slot's type, for that of a slice.)
    pub(crate) fn find(&self, slot: S) -> Option<&T> {
        self.rows.get(slot.index())
    }

    /// The row at a slot, if it exists.
    pub(crate) fn find_mut(&mut self, slot: S) -> Option<&mut T> {
        self.rows.get_mut(slot.index())
    }

    /// All slots in use, without borrowing the rows.
    pub(crate) fn slots(&self) -> impl Iterator<Item = S> + use<S, T> {
        (0..self.rows.len()).map(S::at)
    }

    /// All rows.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.rows.iter()
    }

    /// All rows.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.rows.iter_mut()
    }
}

impl<S: Slot, T: Clone + Default> Arena<S, T> {
    /// The row at a slot; missing rows up to it are added.
    pub(crate) fn grow_to(&mut self, slot: S) -> &mut T {
        if self.rows.len() <= slot.index() {
            self.rows.resize(slot.index() + 1, T::default());
        }
        &mut self[slot]
    }
}

impl<S: Slot, T> Index<S> for Arena<S, T> {
    type Output = T;

    #[expect(
        clippy::indexing_slicing,
        reason = "this arena, or one with a row for each of its rows, gave the slot out, and rows are never taken away; a slot that may be none's goes through `find`"
    )]
    fn index(&self, slot: S) -> &T {
        &self.rows[slot.index()]
    }
}

impl<S: Slot, T> IndexMut<S> for Arena<S, T> {
    #[expect(
        clippy::indexing_slicing,
        reason = "this arena, or one with a row for each of its rows, gave the slot out, and rows are never taken away; a slot that may be none's goes through `find`"
    )]
    fn index_mut(&mut self, slot: S) -> &mut T {
        &mut self.rows[slot.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_the_slots_they_got() {
        let mut arena = Arena::<WorkerSlot, u8>::default();
        let next = arena.next();
        let (first, second) = (arena.push(7), arena.push(9));
        assert_eq!((next, first), (WorkerSlot::FIRST, WorkerSlot::FIRST));
        assert_eq!((arena[first], arena.find(second)), (7, Some(&9)));
        assert_eq!(arena.slots().collect::<Vec<_>>(), [first, second]);
        assert_eq!(arena.find(WorkerSlot::LAST), None);
    }

    #[test]
    fn an_arena_grows_to_a_slot() {
        let mut arena = Arena::<SessionSlot, bool>::default();
        *arena.grow_to(SessionSlot(2)) = true;
        assert_eq!(
            arena.iter().copied().collect::<Vec<_>>(),
            [false, false, true]
        );
    }
}
