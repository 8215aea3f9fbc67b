//! The failure of a session, and its end.

use bus_schemas::{Failure, OpNumber};

use super::{Failing, Outbox, State};
use crate::buffer::Buffers;
use crate::event::{Action, Nanos};

impl Outbox {
    /// Fails the session: all waiting callers get the failure, and nothing but the close is sent.
    pub(super) fn fail(&mut self, op: OpNumber, failure: Failure, actions: &mut Vec<Action>) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(failure.clone());
        self.batches.clear();
        self.staging.clear();
        self.leader.clear();
        self.answers.clear();
        actions.push(Action::Failed { op, failure });
    }

    /// Reports a delayed failure once its results have arrived, or its time is up.
    pub(super) fn fail_if_due(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let due = |it: &Failing| self.answers.delivered() >= it.results || now >= it.until;
        if self.failing.as_ref().is_some_and(due) {
            self.fail_now(actions);
        }
    }

    /// Reports a delayed failure now, even if results are missing.
    pub(super) fn fail_now(&mut self, actions: &mut Vec<Action>) {
        if let Some(failing) = self.failing.take() {
            self.fail(failing.op, failing.failure, actions);
            if let Some(failure) = failing.ended {
                self.end(failure, actions);
            }
        }
    }

    /// Ends the session: all waiting callers get the failure. If a failure waits for its results,
    /// that comes first.
    pub(super) fn end(&mut self, failure: Failure, actions: &mut Vec<Action>) {
        if let Some(failing) = &mut self.failing {
            failing.ended = Some(failure);
            return;
        }
        let asked = matches!(self.state, State::Asked(_));
        if !asked || self.answers.first_waiting().is_some() {
            self.fail(0, failure, actions);
        }
        self.state = State::Ended;
        self.leader.stop_gathering();
        self.retries.stop();
        self.notes = Buffers::default();
        actions.push(Action::Ended);
    }
}
