//! A session's deadline: it gives up on a broker, leader or worker that it waits for too long.
//!
//! Silence counts only while the session waits for an answer, and only in steps in which this side
//! was awake. So a stopped program or a busy machine causes no failure. Any answer ends the
//! silence. A worker answers while it runs a long kernel, and a leader while it grants nothing, so
//! a wait for either continues.

use bus_schemas::{CloseReason, Code, Failure};

use super::{Outbox, State};
use crate::event::{Action, Nanos};

/// The most that counts between two looks; during a wait there are several looks a second.
const STEP: Nanos = 1_000_000_000;
/// Divisor of the deadline: after this part, the leader is asked if it is there.
const ASKS: Nanos = 8;
/// Number of deadlines that a leader may be silent while granted ops run, which need no leader.
const GRANTED: Nanos = 20;

impl Outbox {
    /// Adds up the silence until now, and asks or gives up if there is too much of it.
    pub(super) fn count_silence(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let deadline = self.settings.deadline;
        let step = now.saturating_sub(self.silence.looked).min(STEP);
        self.silence.looked = now;
        if deadline == Nanos::MAX || self.state == State::Ended {
            return;
        }
        let retries = &self.retries;
        let worker = retries.to_worker.due().is_some() || retries.from_worker.due().is_some();
        // Announced ops wait for a grant, or run.
        let waiting = self.answers.first_waiting();
        let waiting = waiting.filter(|_| self.failure.is_none());
        let announced = waiting.is_some_and(|op| op <= self.leader.queued());
        let unanswered = retries.to_leader.due().is_some();
        let leader = announced || unanswered;
        let granted = !unanswered && waiting.is_some_and(|op| op <= self.leader.granted());
        let patience = deadline.saturating_mul(if granted { GRANTED } else { 1 });
        let silence = &mut self.silence;
        let count = |silent: &mut Nanos, waits: bool, now: bool| match waits {
            true => *silent += if now { step } else { 0 },
            false => *silent = 0,
        };
        count(&mut silence.broker, worker || leader, silence.down);
        count(&mut silence.worker, worker, !silence.down);
        count(&mut silence.leader, leader, !silence.down);
        let seconds = deadline as f64 / 1e9;
        let failure = if silence.broker >= deadline {
            let detail = format!("the broker has not been reachable for {seconds} s");
            Failure::new(Code::NoBroker, detail)
        } else if silence.leader >= patience {
            let seconds = patience as f64 / 1e9;
            let detail = format!("no leader of the cluster has answered for {seconds} s");
            Failure::new(Code::NoLeader, detail)
        } else if silence.worker >= deadline {
            let detail = format!("the session's worker has not answered for {seconds} s");
            Failure::new(Code::Unanswered, detail)
        } else {
            if announced && silence.leader >= silence.ask.max(deadline / ASKS) {
                silence.ask = silence.leader + STEP;
                self.leader.ask(&mut self.notes, actions);
            }
            return;
        };
        self.give_up(failure, actions);
    }

    /// Fails the session, and has it closed once a leader is there to do so; a session that waits
    /// for its close has ended.
    fn give_up(&mut self, mut failure: Failure, actions: &mut Vec<Action>) {
        failure.detail += " (client.deadline)";
        // The session is over, even if the peer returns.
        failure.retryable = false;
        self.silence.forgive();
        if matches!(self.state, State::Asked(_)) {
            self.failing = None;
            self.end(failure, actions);
            return;
        }
        self.failing = None;
        self.fail(0, failure, actions);
        self.state = State::Closing(CloseReason::Fault);
    }
}
