//! Where memory is, for leaders and for people.

use std::cmp::Reverse;

use bus_schemas::{Place, Residency, SessionId, SessionResidency, limits};

use super::{Pager, SwapTotals};
use crate::pager::session::SessionMemory;

impl Pager {
    /// What leaders are told: nothing where sessions may not hold more than fits.
    #[must_use]
    pub fn residency_report(&self) -> Option<Residency> {
        if !self.is_overcommitted() {
            return None;
        }
        let mut sessions = Vec::new();
        if self.all.held > self.capacity {
            let holds = self.sessions.iter().filter(|(_, memory)| memory.held() > 0);
            sessions.extend(holds.map(|(id, memory)| self.row(*id, memory)));
            sessions.sort_by_key(|row| (Reverse(row.bytes), row.session));
            sessions.truncate(limits::RESIDENCY_ROWS);
            sessions.sort_by_key(|row| row.session);
        }
        Some(Residency {
            limit: self.limit,
            ns_per_mib: self.swap.ns_per_mib,
            sessions,
        })
    }

    /// Where the memory of a session is, if it is not simply on the device.
    #[must_use]
    pub fn residency_of(&self, session: SessionId) -> Option<SessionResidency> {
        let memory = self.sessions.get(&session)?;
        let row = self.row(session, memory);
        (row.pinned || row.place != Place::Resident).then_some(row)
    }

    fn row(&self, session: SessionId, memory: &SessionMemory) -> SessionResidency {
        SessionResidency {
            session,
            bytes: memory.held(),
            place: memory.swap.place,
            pinned: memory.swap.pinned || self.pinned_tenants.contains(&memory.tenant),
        }
    }

    /// Moves so far.
    #[must_use]
    pub fn swap_totals(&self) -> SwapTotals {
        self.swap.totals
    }

    /// Bytes that all sessions may hold together, swapped out or not.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }
}
