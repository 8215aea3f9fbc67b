//! The book of shared slots: the sessions that share each slot, and the bytes charged to them.
//!
//! A slot's bytes are charged to its sharers in equal parts, the odd bytes to the first of them, so
//! that the parts always add up to the slot. Pages that a session has written are its own, and it
//! is charged all of them. So the charges of all sessions together equal the stored bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bus_schemas::SessionId;

/// A unit in one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The slot that it shows.
    pub(crate) slot: u32,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Bytes on pages that the session has written, as of the last check.
    pub(crate) own: u64,
}

#[derive(Debug)]
struct Slot {
    bytes: u64,
    /// Sharers, each with the number of its units that show the slot.
    sharers: BTreeMap<SessionId, u32>,
}

impl Slot {
    /// Sharers, each with the bytes charged to it.
    fn parts(&self) -> impl Iterator<Item = (SessionId, u64)> + '_ {
        let sharers = self.sharers.len().max(1) as u64;
        let (part, odd) = (self.bytes / sharers, self.bytes % sharers);
        let ranked = (0..).zip(self.sharers.keys());
        ranked.map(move |(rank, session)| (*session, part + u64::from(rank < odd)))
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Account {
    units: usize,
    /// Bytes of its units. They count as allocated, but are charged as below instead.
    shared: u64,
    /// Its written bytes among them.
    own: u64,
    /// Its parts of the slots.
    parts: u64,
}

/// All shared units and slots of one device.
#[derive(Debug, Default)]
pub(crate) struct Book {
    units: BTreeMap<(SessionId, u64), Unit>,
    slots: BTreeMap<u32, Slot>,
    accounts: BTreeMap<SessionId, Account>,
    /// Sessions with a charge that may have changed.
    changed: BTreeSet<SessionId>,
}

impl Book {
    /// Records that a session holds a slot's `bytes` at `address`. It must not hold a unit there
    /// yet.
    pub(crate) fn join(&mut self, session: SessionId, address: u64, slot: u32, bytes: u64) {
        let unit = Unit {
            slot,
            bytes,
            own: 0,
        };
        let before = self.units.insert((session, address), unit);
        debug_assert_eq!(
            before, None,
            "a unit is left before another takes its place"
        );
        let account = self.accounts.entry(session).or_default();
        account.units += 1;
        account.shared += bytes;
        self.share(slot, bytes, |sharers| {
            *sharers.entry(session).or_default() += 1;
        });
    }

    /// Records that a session holds no unit at `address` any more. Returns the slot if no session
    /// shows it now.
    pub(crate) fn leave(&mut self, session: SessionId, address: u64) -> Option<u32> {
        let unit = self.units.remove(&(session, address))?;
        if let Some(account) = self.accounts.get_mut(&session) {
            account.units -= 1;
            account.shared -= unit.bytes;
            account.own -= unit.own;
        }
        self.share(unit.slot, unit.bytes, |sharers| {
            if let Some(count) = sharers.get_mut(&session) {
                *count -= 1;
                if *count == 0 {
                    sharers.remove(&session);
                }
            }
        });
        if self.units_of(session) == 0 {
            self.accounts.remove(&session);
        }
        let free = self.slots.get(&unit.slot)?.sharers.is_empty();
        free.then(|| {
            self.slots.remove(&unit.slot);
            unit.slot
        })
    }

    /// Changes a slot's sharers, and the charges of all of them.
    fn share(&mut self, slot: u32, bytes: u64, change: impl FnOnce(&mut BTreeMap<SessionId, u32>)) {
        let slot = self.slots.entry(slot).or_insert_with(|| Slot {
            bytes,
            sharers: BTreeMap::new(),
        });
        debug_assert_eq!(slot.bytes, bytes, "a slot has the bytes of its units");
        for (session, part) in slot.parts() {
            if let Some(account) = self.accounts.get_mut(&session) {
                account.parts -= part;
            }
            self.changed.insert(session);
        }
        change(&mut slot.sharers);
        for (session, part) in slot.parts() {
            self.accounts.entry(session).or_default().parts += part;
            self.changed.insert(session);
        }
    }

    /// Records that `own` bytes of a unit are on pages that its session has written.
    pub(crate) fn wrote(&mut self, session: SessionId, address: u64, own: u64) {
        let Some(unit) = self.units.get_mut(&(session, address)) else {
            return;
        };
        let own = own.min(unit.bytes);
        if let Some(account) = self.accounts.get_mut(&session)
            && unit.own != own
        {
            account.own = account.own - unit.own + own;
            unit.own = own;
            self.changed.insert(session);
        }
    }

    /// Bytes charged to a session that has `allocated` bytes.
    pub(crate) fn charge(&self, session: SessionId, allocated: u64) -> u64 {
        let account = self.accounts.get(&session).copied().unwrap_or_default();
        allocated.saturating_sub(account.shared) + account.own + account.parts
    }

    /// Bytes that sessions hold but are not charged for, because others share them; summed over the
    /// sessions. A session that is alone with a partly written slot is charged more than it holds,
    /// until it owns the rest too. That does not reduce what the others save.
    pub(crate) fn saved(&self) -> u64 {
        let accounts = self.accounts.values();
        let saved = |it: &Account| it.shared.saturating_sub(it.own + it.parts);
        accounts.map(saved).sum()
    }

    /// Takes the sessions with a charge that may have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.changed)
    }

    /// Number of units of all sessions.
    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }

    /// Number of units of a session.
    pub(crate) fn units_of(&self, session: SessionId) -> usize {
        self.accounts
            .get(&session)
            .map_or(0, |account| account.units)
    }

    /// The units of a session that overlap a range of addresses: first address and unit.
    pub(crate) fn within(&self, session: SessionId, range: Range<u64>) -> Vec<(u64, Unit)> {
        if self.units_of(session) == 0 || range.is_empty() {
            return Vec::new();
        }
        let before = (session, 0)..(session, range.start);
        let first = self.units.range(before).next_back();
        let first = first.filter(|((_, address), unit)| address + unit.bytes > range.start);
        let others = self
            .units
            .range((session, range.start)..(session, range.end));
        let all = first.into_iter().chain(others);
        all.map(|((_, address), unit)| (*address, *unit)).collect()
    }

    /// The next unit of a session from `address` on; continues at the start after the last one.
    pub(crate) fn next(&self, session: SessionId, address: u64) -> Option<(u64, Unit)> {
        let from = self.units.range((session, address)..=(session, u64::MAX));
        let around = self.units.range((session, 0)..(session, address));
        let ((_, address), unit) = from.chain(around).next()?;
        Some((*address, *unit))
    }

    /// The only session that shares a slot, if there is exactly one.
    pub(crate) fn only(&self, slot: u32) -> Option<SessionId> {
        let sharers = &self.slots.get(&slot)?.sharers;
        let first = sharers.first_key_value()?;
        (sharers.len() == 1).then_some(*first.0)
    }
}

#[cfg(test)]
mod tests;
