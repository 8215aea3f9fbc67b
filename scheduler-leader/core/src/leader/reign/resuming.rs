//! Telling the clients of sessions that go on that another reign leads.

use bus_schemas::SessionId;

use super::Reign;
use crate::leader::context::Context;
use crate::leader::event::Action;
use crate::queue::QueueOpening;

impl Reign {
    /// A session that is not told yet has to be, now.
    pub(in crate::leader) fn tell_resumed(&mut self, session: SessionId, cx: &mut Context<'_>) {
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
