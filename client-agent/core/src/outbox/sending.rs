//! Sending: batches, announcements and transfers, each repeated until it is answered.

use bus_schemas::{ClientState, CloseReason, CloseRequest, OpNumber, WIRE_VERSION};

use super::{Outbox, State};
use crate::event::{Action, Nanos};

impl Outbox {
    /// Resends the messages that are due.
    pub(super) fn resend(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let mut tell = false;
        if self.retries.to_worker.fire(now) {
            self.batches.resend(actions);
            self.staging.resend(actions);
            // The lost message may have been credit.
            tell |= self.batches.are_received();
        }
        if self.retries.to_leader.fire(now) {
            let more = self.announceable() > self.leader.queued();
            if !self.leader.rewind() && self.failure.is_none() && more {
                // The lost message may have been credit; a repeated op asks for it.
                self.leader.ask(&mut self.notes, actions);
            }
            if let State::Asked(reason) = self.state {
                self.publish_close(reason, actions);
            }
        }
        tell |= self.retries.from_worker.fire(now);
        tell |= self.retries.tell_results.fire(now);
        if tell {
            self.publish_state(actions);
        }
    }

    /// Sends all that may be sent and begins to wait for the answers.
    pub(super) fn advance(&mut self, now: Nanos, flush: bool, actions: &mut Vec<Action>) {
        let mut more = false;
        if self.failure.is_none() {
            let start = actions.len();
            let delivered = self.answers.delivered();
            if self.batches.send(flush, delivered, actions) {
                self.answers.tell();
            }
            let batches = actions.len() - start;
            let new = (now, self.announceable(), self.state == State::Open);
            self.leader.announce_new(new, &mut self.notes, actions);
            if !self.leader.is_alone() {
                // The leader's path to the worker is the longer one, so its message goes first.
                let new = actions.get_mut(start..).unwrap_or_default();
                new.rotate_left(batches);
            }
            more = self.staging.send(actions);
        } else {
            self.leader.stop_gathering();
        }
        if let State::Closing(reason) = self.state {
            // The worker forgets results with the session, so the results come first.
            let waits = reason == CloseReason::Asked && self.answers.first_waiting().is_some();
            if !waits {
                self.state = State::Asked(reason);
                self.publish_close(reason, actions);
            }
        }
        self.wait(now, more);
    }

    /// Starts, continues or ends the wait for answers; `more` if chunks of transfers were sent.
    fn wait(&mut self, now: Nanos, more: bool) {
        let starved = self.staging.still_starves();
        let moving = !self.batches.are_received() || self.staging.is_busy();
        let worker = moving || self.batches.are_due() || starved;
        let closing = matches!(self.state, State::Asked(_));
        let leader = closing || self.announceable() > self.leader.queued();
        let waiting = self.answers.first_waiting();
        let results = waiting.is_some_and(|op| op <= self.batches.sent_through());
        let untold = self.answers.are_untold();
        let live = self.failure.is_none();
        let missing = self.failing.is_some();
        let retries = &mut self.retries;
        // Megabytes that wait in the broker are not lost; if resent, they would wait there twice.
        retries.to_worker.allow(now, self.staging.transit(), more);
        retries.to_worker.arm(now, live && worker);
        retries.to_leader.arm(now, closing || live && leader);
        retries.from_worker.arm(now, live && (results || missing));
        retries.tell_results.arm(now, live && untold);
    }

    /// The last op that may be announced to the leader, apart from its credit: it is sent, and no
    /// transfer at or before it is under way.
    fn announceable(&self) -> OpNumber {
        self.batches.sent_through().min(self.staging.arrived())
    }

    fn publish_state(&mut self, actions: &mut Vec<Action>) {
        self.answers.tell();
        let message = ClientState {
            v: WIRE_VERSION,
            sent: self.batches.sent_through(),
            results: self.answers.delivered(),
        };
        let bytes = self.notes.encode(&message, 0);
        actions.push(Action::PublishState { bytes });
    }

    fn publish_close(&mut self, reason: CloseReason, actions: &mut Vec<Action>) {
        // The worker need not keep the last results any longer.
        if self.answers.delivered() > 0 {
            self.publish_state(actions);
        }
        let message = CloseRequest {
            v: WIRE_VERSION,
            session: self.settings.session,
            after: self.batches.last(),
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
