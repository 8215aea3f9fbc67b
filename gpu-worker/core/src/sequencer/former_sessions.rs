//! Sessions that are closed, and those that are forgotten.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{SessionId, Tenant};

use crate::Nanos;

/// Maximum number of forgotten sessions with names that are kept.
const NAMED: usize = 65_536;

/// Closed sessions, until they are forgotten, and the names of those that are.
#[derive(Debug, Default)]
pub(super) struct FormerSessions {
    /// In the order of their closes.
    closed: VecDeque<(Nanos, SessionId)>,
    /// Tenant and ordinal, for the chain of grants that still name the session.
    names: BTreeMap<SessionId, (Tenant, u64)>,
}

impl FormerSessions {
    /// Adds a closed session.
    pub(super) fn close(&mut self, now: Nanos, session: SessionId) {
        self.closed.push_back((now, session));
    }

    /// Time of the first close that is not forgotten.
    pub(super) fn first_close(&self) -> Option<Nanos> {
        self.closed.front().map(|(at, _)| *at)
    }

    /// Removes the closed sessions for which `is_over` holds, given the time of the close.
    pub(super) fn take(
        &mut self,
        mut is_over: impl FnMut(Nanos, SessionId) -> bool,
    ) -> Vec<SessionId> {
        let mut over = Vec::new();
        self.closed.retain(|&(at, session)| {
            let keep = !is_over(at, session);
            if !keep {
                over.push(session);
            }
            keep
        });
        over
    }

    /// Keeps the name of a forgotten session.
    pub(super) fn add(&mut self, session: SessionId, name: (Tenant, u64)) {
        if self.names.len() >= NAMED {
            self.names.pop_first();
        }
        self.names.insert(session, name);
    }

    /// Tenant and ordinal of a forgotten session.
    pub(super) fn name(&self, session: SessionId) -> Option<&(Tenant, u64)> {
        self.names.get(&session)
    }
}
