//! Copies from the host, unit by unit: a unit that other sessions hold alike is shown, not written.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bus_schemas::{SampleHash, SessionId};
use device::Chunk;

use super::{Guest, Shares, Sharing, Shown};
use crate::shared::{Key, Place, Slot, Store, Unit};

impl Guest<'_> {
    /// True if these bytes are at an address now.
    fn has<'p>(&mut self, addr: u64, bytes: u64, pieces: impl Iterator<Item = &'p [u8]>) -> bool {
        let there = self.memory.bytes(addr, bytes);
        there.is_ok_and(|there| equal(there, pieces))
    }
}

fn equal<'p>(mut there: &[u8], pieces: impl Iterator<Item = &'p [u8]>) -> bool {
    for piece in pieces {
        match there.split_at_checked(piece.len()) {
            Some((head, rest)) if head == piece => there = rest,
            _ => return false,
        }
    }
    there.is_empty()
}

impl Sharing {
    /// Takes in a unit of `bytes` that is copied to the address `to`. True if its bytes are there
    /// now; if not, the caller must write them.
    pub(in crate::device) fn take_in<'p, P: Iterator<Item = &'p [u8]>>(
        &mut self,
        guest: &mut Guest<'_>,
        neighbours: &BTreeMap<SessionId, RefCell<impl Shares>>,
        (to, bytes): (u64, u64),
        pieces: impl Fn() -> P,
    ) -> bool {
        if let Some(there) = self.make_way(guest, (to, bytes), pieces()) {
            return there;
        }
        let key = Key {
            domain: guest.domain,
            bytes,
            print: SampleHash::of(pieces()),
        };
        let equal_bytes = match self.index.get(&key) {
            Some(Place::Slot(slot)) => self.in_slot(guest, slot, (to, bytes), &pieces),
            Some(Place::Private(id, at)) if id == guest.id => {
                self.in_own(guest, at, (&key, to), &pieces)
            }
            Some(Place::Private(id, at)) => neighbours.get(&id).and_then(|other| {
                let mut other = other.try_borrow_mut().ok()?;
                let mut other = other.guest().filter(|other| other.domain == key.domain)?;
                let there = other.has(at, bytes, pieces());
                there.then(|| self.meet(guest, Some((&mut other, at)), (&key, to), pieces()))
            }),
            None => None,
        };
        equal_bytes.unwrap_or_else(|| {
            self.index.note(key, Place::Private(guest.id, to));
            false
        })
    }

    /// Takes in the first `bytes` of a unit that is stored in a slot. As [`Sharing::take_in`], but
    /// nothing is compared.
    pub(in crate::device) fn take_kept(
        &mut self,
        guest: &mut Guest<'_>,
        (to, bytes): (u64, u64),
        slot: &Arc<Slot>,
    ) -> bool {
        let ground = self.ground.as_ref();
        let here = ground.is_some_and(|ground| Arc::ptr_eq(&ground.store, slot.store()));
        let unit = slot.bytes().get(..bytes as usize);
        let Some(unit) = unit.filter(|_| here && slot.domain() == Some(guest.domain)) else {
            return false;
        };
        let pieces = || std::iter::once(unit);
        if let Some(there) = self.make_way(guest, (to, bytes), pieces()) {
            return there;
        }
        let number = slot.number();
        if !self.show(guest, (to, bytes), number) {
            return false;
        }
        let key = Key {
            domain: guest.domain,
            bytes,
            print: SampleHash::of(pieces()),
        };
        self.index.note(key, Place::Slot(number));
        let slot = Arc::clone(slot);
        self.slots.entry(number).or_insert(Shown { slot, key });
        true
    }

    /// Makes room for a unit at the address `to`. `Some(true)`: its bytes are there already.
    /// `Some(false)`: the caller must write them. `None`: the unit may be shared.
    fn make_way<'p>(
        &mut self,
        guest: &mut Guest<'_>,
        (to, bytes): (u64, u64),
        pieces: impl Iterator<Item = &'p [u8]>,
    ) -> Option<bool> {
        if self.ground.is_none() {
            return Some(false);
        }
        let shown = self.book.within(guest.id, to..to + bytes);
        let same = |(address, unit): &(u64, Unit)| (*address, unit.bytes) == (to, bytes);
        if shown.iter().any(same) && guest.has(to, bytes, pieces) {
            return Some(true);
        }
        for (address, unit) in shown {
            let inside = to <= address && address + unit.bytes <= to + bytes;
            // A unit that is partly overwritten becomes private page by page.
            if !inside || !self.part(guest, address) {
                return Some(false);
            }
        }
        self.written.contains(&(guest.id, to)).then_some(false)
    }

    /// Shows a slot if it has these bytes; `None` if not.
    fn in_slot<'p, P: Iterator<Item = &'p [u8]>>(
        &mut self,
        guest: &mut Guest<'_>,
        slot: u32,
        (to, bytes): (u64, u64),
        pieces: &impl Fn() -> P,
    ) -> Option<bool> {
        let shown = self.slots.get(&slot)?;
        let there = shown.slot.bytes().get(..bytes as usize)?;
        equal(there, pieces()).then(|| self.show(guest, (to, bytes), slot))
    }

    /// Shares with another place of the same session if that has these bytes; `None` if not.
    fn in_own<'p, P: Iterator<Item = &'p [u8]>>(
        &mut self,
        guest: &mut Guest<'_>,
        at: u64,
        (key, to): (&Key, u64),
        pieces: &impl Fn() -> P,
    ) -> Option<bool> {
        if at.abs_diff(to) < key.bytes && at != to || !guest.has(at, key.bytes, pieces()) {
            return None;
        }
        if at == to {
            // The bytes are there already.
            return Some(true);
        }
        let shown = self.meet(guest, None, (key, to), pieces());
        if shown && let Some(Place::Slot(slot)) = self.index.get(key) {
            self.show(guest, (at, key.bytes), slot);
        }
        Some(shown)
    }

    /// Puts a unit into the store and shows it to the guest and to the other session that has it.
    /// True if the guest shows it now.
    fn meet<'p>(
        &mut self,
        guest: &mut Guest<'_>,
        other: Option<(&mut Guest<'_>, u64)>,
        (key, to): (&Key, u64),
        pieces: impl Iterator<Item = &'p [u8]>,
    ) -> bool {
        let Some(ground) = &self.ground else {
            return false;
        };
        let Some(slot) = ground.store.keep(Some(guest.domain), pieces) else {
            return false;
        };
        let number = slot.number();
        if !self.show(guest, (to, key.bytes), number) {
            return false;
        }
        let (slot, key) = (Arc::new(slot), *key);
        self.slots.insert(number, Shown { slot, key });
        self.index.note(key, Place::Slot(number));
        if let Some((other, at)) = other {
            self.show(other, (at, key.bytes), number);
        }
        true
    }

    /// Shows a slot at an address that has, or is to get, the same bytes. True if it does.
    fn show(&mut self, guest: &mut Guest<'_>, (at, bytes): (u64, u64), slot: u32) -> bool {
        let Some(ground) = &self.ground else {
            return false;
        };
        let taken = !self.book.within(guest.id, at..at + bytes).is_empty();
        if taken || self.book.len() >= self.most {
            return false;
        }
        let (file, offset) = (ground.store.file(), Store::offset(slot));
        let shown = guest.memory.show(at, bytes, file, offset);
        if shown {
            self.book.join(guest.id, at, slot, bytes);
        }
        shown
    }
}
