//! Liveness, as a candidate judges it: its own, its connection's, and that of those whose connections the
//! broker says were closed.

use bus_schemas::subject::{Author, ConnectionName};

use super::Leader;
use super::event::Action;
use crate::time::Nanos;

impl Leader {
    /// Notes how late it is for what it wanted to do by now. A candidate that stood still heard no peer: that
    /// time does not count as silence.
    pub(super) fn wake(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let by = now.saturating_sub(self.last);
        if let Some(due) = self.deadline() {
            self.lateness
                .note(now, now.saturating_sub(due.max(self.last)));
            if by >= self.config.stall && self.connected_at.is_some() {
                self.election.stood_still(by);
                self.members.stood_still(by);
                self.signs.stood_still(by);
                self.echoed_at = None;
                self.term_with(now, actions, |term, _| {
                    term.clients.stood_still(by);
                    None
                });
            }
        }
        self.last = now;
        let (silence, most) = (self.config.silence, self.config.silence_most);
        let silence = self.lateness.patience(now, silence, most);
        self.election.bear(silence);
    }

    /// Its own heartbeat came back: so late is what it hears.
    pub(super) fn echoed(&mut self, now: Nanos) {
        if let Some(before) = self.echoed_at.replace(now) {
            let due = before.saturating_add(self.config.beat);
            self.lateness.note(now, now.saturating_sub(due));
        }
    }

    pub(super) fn connected(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        self.connected_at = Some(now);
        self.echoed_at = None;
        self.election.connected(now);
        self.members.connected(now);
        self.signs.connected(now, &self.config);
        self.term_with(now, actions, |term, cx| {
            term.publisher.connected = true;
            term.clients.connected(cx);
            None
        });
    }

    pub(super) fn disconnected(&mut self) {
        self.connected_at = None;
        if let Some(term) = &mut self.term {
            term.publisher.connected = false;
        }
    }

    /// A name says who was connected only where the login is that one's to use.
    pub(super) fn connection_closed(
        &mut self,
        now: Nanos,
        name: &str,
        author: &Author,
        actions: &mut Vec<Action>,
    ) {
        match (author, name.parse()) {
            (Author::Cluster, Ok(ConnectionName::Leader(id))) => {
                self.election.closed(now, id, &self.config, &self.lateness);
            }
            (Author::Cluster, Ok(ConnectionName::Worker(worker))) => {
                let listens = |at: Nanos| now >= at.saturating_add(self.config.grace);
                if self.term.is_none() && self.connected_at.is_some_and(listens) {
                    // Should we lead next, we know that it went.
                    self.members.closed(now, worker);
                }
                self.term_with(now, actions, |term, cx| {
                    term.worker_closed(worker, cx);
                    None
                });
            }
            (Author::Cluster | Author::Tenant(_), _) => {
                self.signs
                    .connection_closed(now, name, author, &self.config);
                self.term_with(now, actions, |term, cx| {
                    term.clients.connection_closed(name, author, cx);
                    None
                });
            }
            (Author::Unknown, _) => {}
        }
    }
}
