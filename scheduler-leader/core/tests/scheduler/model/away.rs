//! The naive view of sessions' memory: the sessions that are away, by reports and returns.

use std::collections::BTreeMap;

use bus_schemas::{Grant, GrantKind, Incarnation, Outcome, Place, SessionResidency};
use scheduler_leader_core::{Input, Rows};

use super::Model;

impl Model {
    /// A worker reports what its sessions hold, and where. Without rows, all of it fits.
    pub(crate) fn tell_memory(
        &mut self,
        incarnation: Incarnation,
        ns_per_mib: u64,
        rows: Vec<SessionResidency>,
    ) {
        self.apply(Input::Residency {
            incarnation,
            limit: 16 << 30,
            ns_per_mib,
            sessions: Rows(rows),
        });
    }

    /// Notes an input that was applied; its effects are looked at next.
    pub(super) fn observe_memory(&mut self, input: &Input) {
        match input {
            // A new leader does not know it.
            Input::Takeover(_) => self.memory.away.clear(),
            Input::Residency {
                incarnation,
                sessions,
                ..
            } => {
                // The last of several rows of a session counts.
                let rows: BTreeMap<_, _> =
                    sessions.0.iter().map(|row| (row.session, row)).collect();
                for (id, row) in rows {
                    let own = self.sessions.get(&id);
                    let own = own.is_some_and(|session| session.worker == *incarnation);
                    let out = matches!(row.place, Place::Out | Place::Leaving);
                    if own && out {
                        self.memory.away.insert(id);
                    }
                }
            }
            Input::Done {
                incarnation,
                reports,
            } => {
                for report in &reports.0 {
                    let returned = (*incarnation, report.position);
                    if let Some(session) = self.memory.returns.remove(&returned)
                        && report.outcome == Outcome::Ran
                    {
                        self.memory.away.remove(&session);
                    }
                }
            }
            _ => {}
        }
    }

    /// Checks a grant against the known place of its session's memory.
    pub(super) fn check_memory(&mut self, incarnation: Incarnation, position: u64, grant: &Grant) {
        let id = grant.session;
        match grant.kind {
            GrantKind::Run | GrantKind::Standing => {
                assert!(!self.memory.away.contains(&id), "{id} runs and is away");
            }
            GrantKind::Return => {
                let again = self.memory.returns.values().any(|other| *other == id);
                assert!(!again, "{id} returns twice");
                self.memory.returns.insert((incarnation, position), id);
            }
            GrantKind::Open | GrantKind::Close | GrantKind::Revoke => {}
        }
    }

    /// Checks that no standing grant is open beside sessions that wait for memory.
    pub(super) fn check_standing(&self) {
        for (id, session) in &self.sessions {
            let view = self.scheduler.session(*id);
            if self.workers[&session.worker].open && view.is_some_and(|view| view.waiting) {
                panic!("{id} waits beside a standing grant");
            }
        }
    }
}
