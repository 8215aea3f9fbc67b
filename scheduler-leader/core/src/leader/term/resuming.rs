//! Resumption from the previous term: the knowledge of a leader that takes over from itself, and
//! the sessions with clients that must learn of the new term.

use bus_schemas::SessionId;

use super::Term;
use crate::leader::attainment::Attainments;
use crate::leader::clients::Signs;
use crate::leader::context::Context;
use crate::leader::event::Action;
use crate::queue::QueueOpening;
use crate::time::Nanos;

/// Time before a leader takes over from itself within which a session must have announced ops to go
/// on first.
const LATELY: Nanos = 100_000_000;

/// Knowledge that a leader which takes over from itself need not gather again.
#[derive(Debug)]
pub(in crate::leader) struct Known {
    attainments: Attainments,
    at_work: Vec<SessionId>,
    signs: Signs,
    listening_since: Nanos,
}

impl Term {
    /// Ends the term and returns what the same leader's next term continues with.
    pub(in crate::leader) fn hand_on(&mut self, cx: &Context<'_>) -> Known {
        let since = cx.now.saturating_sub(LATELY);
        let none = Attainments::new(cx.now);
        Known {
            at_work: self.clients.at_work(since).collect(),
            attainments: std::mem::replace(&mut self.attainments, none),
            signs: self.clients.signs(),
            listening_since: self.listening_since,
        }
    }

    /// Continues from our previous term. Facts that take a while to be sure of (silent clients,
    /// existing workers) are carried over, for epochs may be shorter than that.
    pub(in crate::leader) fn go_on(&mut self, known: Known) {
        self.attainments.go_on(known.attainments);
        known.at_work.iter().for_each(|it| self.resumed.want(*it));
        self.clients.go_on(known.signs);
        self.listening_since = known.listening_since;
    }

    /// Tells the client of a session now, if it was not told yet.
    pub(in crate::leader) fn announce_resumed(&mut self, session: SessionId, cx: &mut Context<'_>) {
        if let Some(opening) = self.resumed.take(session) {
            self.resume(opening, cx);
        }
    }

    /// Opens the queue of a session that goes on, and hands it the early intents.
    pub(in crate::leader) fn resume(&mut self, opening: QueueOpening, cx: &mut Context<'_>) {
        let (session, early) = (opening.session, self.resumed.early(&opening));
        cx.actions.push(Action::QueueOpen(opening));
        let intents = early.into_iter();
        let intents = intents.map(|bytes| Action::QueueIntent { session, bytes });
        cx.actions.extend(intents);
    }
}
