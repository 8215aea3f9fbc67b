//! Schedule of the checks of a session's units for pages that it has written.
//!
//! A check of a unit reads 256 rows of the process's page table: some ten microseconds. While there
//! is work, a session's units are checked in turn, one for every [`PRICE`] that the session has
//! run. That is at most a fiftieth of its time. When there is no work, due checks are made bit by
//! bit.

use std::collections::BTreeMap;

use bus_schemas::SessionId;

/// Run time of a session, in nanoseconds, per check of one of its units.
const PRICE: u64 = 2_000_000;
/// Maximum number of checks that a session saves up, so that work behind its slice does not wait
/// for more.
const SAVED: u64 = 8;

#[derive(Debug, Clone, Copy, Default)]
struct Look {
    /// Address from which the next unit is searched.
    next: u64,
    /// Number of units that may have been written since their last check.
    due: usize,
    /// Nanoseconds of run time that were not used for a check yet.
    credit: u64,
}

/// The checks of all sessions of a device.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    sessions: BTreeMap<SessionId, Look>,
}

impl Looks {
    /// Makes the checks of all of a session's units due.
    pub(crate) fn due(&mut self, session: SessionId, units: usize) {
        self.sessions.entry(session).or_default().due = units;
    }

    /// Counts `ns` of run time for a session with `units` units. Returns the number of checks to
    /// make.
    pub(crate) fn ran(&mut self, session: SessionId, units: usize, ns: u64) -> usize {
        if units == 0 {
            self.sessions.remove(&session);
            return 0;
        }
        let look = self.sessions.entry(session).or_default();
        look.due = units;
        look.credit = look.credit.saturating_add(ns).min(SAVED * PRICE);
        let paid = (look.credit / PRICE).min(units as u64);
        look.credit -= paid * PRICE;
        paid as usize
    }

    /// A session with a due check.
    pub(crate) fn next(&self) -> Option<SessionId> {
        let mut due = self.sessions.iter().filter(|(_, look)| look.due > 0);
        due.next().map(|(session, _)| *session)
    }

    /// Address from which the next unit of a session is searched, if a check is due.
    pub(crate) fn from(&self, session: SessionId) -> Option<u64> {
        let look = self.sessions.get(&session)?;
        (look.due > 0).then_some(look.next)
    }

    /// Records the check of a unit that ends at `next`. `None` means that the session has no units
    /// any more.
    pub(crate) fn looked(&mut self, session: SessionId, next: Option<u64>) {
        match (self.sessions.get_mut(&session), next) {
            (Some(look), Some(next)) => {
                look.next = next;
                look.due -= 1;
            }
            (_, None) => drop(self.sessions.remove(&session)),
            (None, Some(_)) => {}
        }
    }

    /// Removes a closed session.
    pub(crate) fn closed(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_paid_for_by_running_and_all_are_due_behind_it() {
        let (mut looks, one) = (Looks::default(), SessionId(1));
        assert_eq!(looks.ran(one, 40, PRICE - 1), 0);
        assert_eq!(looks.ran(one, 40, 1), 1);
        assert_eq!(looks.from(one), Some(0));
        looks.looked(one, Some(7));
        assert_eq!(looks.from(one), Some(7));
        assert_eq!(looks.ran(one, 40, 1_000 * PRICE), SAVED as usize);
        assert_eq!(looks.ran(one, 40, 0), 0, "they are spent");
        for _ in 0..40 {
            assert_eq!(looks.next(), Some(one));
            looks.looked(one, Some(7));
        }
        assert_eq!((looks.next(), looks.from(one)), (None, None));
        looks.due(one, 1);
        assert_eq!(looks.next(), Some(one));
        looks.looked(one, None);
        assert_eq!(looks.next(), None);
        assert_eq!(looks.ran(one, 0, PRICE), 0);
    }
}
