//! The modules in a session's slots, as of the slices submitted so far.

use std::collections::BTreeMap;

use bus_schemas::ModuleHash;

/// A module slot: a number that its client chose when it loaded the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ModuleSlot(pub(super) u32);

/// A module and its image.
#[derive(Debug, Clone)]
pub(super) struct Slot<M> {
    pub(super) hash: ModuleHash,
    pub(super) module: M,
}

/// The slots of one session.
#[derive(Debug)]
pub(super) struct Slots<M>(BTreeMap<ModuleSlot, Slot<M>>);

impl<M> Default for Slots<M> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<M> Slots<M> {
    pub(super) fn get(&self, slot: ModuleSlot) -> Option<&Slot<M>> {
        self.0.get(&slot)
    }

    /// Fills or empties a slot. Returns the image that no slot holds any more because of it.
    pub(super) fn set(&mut self, slot: ModuleSlot, to: Option<Slot<M>>) -> Option<ModuleHash> {
        let before = match to {
            Some(to) => self.0.insert(slot, to),
            None => self.0.remove(&slot),
        };
        before
            .map(|before| before.hash)
            .filter(|hash| !self.have(*hash))
    }

    /// True if a slot holds the image.
    pub(super) fn have(&self, hash: ModuleHash) -> bool {
        self.0.values().any(|slot| slot.hash == hash)
    }
}
