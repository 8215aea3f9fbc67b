//! The times at which a session's units are checked for pages that it has written since.
//!
//! A look at a unit reads 256 rows of the process's page table: some ten microseconds. While there is
//! work, a session's units are looked at in turn, one for every [`PRICE`] that the session has run:
//! that is a fiftieth of its time at most. When there is none, what is due is looked at bit by bit.

use std::collections::BTreeMap;

use bus_schemas::SessionId;

/// Nanoseconds that a session runs for a look at one of its units.
const PRICE: u64 = 2_000_000;
/// Looks that a session saves up at most: what comes behind its slice does not wait for more.
const SAVED: u64 = 8;

#[derive(Debug, Clone, Copy, Default)]
struct Look {
    /// Where the next one is.
    next: u64,
    /// Units that may have been written since they were looked at.
    due: usize,
    /// Nanoseconds run that no look was made for.
    credit: u64,
}

/// The looks at all sessions of a device.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    sessions: BTreeMap<SessionId, Look>,
}

impl Looks {
    /// All of a session's units are to be looked at.
    pub(crate) fn due(&mut self, session: SessionId, units: usize) {
        self.sessions.entry(session).or_default().due = units;
    }

    /// A session that has so many units has run for `ns`. Gives how many looks it has paid for.
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

    /// A session with a look that is due.
    pub(crate) fn next(&self) -> Option<SessionId> {
        let mut due = self.sessions.iter().filter(|(_, look)| look.due > 0);
        due.next().map(|(session, _)| *session)
    }

    /// From which address on to look at a session, if a look is due.
    pub(crate) fn from(&self, session: SessionId) -> Option<u64> {
        let look = self.sessions.get(&session)?;
        (look.due > 0).then_some(look.next)
    }

    /// The unit of a session was looked at that ends before `next`; none is left where there is no
    /// such unit.
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

    /// A session is no more.
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
