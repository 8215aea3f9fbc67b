//! The failure of a session, and its end.

use super::*;

impl Outbox {
    /// Nothing more runs: whoever waits is told why, and nothing is sent but the close.
    pub(super) fn fail(&mut self, op: OpNumber, failure: Failure, actions: &mut Vec<Action>) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(failure.clone());
        self.columns = Columns::default();
        self.sent = VecDeque::new();
        self.unreceived = 0;
        self.transfers.clear();
        self.gates = VecDeque::new();
        self.copies = VecDeque::new();
        self.runs.clear();
        self.results.clear();
        self.batches = Buffers::default();
        actions.push(Action::Failed { op, failure });
    }

    /// Fails where that was put off and what it waited for is here, or has not come.
    pub(super) fn fail_if_due(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let due = |it: &Failing| self.results.delivered() >= it.results || now >= it.until;
        if self.failing.as_ref().is_some_and(due) {
            self.fail_now(actions);
        }
    }

    /// Fails with what was put off, whether or not all that it waited for is here.
    pub(super) fn fail_now(&mut self, actions: &mut Vec<Action>) {
        if let Some(failing) = self.failing.take() {
            self.fail(failing.op, failing.failure, actions);
            if let Some(failure) = failing.ended {
                self.end(failure, actions);
            }
        }
    }

    /// The session is gone: whoever waits is told why, once a failure has waited for its results.
    pub(super) fn end(&mut self, failure: Failure, actions: &mut Vec<Action>) {
        if let Some(failing) = &mut self.failing {
            failing.ended = Some(failure);
            return;
        }
        let asked = matches!(self.state, State::Asked(_));
        if !asked || self.results.first_waiting().is_some() {
            self.fail(0, failure, actions);
        }
        self.state = State::Ended;
        self.gathering = None;
        for retry in self.retries_mut() {
            retry.arm(0, false);
        }
        self.notes = Buffers::default();
        actions.push(Action::Ended);
    }
}
