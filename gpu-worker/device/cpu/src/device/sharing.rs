//! Start and end of sharing equal bytes between the CPU device's sessions.
//!
//! The first copy of some bytes is an ordinary one, and its fingerprint is noted. When a later copy
//! has the same fingerprint, its bytes are compared with the current bytes at that place. That is a
//! stronger proof than a hash, and holds after any writes in between. If they are equal, the unit
//! goes into the store and both sessions show it. If the host refuses anything, the copy is an
//! ordinary one.

mod arrivals;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use bus_schemas::SessionId;
use device::SharingDomain;

use crate::memory::Memory;
use crate::shared::{Book, Index, Key, Looks, Pagemap, Parted, Place, Slot, Store, mappings};

/// Maximum number of units with remembered places: 32 GiB of copies.
const NOTED: usize = 32 << 10;
/// Maximum number of units that are remembered as written by their session.
const WRITTEN: usize = 32 << 10;
/// Maximum number of units that are to be shared again when their sessions are back.
const PARTED: usize = 32 << 10;
/// Units checked each time that the device has nothing to run.
const STEP: usize = 2;

/// A session's state for sharing.
pub(super) struct Guest<'a> {
    pub(super) id: SessionId,
    /// Its sharing domain.
    pub(super) domain: SharingDomain,
    pub(super) memory: &'a mut Memory,
}

/// A session of the device that may share memory.
pub(super) trait Shares {
    /// Its state for sharing, if it may share.
    fn guest(&mut self) -> Option<Guest<'_>>;
}

/// Resources of the host that sharing needs.
#[derive(Debug)]
struct Ground {
    store: Arc<Store>,
    pagemap: Pagemap,
}

/// A slot that sessions show.
#[derive(Debug)]
struct Shown {
    slot: Arc<Slot>,
    /// The key of the unit in the index.
    key: Key,
}

/// State of sharing between the sessions of a device.
#[derive(Debug)]
pub(super) struct Sharing {
    ground: Option<Ground>,
    /// Maximum number of units shown at a time.
    most: usize,
    book: Book,
    index: Index,
    looks: Looks,
    /// The slots that sessions show, by their numbers.
    slots: BTreeMap<u32, Shown>,
    /// Units that became private because their sessions wrote to them: not weights.
    written: BTreeSet<(SessionId, u64)>,
    /// Units of sessions that left the device.
    parted: Parted,
    spare: Vec<u8>,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            ground: None,
            most: 0,
            book: Book::default(),
            index: Index::new(NOTED),
            looks: Looks::default(),
            slots: BTreeMap::new(),
            written: BTreeSet::new(),
            parted: Parted::new(PARTED),
            spare: Vec::new(),
        }
    }
}

impl Sharing {
    /// Prepares sharing through a store, if not done yet. Without the host's support nothing is
    /// shared.
    pub(super) fn begin(&mut self, store: Option<&Arc<Store>>) {
        if self.ground.is_some() {
            return;
        }
        // Each unit may split a mapping in two, and the rest of the process needs mappings too.
        let most = mappings() / 4;
        let ground = store.and_then(|store| {
            let store = Arc::clone(store);
            let pagemap = Pagemap::open()?;
            Some(Ground { store, pagemap })
        });
        self.most = usize::try_from(most).unwrap_or(usize::MAX);
        self.ground = ground;
    }

    /// Replaces a shared unit with zeros. True if the host did it.
    fn part(&mut self, guest: &mut Guest<'_>, address: u64) -> bool {
        let Some((at, unit)) = self.book.next(guest.id, address) else {
            return true;
        };
        let parted = at != address || guest.memory.clear(address, unit.bytes);
        if parted {
            self.leave(guest.id, address);
        }
        parted
    }

    /// Records that a session has stopped showing a unit.
    fn leave(&mut self, id: SessionId, address: u64) {
        let Some((_, unit)) = self.book.next(id, address).filter(|(at, _)| *at == address) else {
            return;
        };
        if let Some(slot) = self.book.leave(id, address) {
            self.free(slot);
        } else if let Some(last) = self.book.only(unit.slot) {
            // The last session must not keep the slot if it has written any of its pages.
            self.looks.due(last, self.book.units_of(last));
        }
    }

    /// Frees a slot that no session shows any more.
    fn free(&mut self, slot: u32) {
        if let Some(Shown { key, .. }) = self.slots.remove(&slot)
            && self.index.get(&key) == Some(Place::Slot(slot))
        {
            self.index.forget(&key);
        }
    }

    /// Drops the shared units within a range: its bytes are not needed any more.
    pub(super) fn discard(&mut self, guest: &mut Guest<'_>, range: Range<u64>) {
        for (address, _) in self.book.within(guest.id, range) {
            // If the host refuses, the unit stays until its allocation is freed.
            self.part(guest, address);
        }
    }

    /// Gives the session its own copy of every shared unit in a range; the bytes stay the same.
    /// True if the host did it everywhere.
    pub(super) fn keep_apart(&mut self, guest: &mut Guest<'_>, range: Range<u64>) -> bool {
        for (address, unit) in self.book.within(guest.id, range.clone()) {
            if !guest.memory.own(address, unit.bytes, &mut self.spare) {
                return false;
            }
            self.leave(guest.id, address);
        }
        self.parted.freed(guest.id, range);
        true
    }

