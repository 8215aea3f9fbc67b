//! Units that are not shared any more because their session's memory left the device. Once it is
//! back, they are examined again, because others may still hold the same bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use bus_schemas::SessionId;

/// Units by session and address, with their bytes.
#[derive(Debug)]
pub(crate) struct Parted {
    units: BTreeMap<(SessionId, u64), u64>,
    most: usize,
}

impl Parted {
    /// A list of at most `most` units.
    pub(crate) fn new(most: usize) -> Self {
        let units = BTreeMap::new();
        Self { units, most }
    }

    /// Adds a unit that left; if the list is full, the unit stays private.
    pub(crate) fn note(&mut self, session: SessionId, address: u64, bytes: u64) {
        if self.units.len() < self.most {
            self.units.insert((session, address), bytes);
        }
    }

    /// Takes a unit of a present session: session, address and bytes.
    pub(crate) fn take(
        &mut self,
        is_there: impl Fn(SessionId) -> bool,
    ) -> Option<(SessionId, u64, u64)> {
        let mut next = self.units.keys().next().copied();
        while let Some((session, address)) = next {
            if is_there(session) {
                let bytes = self.units.remove(&(session, address))?;
                return Some((session, address, bytes));
            }
            let behind = (SessionId(session.0.checked_add(1)?), 0);
            next = self.units.range(behind..).next().map(|(unit, _)| *unit);
        }
        None
    }

    /// Removes the units in a range of a session's addresses that was freed.
    pub(crate) fn freed(&mut self, session: SessionId, range: Range<u64>) {
        let units = self
            .units
            .range((session, range.start)..(session, range.end));
        let units: Vec<_> = units.map(|(unit, _)| *unit).collect();
        for unit in units {
            self.units.remove(&unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_sessions_that_are_there_come_in_turn_and_the_list_is_bounded() {
        let mut parted = Parted::new(4);
        let [one, two, three] = [1, 2, 3].map(SessionId);
        for (session, address) in [(one, 8), (two, 8), (two, 4), (three, 1), (three, 2)] {
            parted.note(session, address, 10 * address);
        }
        assert_eq!(parted.take(|session| session == two), Some((two, 4, 40)));
        assert_eq!(parted.take(|session| session == two), Some((two, 8, 80)));
        assert_eq!(parted.take(|session| session == two), None);
        parted.freed(one, 8..9);
        assert_eq!(parted.take(|_| true), Some((three, 1, 10)));
        assert_eq!(parted.take(|_| true), None);
    }
}
