//! A map from numbers that a client picks, with direct access for small ones.

use std::collections::BTreeMap;

use bus_schemas::limits::MODULES;

/// At most one value for each number. Clients count from 0 to [`MODULES`]; other numbers are found in a tree.
#[derive(Debug)]
pub(super) struct Slots<T> {
    near: Vec<Option<T>>,
    far: BTreeMap<u32, T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            near: Vec::new(),
            far: BTreeMap::new(),
        }
    }
}

impl<T> Slots<T> {
    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        match slot < MODULES {
            true => self.near.get_mut(slot as usize)?.as_mut(),
            false => self.far.get_mut(&slot),
        }
    }

    /// Puts a value in a slot; returns the previous one.
    pub(super) fn insert(&mut self, slot: u32, it: T) -> Option<T> {
        if slot >= MODULES {
            return self.far.insert(slot, it);
        }
        let index = slot as usize;
        if index >= self.near.len() {
            self.near.resize_with(index + 1, || None);
        }
        self.near.get_mut(index)?.replace(it)
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<T> {
        match slot < MODULES {
            true => self.near.get_mut(slot as usize)?.take(),
            false => self.far.remove(&slot),
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.near.iter().flatten().chain(self.far.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_slots_hold_one_thing_each() {
        let mut slots = Slots::default();
        for slot in [5, 0, MODULES - 1, MODULES, u32::MAX] {
            assert_eq!(slots.get_mut(slot), None);
            assert_eq!(slots.insert(slot, slot), None);
            assert_eq!(slots.insert(slot, slot / 2), Some(slot), "{slot}");
            assert_eq!(slots.get_mut(slot), Some(&mut (slot / 2)));
        }
        assert_eq!(slots.near.len(), MODULES as usize);
        let values: Vec<u32> = slots.values().copied().collect();
        assert_eq!(values, [0, 2, (MODULES - 1) / 2, MODULES / 2, u32::MAX / 2]);
        assert_eq!(slots.remove(5), Some(2));
        assert_eq!(slots.remove(u32::MAX), Some(u32::MAX / 2));
        assert_eq!((slots.remove(5), slots.get_mut(u32::MAX)), (None, None));
        assert_eq!(slots.remove(3), None);
        assert_eq!(slots.values().count(), 3);
    }
}
