//! Announcements: an outbox's intents to the leader, and its progress to leader and worker.

use bus_schemas::{
    ClientState, CloseReason, CloseRequest, Column, CostRun, Intent, OpNumber, WIRE_VERSION, limits,
};

use super::{GATHERED, GATHERED_OPS, Outbox, State};
use crate::event::{Action, Nanos};

impl Outbox {
    /// The last op that may be announced to the leader, apart from its credit: it is sent, and no
    /// transfer at or before it is under way.
    pub(super) fn announceable(&self) -> OpNumber {
        let gate = self.gates.front().map_or(u64::MAX, |(op, _)| op - 1);
        self.sent_through.min(gate)
    }

    /// True if the intents that the leader lacks, through this op, may wait for more. The session
    /// is alone on its device then, so no other session waits for it.
    pub(super) fn gathers(&mut self, now: Nanos, through: OpNumber) -> bool {
        let new = through.saturating_sub(self.announced);
        let may = self.alone && self.state == State::Open && self.runs.next() > self.announced;
        if !may || !(1..GATHERED_OPS).contains(&new) {
            self.gathering = None;
            return false;
        }
        let since = *self.gathering.get_or_insert(now);
        let gathers = now < since.saturating_add(GATHERED);
        self.gathering = self.gathering.filter(|_| gathers);
        gathers
    }

    /// Announces the ops through this one to the leader, from the first one that it must hear next.
    pub(super) fn announce(&mut self, through: OpNumber, actions: &mut Vec<Action>) {
        loop {
            // Repeated intents go alone: a message belongs to the request of its first op, and new
            // ops mostly belong to a later one.
            let through = match self.runs.next() <= self.announced {
                true => through.min(self.announced),
                false => through,
            };
            let rows = &mut self.rows;
            let Some((first, count)) = self.runs.announce(through, limits::BATCH_OPS, rows) else {
                break;
            };
            self.announced = self.announced.max(first + u64::from(count) - 1);
            let message = Intent {
                v: WIRE_VERSION,
                first,
                count,
                runs: Column::<CostRun>::new(&self.rows).unwrap_or_default(),
            };
            let bytes = self.notes.encode(&message, self.rows.len());
            actions.push(Action::PublishIntent { bytes });
        }
    }

    pub(super) fn publish_state(&mut self, actions: &mut Vec<Action>) {
        self.results_told = self.results.delivered();
        let message = ClientState {
            v: WIRE_VERSION,
            sent: self.sent_through,
            results: self.results.delivered(),
        };
        let bytes = self.notes.encode(&message, 0);
        actions.push(Action::PublishState { bytes });
    }

    pub(super) fn publish_close(&mut self, reason: CloseReason, actions: &mut Vec<Action>) {
        // The worker need not keep the last results any longer.
        if self.results.delivered() > 0 {
            self.publish_state(actions);
        }
        let message = CloseRequest {
            v: WIRE_VERSION,
            session: self.settings.session,
            after: self.last,
            // The ops of a failed session never come, so others must not wait for them.
            reason: match self.failure {
                Some(_) => CloseReason::Fault,
                None => reason,
            },
        };
        let bytes = self.notes.encode(&message, 0);
        actions.push(Action::PublishClose { bytes });
    }
}
