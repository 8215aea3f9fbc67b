//! Sharing of equal bytes between the CPU device's sessions: how it begins and ends.
//!
//! The first copy of some bytes goes where it always went, and its fingerprint is noted. When a
//! later copy has the same fingerprint, the bytes that came are compared with what lies there now:
//! that is a stronger proof than a hash, and holds whatever was written since. If they are equal,
//! the unit goes into the store and both sessions show it. Wherever the host refuses something, the
//! copy is an ordinary one.

mod arrivals;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use bus_schemas::SessionId;
use device::SharingDomain;

use crate::memory::Memory;
use crate::shared::{Book, Index, Key, Looks, Pagemap, Parted, Place, Slot, Store, mappings};

/// Units whose places are remembered: 32 GiB of copies.
const NOTED: usize = 32 << 10;
/// Units of which it is remembered that their session writes to them.
const WRITTEN: usize = 32 << 10;
/// Units that are to be shared again when their sessions are back.
const PARTED: usize = 32 << 10;
/// Units looked at each time that the device has nothing to run.
const STEP: usize = 2;

/// A session's side of what is shared.
pub(super) struct Guest<'a> {
    pub(super) id: SessionId,
    /// Whom it may share with.
    pub(super) domain: SharingDomain,
    pub(super) memory: &'a mut Memory,
}

/// Whoever may share: a session of the device.
pub(super) trait Shares {
    /// Its side of what is shared, if it may share at all.
    fn guest(&mut self) -> Option<Guest<'_>>;
}

/// What the host lends for it.
#[derive(Debug)]
struct Ground {
    store: Arc<Store>,
    pagemap: Pagemap,
}

/// A slot that sessions show.
#[derive(Debug)]
struct Shown {
    slot: Arc<Slot>,
    /// What it is found by.
    key: Key,
}

/// What the sessions of a device share.
#[derive(Debug)]
pub(super) struct Sharing {
    ground: Option<Ground>,
    /// Units that may be shown at a time.
    most: usize,
    book: Book,
    index: Index,
    looks: Looks,
    /// The slots that sessions show, by their numbers.
    slots: BTreeMap<u32, Shown>,
    /// Units that their sessions have written and that became private: no weights.
    written: BTreeSet<(SessionId, u64)>,
    /// Units whose sessions' memory left the device.
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
    /// Prepares to share what lies in a store, if it has not. Without the host's help nothing is shared.
    pub(super) fn begin(&mut self, store: Option<&Arc<Store>>) {
        if self.ground.is_some() {
            return;
        }
        // Each unit may split a mapping in two, and others in the process need some too.
        let most = mappings() / 4;
        let ground = store.and_then(|store| {
            let store = Arc::clone(store);
            let pagemap = Pagemap::open()?;
            Some(Ground { store, pagemap })
        });
        self.most = usize::try_from(most).unwrap_or(usize::MAX);
        self.ground = ground;
    }

    /// Puts zeros in the place of a shared unit. Gives whether the host did.
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

    /// A session does not show a unit any more.
    fn leave(&mut self, id: SessionId, address: u64) {
        let Some((_, unit)) = self.book.next(id, address).filter(|(at, _)| *at == address) else {
            return;
        };
        if let Some(slot) = self.book.leave(id, address) {
            self.free(slot);
        } else if let Some(last) = self.book.only(unit.slot) {
            // Whoever is alone has nothing of a slot whose pages it has written.
            self.looks.due(last, self.book.units_of(last));
        }
    }

    /// Nobody shows a slot any more.
    fn free(&mut self, slot: u32) {
        if let Some(Shown { key, .. }) = self.slots.remove(&slot)
            && self.index.get(&key) == Some(Place::Slot(slot))
        {
            self.index.forget(&key);
        }
    }

    /// What lies in a range is not wanted any more.
    pub(super) fn discard(&mut self, guest: &mut Guest<'_>, range: Range<u64>) {
        for (address, _) in self.book.within(guest.id, range) {
            // Where the host refuses, the unit stays until its allocation is freed.
            self.part(guest, address);
        }
    }

    /// All of a range is the session's own from now on, with the bytes that it has. Gives whether the host
    /// did that everywhere.
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

    /// The session has freed the allocation that was there: no page of it is shown any more.
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

    /// A session's memory has been with the mover: it shows no more what it does not show now.
    pub(super) fn moved(&mut self, id: SessionId, shows: impl Fn(u64) -> bool) {
        for (address, unit) in self.book.within(id, 0..u64::MAX) {
            if !shows(address) {
                self.leave(id, address);
                self.parted.note(id, address, unit.bytes);
            }
        }
        // Looks that were due meanwhile found nobody.
        match self.book.units_of(id) {
            0 => self.looks.closed(id),
            units => self.looks.due(id, units),
        }
    }

    /// A session is closed, and its memory gone.
    pub(super) fn closed(&mut self, id: SessionId) {
        self.freed(id, 0..u64::MAX);
        self.looks.closed(id);
    }

    /// Whether a session shares anything.
    pub(super) fn shares(&self, id: SessionId) -> bool {
        self.book.units_of(id) > 0
    }

    /// A session has run for `ns`.
    pub(super) fn ran(&mut self, guest: &mut Guest<'_>, ns: u64) {
        let units = self.book.units_of(guest.id);
        for _ in 0..self.looks.ran(guest.id, units, ns) {
            self.look(guest);
        }
    }

    /// Looks at some units that are due. Gives whether more are.
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

    /// Shares a unit of a session that is back again, if others hold the same bytes still. Gives whether
    /// there was one.
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
        // Where a unit is shared by now, there is nothing to do: and none of it may be written over.
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

    /// Looks how much of a session's next unit was written since. Where it is more than half, or
    /// nobody else has the unit, the rest is copied too.
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

    /// What a session is charged that has so many bytes allocated.
    pub(super) fn charge(&self, id: SessionId, allocated: u64) -> u64 {
        self.book.charge(id, allocated)
    }

    /// Bytes that sessions hold and that are not stored for each of them.
    pub(super) fn saved(&self) -> u64 {
        self.book.saved()
    }

    /// Sessions whose charge may have changed since this was last asked.
    pub(super) fn take_changed(&mut self) -> BTreeSet<SessionId> {
        self.book.take_changed()
    }
}

#[cfg(test)]
mod tests;