    /// Removes the units of an allocation that the session has freed; it shows none of their pages
    /// any more.
    pub(super) fn freed(&mut self, id: SessionId, range: Range<u64>) {
        for (address, _) in self.book.within(id, range.clone()) {
            self.leave(id, address);
        }
        let written = self.written.range((id, range.start)..(id, range.end));
        let written: Vec<_> = written.copied().collect();
        for unit in written {
            self.written.remove(&unit);
        }
        self.parted.freed(id, range);
    }

    /// Updates the units of a session after a move: it has stopped showing all that it does not
    /// show now.
    pub(super) fn moved(&mut self, id: SessionId, shows: impl Fn(u64) -> bool) {
        for (address, unit) in self.book.within(id, 0..u64::MAX) {
            if !shows(address) {
                self.leave(id, address);
                self.parted.note(id, address, unit.bytes);
            }
        }
        // Checks that were due during the move did not find the session.
        match self.book.units_of(id) {
            0 => self.looks.closed(id),
            units => self.looks.due(id, units),
        }
    }

    /// Removes a session that is closed, with its memory.
    pub(super) fn closed(&mut self, id: SessionId) {
        self.freed(id, 0..u64::MAX);
        self.looks.closed(id);
    }

    /// True if a session shares anything.
    pub(super) fn shares(&self, id: SessionId) -> bool {
        self.book.units_of(id) > 0
    }

    /// Counts `ns` of run time for a session, and checks the units that become due.
    pub(super) fn ran(&mut self, guest: &mut Guest<'_>, ns: u64) {
        let units = self.book.units_of(guest.id);
        for _ in 0..self.looks.ran(guest.id, units, ns) {
            self.look(guest);
        }
    }

    /// Checks some units that are due. True if there may be more.
    pub(super) fn tend(
        &mut self,
        sessions: &mut BTreeMap<SessionId, RefCell<impl Shares>>,
    ) -> bool {
        for _ in 0..STEP {
            let Some(id) = self.looks.next() else {
                return self.rejoin(sessions);
            };
            match sessions.get_mut(&id).and_then(|it| it.get_mut().guest()) {
                Some(mut guest) => self.look(&mut guest),
                None => self.looks.closed(id),
            }
        }
        true
    }

    /// Shares a unit of a returned session again, if other sessions still hold the same bytes. True
    /// if there was such a unit.
    fn rejoin(&mut self, sessions: &BTreeMap<SessionId, RefCell<impl Shares>>) -> bool {
        let is_there = |id| sessions.contains_key(&id);
        let Some((id, address, bytes)) = self.parted.take(is_there) else {
            return false;
        };
        let session = sessions.get(&id).and_then(|it| it.try_borrow_mut().ok());
        let Some(mut session) = session else {
            return true;
        };
        let mut unit = std::mem::take(&mut self.spare);
        unit.clear();
        // A unit that is shared again by now must not be overwritten, and needs no work.
        let private = self.book.within(id, address..address + bytes).is_empty();
        if let Some(mut guest) = session.guest().filter(|_| private) {
            if let Ok(there) = guest.memory.bytes(address, bytes) {
                unit.extend_from_slice(there);
            }
            if !unit.is_empty() {
                let pieces = || std::iter::once(&unit[..]);
                self.take_in(&mut guest, sessions, (address, bytes), pieces);
            }
        }
        self.spare = unit;
        true
    }

    /// Checks how much of a session's next unit was written. If that is more than half, or no other
    /// session has the unit, the rest is copied too.
    fn look(&mut self, guest: &mut Guest<'_>) {
        let Some(from) = self.looks.from(guest.id) else {
            return;
        };
        let next = self.book.next(guest.id, from);
        let end = next.map(|(address, unit)| address + unit.bytes);
        self.looks.looked(guest.id, end);
        let (Some((address, unit)), Some(ground)) = (next, &self.ground) else {
            return;
        };
        let place = guest.memory.place(address);
        let Some(own) = ground.pagemap.written(place, unit.bytes) else {
            return;
        };
        self.book.wrote(guest.id, address, own);
        let alone = self.book.only(unit.slot).is_some();
        if own * 2 <= unit.bytes && (own == 0 || !alone) {
            return;
        }
        if guest.memory.own(address, unit.bytes, &mut self.spare) {
            if self.written.len() < WRITTEN {
                self.written.insert((guest.id, address));
            }
            self.leave(guest.id, address);
        }
    }

    /// Bytes charged to a session that has `allocated` bytes.
    pub(super) fn charge(&self, id: SessionId, allocated: u64) -> u64 {
        self.book.charge(id, allocated)
    }

    /// Bytes saved by sharing, over all sessions.
    pub(super) fn saved(&self) -> u64 {
        self.book.saved()
    }

    /// Takes the sessions with a charge that may have changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<SessionId> {
        self.book.take_changed()
    }
}

#[cfg(test)]
mod tests;
