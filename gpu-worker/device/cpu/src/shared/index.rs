//! An index of stored bytes by samples of them: it finds where bytes like those that come may lie
//! already. It is bounded, and what it finds is a guess, to be compared.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{SampleHash, SessionId};
use device::SharingDomain;

/// What is asked for: nothing is found for one domain that lies in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) domain: SharingDomain,
    pub(crate) bytes: u64,
    pub(crate) print: SampleHash,
}

/// Where a unit may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a session's private memory, if that has not been written or freed since.
    Private(SessionId, u64),
    /// In a slot of the store.
    Slot(u32),
}

/// The places of units seen lately.
#[derive(Debug)]
pub(crate) struct Index {
    places: BTreeMap<Key, Place>,
    /// The oldest first; keys that are gone may be among them.
    order: VecDeque<Key>,
    most: usize,
}

impl Index {
    /// An index of `most` units.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            places: BTreeMap::new(),
            order: VecDeque::new(),
            most,
        }
    }

    /// Where a unit may lie.
    pub(crate) fn get(&self, key: &Key) -> Option<Place> {
        self.places.get(key).copied()
    }

    /// A unit lies there; what was known of one like it is forgotten.
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

    /// No unit like this lies anywhere.
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
