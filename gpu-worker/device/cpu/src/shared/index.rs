//! An index of stored bytes by samples of them: it finds places where the bytes of a copy may
//! already be. It is bounded, and its results are guesses that must be compared.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{SampleHash, SessionId};
use device::SharingDomain;

/// Key of a search. A search in one domain finds nothing of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) domain: SharingDomain,
    pub(crate) bytes: u64,
    pub(crate) print: SampleHash,
}

/// Possible place of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a session's private memory, unless it was written or freed since.
    Private(SessionId, u64),
    /// In a slot of the store.
    Slot(u32),
}

/// The places of recently seen units.
#[derive(Debug)]
pub(crate) struct Index {
    places: BTreeMap<Key, Place>,
    /// The oldest first; it may contain removed keys.
    order: VecDeque<Key>,
    most: usize,
}

impl Index {
    /// An index of at most `most` units.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            places: BTreeMap::new(),
            order: VecDeque::new(),
            most,
        }
    }

    /// Possible place of a unit.
    pub(crate) fn get(&self, key: &Key) -> Option<Place> {
        self.places.get(key).copied()
    }

    /// Records the place of a unit; replaces an earlier place of an equal one.
    pub(crate) fn note(&mut self, key: Key, place: Place) {
        if self.places.insert(key, place).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.places.remove(&oldest);
        }
    }

    /// Removes a unit that is not stored anywhere.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.places.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(domain: u64, of: u8) -> Key {
        Key {
            domain: SharingDomain(domain),
            bytes: 4_096,
            print: SampleHash::of([&[of; 4_096][..]].into_iter()),
        }
    }

    #[test]
    fn the_oldest_goes_first_and_realms_are_apart() {
        let mut index = Index::new(3);
        for of in 0..3 {
            index.note(key(1, of), Place::Slot(u32::from(of)));
        }
        index.note(key(1, 1), Place::Private(SessionId(4), 8));
        assert_eq!(index.get(&key(1, 0)), Some(Place::Slot(0)));
        assert_eq!(index.get(&key(2, 0)), None);
        index.note(key(1, 3), Place::Slot(3));
        assert_eq!(index.get(&key(1, 0)), None);
        assert_eq!(index.get(&key(1, 1)), Some(Place::Private(SessionId(4), 8)));
        index.forget(&key(1, 1));
        assert_eq!(index.get(&key(1, 1)), None);
    }

    #[test]
    fn it_never_grows() {
        let mut index = Index::new(2);
        for of in 0..100 {
            index.note(key(1, of), Place::Slot(1));
            index.forget(&key(1, of / 2));
            assert!(index.order.len() <= 2 && index.places.len() <= 2);
        }
    }
}
