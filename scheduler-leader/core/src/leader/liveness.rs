//! Liveness, as a candidate judges it: its own, its connection's, and that of peers with
//! connections that the broker reports as closed.

use bus_schemas::subject::{Author, ConnectionName};

use super::Leader;
use super::event::Action;
use crate::time::Nanos;

impl Leader {
    /// Notes how late the candidate is for its deadline. A candidate that stood still heard no
    /// peer: that time does not count as silence.
    pub(super) fn wake(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let by = now.saturating_sub(self.last);
        if let Some(due) = self.next_wakeup() {
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

    /// Notes that its own heartbeat came back: other messages are as late.
    pub(super) fn echoed(&mut self, now: Nanos) {
        if let Some(before) = self.echoed_at.replace(now) {
            let due = before.saturating_add(self.config.beat);
            self.lateness.note(now, now.saturating_sub(due));
        }
    }

    /// Notes that the store answered.
    pub(super) fn stored(&mut self, now: Nanos) {
        self.stored_at.get_or_insert(now);
        let since = self.unstored_at.take();
        if let (Some(since), Some(servers)) = (since, &self.config.cluster_of) {
            let away = now.saturating_sub(since);
            if away >= servers.choice {
                // Our server was cut off: it passed us no messages of the others' workers.
                self.members.heard_nothing(now, away);
            }
        }
    }

    /// Notes that the store did not answer.
    pub(super) fn unstored(&mut self, now: Nanos) {
        self.stored_at = None;
        self.unstored_at.get_or_insert(now);
    }

    pub(super) fn connected(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let away = match self.connected_at.replace(now) {
            Some(_) => 0,
            None => now.saturating_sub(self.left_at),
        };
        self.echoed_at = None;
        self.election.connected(now);
        match &self.config.cluster_of {
            None => self.members.connected(now),
            Some(_) => self.members.connected_again(now, away),
        }
        self.signs.connected(now, &self.config);
        self.term_with(now, actions, |term, cx| {
            term.publisher.connected = true;
            term.clients.connected(cx);
            None
        });
    }

    pub(super) fn disconnected(&mut self, now: Nanos) {
        if self.connected_at.take().is_some() {
            self.left_at = now;
        }
        if let Some(term) = &mut self.term {
            term.publisher.connected = false;
        }
    }

    /// Handles a closed connection. Its name tells its owner only if the login may use that name.
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
                if self.config.cluster_of.is_none() {
                    // A worker that dies is heard until then. A worker that was not heard may have
                    // left a server that was late.
                    let unheard = self.members.unheard(now, worker);
                    let late = unheard.saturating_sub(self.config.worker_beat);
                    self.lateness.note(now, late);
                }
                let listens = |at: Nanos| now >= at.saturating_add(self.config.grace);
                let counts = match &self.config.cluster_of {
                    None => self.connected_at.is_some_and(listens),
                    Some(_) => true,
                };
                if self.term.is_none() && counts {
                    // If we lead next, we know that it went.
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
