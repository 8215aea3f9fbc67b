//! Reports of the places of memory, for leaders and for users.

use std::cmp::Reverse;

use bus_schemas::{Place, Residency, SessionId, SessionResidency, SwapStatus, limits};

use device::SwapUse;

use super::Pager;
use crate::pager::session::SessionMemory;

impl Pager {
    /// Returns the report for leaders; `None` if sessions may not hold more than fits.
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

    /// Bytes of these sessions that are swapped out.
    #[must_use]
    pub fn swapped<'a>(&self, sessions: impl IntoIterator<Item = &'a SessionId>) -> u64 {
        let sessions = sessions.into_iter().filter_map(|id| self.sessions.get(id));
        let out = sessions.filter(|memory| memory.swap.place == Place::Out);
        out.map(SessionMemory::held).sum()
    }

    /// Returns the place of a session's memory; on the device if the session is not known.
    #[must_use]
    pub fn place_of(&self, session: SessionId) -> Place {
        let memory = self.sessions.get(&session);
        memory.map_or(Place::Resident, |memory| memory.swap.place)
    }

    fn row(&self, session: SessionId, memory: &SessionMemory) -> SessionResidency {
        SessionResidency {
            session,
            bytes: memory.held(),
            place: memory.swap.place,
            pinned: memory.swap.pinned || self.pinned_tenants.contains(&memory.tenant),
        }
    }

    /// Takes the device's report of the use of the swap space.
    pub fn swap_used(&mut self, used: SwapUse) {
        self.swap.used = used;
    }

    /// Returns the state of swapping, with those of these sessions that are not simply on the device. `None`
    /// if sessions may not hold more than fits.
    #[must_use]
    pub fn swap_status<'a>(
        &self,
        sessions: impl IntoIterator<Item = &'a SessionId>,
    ) -> Option<SwapStatus> {
        let (totals, used) = (self.moves, self.swap.used);
        let rows = sessions.into_iter().filter_map(|session| {
            let memory = self.sessions.get(session)?;
            let row = self.row(*session, memory);
            (row.pinned || row.place != Place::Resident).then_some(row)
        });
        self.is_overcommitted().then(|| SwapStatus {
            limit: self.limit,
            memory: used.memory,
            file: used.file,
            outs: (totals.outs, totals.out_bytes),
            ins: (totals.ins, totals.in_bytes),
            waited_ns: totals.waited_ns,
            moving: used.moving,
            sessions: rows.collect(),
        })
    }
}
