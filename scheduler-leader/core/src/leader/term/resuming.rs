//! Resumption from the term before: the knowledge of a leader that takes over from itself, and sessions,
//! whose clients are to learn that another term leads.

use bus_schemas::SessionId;

use super::Term;
use crate::leader::attainment::Attainments;
use crate::leader::clients::Signs;
use crate::leader::context::Context;
use crate::leader::event::Action;
use crate::queue::QueueOpening;
use crate::time::Nanos;

/// Sessions that announced ops so lately go on first where a leader takes over from itself.
const LATELY: Nanos = 100_000_000;

/// What a leader that takes over from itself need not find out anew.
#[derive(Debug)]
pub(in crate::leader) struct Known {
    attainments: Attainments,
    at_work: Vec<SessionId>,
    signs: Signs,
    listening_since: Nanos,
}

impl Term {
    /// It ends, and the next is of the same leader: what that goes on with.
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

    /// The term before was ours. What takes a while to be sure of (who is silent, which workers there
    /// are) is counted on: epochs may be shorter than that.
    pub(in crate::leader) fn go_on(&mut self, known: Known) {
        self.attainments.go_on(known.attainments);
        known.at_work.iter().for_each(|it| self.resumed.want(*it));
        self.clients.go_on(known.signs);
        self.listening_since = known.listening_since;
    }

    /// A session that is not told yet has to be, now.
    pub(in crate::leader) fn announce_resumed(&mut self, session: SessionId, cx: &mut Context<'_>) {
        if let Some(opening) = self.resumed.take(session) {
            self.resume(opening, cx);
        }
    }

    /// Opens the queue of a session that goes on, and hands it the intents that came early.
    pub(in crate::leader) fn resume(&mut self, opening: QueueOpening, cx: &mut Context<'_>) {
        let (session, early) = (opening.session, self.resumed.early(&opening));
        cx.actions.push(Action::QueueOpen(opening));
        let intents = early.into_iter();
        let intents = intents.map(|bytes| Action::QueueIntent { session, bytes });
        cx.actions.extend(intents);
    }
}
