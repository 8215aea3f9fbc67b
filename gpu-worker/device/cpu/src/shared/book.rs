//! The book of shared slots: the sessions that share each, and what they are charged for it.
//!
//! A slot's bytes are charged to its sharers in equal parts, the odd bytes to the first of them, so
//! that the parts always add up to the slot. Pages that a session has written are its own, and it
//! is charged all of them. So the charges of all sessions together are the bytes that are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bus_schemas::SessionId;

/// A unit as one session holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The slot it shows.
    pub(crate) slot: u32,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Of those, bytes on pages that the session has written, as was last looked.
    pub(crate) own: u64,
}

#[derive(Debug)]
struct Slot {
    bytes: u64,
    /// Sharers, and how many units of each show the slot.
    sharers: BTreeMap<SessionId, u32>,
}

impl Slot {
    /// What each sharer is charged.
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
    /// Bytes of its units: allocated, and charged as below instead.
    shared: u64,
    /// Its written bytes among them.
    own: u64,
    /// Its parts of the slots.
    parts: u64,
}

/// Everything that is shared on one device.
#[derive(Debug, Default)]
pub(crate) struct Book {
    units: BTreeMap<(SessionId, u64), Unit>,
    slots: BTreeMap<u32, Slot>,
    accounts: BTreeMap<SessionId, Account>,
    /// Sessions whose charge may have changed.
    changed: BTreeSet<SessionId>,
}

impl Book {
    /// A session holds a slot's `bytes` at `address` from now on. Nothing of it is there so far.
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

    /// A session holds nothing shared at `address` any more. Gives the slot if nobody shows it now.
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

    /// Changes a slot's sharers: what each is charged changes with them.
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

    /// So many bytes of a unit are on pages that its session has written.
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

    /// What a session is charged that has so many bytes allocated.
    pub(crate) fn charge(&self, session: SessionId, allocated: u64) -> u64 {
        let account = self.accounts.get(&session).copied().unwrap_or_default();
        allocated.saturating_sub(account.shared) + account.own + account.parts
    }

    /// Bytes that sessions hold and are not charged, because others share them: each session's together.
    /// Whoever is alone with a slot of which it has written some is charged more than it holds, until it
    /// has the rest too; that takes nothing from what the others save.
    pub(crate) fn saved(&self) -> u64 {
        let accounts = self.accounts.values();
        let saved = |it: &Account| it.shared.saturating_sub(it.own + it.parts);
        accounts.map(saved).sum()
    }

    /// The sessions whose charge may have changed since this was last asked.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.changed)
    }

    /// Units of all sessions.
    pub(crate) fn len(&self) -> usize {
        self.units.len()
    }

    /// Units of a session.
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

    /// The next unit of a session from `address` on, around its end where there is none.
    pub(crate) fn next(&self, session: SessionId, address: u64) -> Option<(u64, Unit)> {
        let from = self.units.range((session, address)..=(session, u64::MAX));
        let around = self.units.range((session, 0)..(session, address));
        let ((_, address), unit) = from.chain(around).next()?;
        Some((*address, *unit))
    }

    /// The only session that shares a slot, if it is only one.
    pub(crate) fn only(&self, slot: u32) -> Option<SessionId> {
        let sharers = &self.slots.get(&slot)?.sharers;
        let first = sharers.first_key_value()?;
        (sharers.len() == 1).then_some(*first.0)
    }
}

#[cfg(test)]
mod tests;
