//! A binary heap by (tag, tie) from which any member can be removed. Members are slots. All heaps
//! of one kind of member share a table of the members' positions.

use crate::slots::{Arena, Slot};

/// The position of a member that is in no heap.
pub(crate) const ABSENT: u32 = u32::MAX;

/// A member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<S> {
    /// Its start tag.
    pub(crate) tag: u128,
    /// Breaks ties between equal tags; unique within a heap.
    pub(crate) tie: u64,
    /// The member's slot.
    pub(crate) id: S,
}

impl<S> Entry<S> {
    fn before(&self, other: &Self) -> bool {
        (self.tag, self.tie) < (other.tag, other.tie)
    }
}

/// The heap.
#[derive(Debug)]
pub(crate) struct TagHeap<S> {
    entries: Vec<Entry<S>>,
}

impl<S> Default for TagHeap<S> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
        }
    }
}

impl<S: Slot> TagHeap<S> {
    /// The member that is next.
    pub(crate) fn first(&self) -> Option<&Entry<S>> {
        self.entries.first()
    }

    /// Returns true if the heap is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All members; the next one is first.
    pub(crate) fn entries(&self) -> &[Entry<S>] {
        &self.entries
    }

    /// All members, to renumber their ties without changing their order.
    pub(crate) fn entries_mut(&mut self) -> &mut [Entry<S>] {
        &mut self.entries
    }

    /// Adds a member that is in no heap.
    pub(crate) fn push(&mut self, entry: Entry<S>, places: &mut Arena<S, u32>) {
        self.entries.push(entry);
        self.rise(self.entries.len() - 1, places);
    }

    /// Gives the first member another, higher tag.
    pub(crate) fn raise_first(&mut self, tag: u128, places: &mut Arena<S, u32>) {
        if let Some(first) = self.entries.first_mut() {
            first.tag = tag;
            self.sink(0, places);
        }
    }

    /// Removes a member.
    pub(crate) fn remove(&mut self, id: S, places: &mut Arena<S, u32>) {
        let at = places[id] as usize;
        places[id] = ABSENT;
        let Some(last) = self.entries.pop() else {
            return;
        };
        if let Some(hole) = self.entries.get_mut(at) {
            *hole = last;
            places[last.id] = at as u32;
            self.rise(at, places);
            self.sink(places[last.id] as usize, places);
        }
    }

    /// Removes all members.
    pub(crate) fn clear(&mut self, places: &mut Arena<S, u32>) {
        for entry in self.entries.drain(..) {
            places[entry.id] = ABSENT;
        }
    }

    fn rise(&mut self, mut at: usize, places: &mut Arena<S, u32>) {
        let Some(entry) = self.entries.get(at).copied() else {
            return;
        };
        while at > 0 {
            let parent_at = (at - 1) / 2;
            let Some(parent) = self.entries.get(parent_at).copied() else {
                break;
            };
            if !entry.before(&parent) {
                break;
            }
            self.place(at, parent, places);
            at = parent_at;
        }
        self.place(at, entry, places);
    }

    fn sink(&mut self, mut at: usize, places: &mut Arena<S, u32>) {
        let Some(entry) = self.entries.get(at).copied() else {
            return;
        };
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(mut child) = self.entries.get(left) else {
                break;
            };
            let mut child_at = left;
            if let Some(other) = self.entries.get(right)
                && other.before(child)
            {
                (child, child_at) = (other, right);
            }
            if !child.before(&entry) {
                break;
            }
            let child = *child;
            self.place(at, child, places);
            at = child_at;
        }
        self.place(at, entry, places);
    }

    fn place(&mut self, at: usize, entry: Entry<S>, places: &mut Arena<S, u32>) {
        if let Some(hole) = self.entries.get_mut(at) {
            *hole = entry;
            places[entry.id] = at as u32;
        }
    }
}
