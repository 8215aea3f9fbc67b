//! The clients that are owed an acknowledgement.

use bus_schemas::SessionId;

use crate::Nanos;

/// Sessions with clients that are owed an acknowledgement, each once.
#[derive(Debug, Default)]
pub(super) struct Acks {
    sessions: Vec<SessionId>,
    /// Time since which the first of them waits.
    since: Nanos,
    /// True if the next ones must not wait.
    urgent: bool,
}

impl Acks {
    /// Adds a session.
    pub(super) fn add(&mut self, now: Nanos, session: SessionId) {
        if self.sessions.is_empty() {
            self.since = now;
        }
        self.sessions.push(session);
    }

    /// Notes that the acknowledgements must not wait.
    pub(super) fn urge(&mut self) {
        self.urgent = true;
    }

    /// The time at which they are due, where one waits at most `wait`.
    pub(super) fn due(&self, wait: Nanos) -> Option<Nanos> {
        (!self.sessions.is_empty()).then(|| self.since + wait)
    }

    /// Takes the sessions if their acknowledgements are due.
    pub(super) fn take(&mut self, now: Nanos, wait: Nanos) -> Vec<SessionId> {
        let due = self.due(wait);
        if due.is_none_or(|at| !self.urgent && now < at) {
            return Vec::new();
        }
        self.urgent = false;
        std::mem::take(&mut self.sessions)
    }
}
