//! The bytes that are committed to one session: it allocates them without asking.
//!
//! A client lowers its commitment as of an op: what it freed before may not have run yet, and what it
//! allocated before that neither. So the higher figure holds until that op is done.

use std::collections::VecDeque;

use bus_schemas::OpNumber;

use crate::Nanos;

/// What is committed to a session.
#[derive(Debug, Default)]
pub(super) struct Commitment {
    /// The number of its client's newest request.
    pub(super) number: u64,
    /// Behind which op it holds at most how much, by op; the last is what the client goes by.
    steps: VecDeque<(OpNumber, u64)>,
    /// The session's ops through this one are done.
    done: OpNumber,
    /// Bytes that the session held at that request, by its client's word.
    pub(super) held: u64,
    /// Since when its client is asked to give back what it does not use; none once it has answered.
    pub(super) recalled: Option<Nanos>,
    /// The most that the session has had allocated since it was asked last, if it was since its
    /// commitment rose.
    asked_at: Option<u64>,
}

impl Commitment {
    /// Bytes that nobody else may have.
    pub(super) fn bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.1).max().unwrap_or(0)
    }

    /// Bytes that its client goes by.
    pub(super) fn last(&self) -> u64 {
        self.steps.back().map_or(0, |step| step.1)
    }

    /// Whether its client may have something to give back, as far as is known, and is to be asked: it
    /// said so, or has freed some of the `live` bytes since it was asked. One that has not answered
    /// since then is not asked again. If so, it counts as asked.
    pub(super) fn ask(&mut self, now: Nanos, since: Nanos, live: u64) -> bool {
        let has_freed = |most: u64| live < most.min(self.last());
        let may_have = self.last() > self.held || self.asked_at.is_some_and(has_freed);
        let asks = may_have && self.recalled.is_none_or(|at| at < since);
        if asks {
            (self.recalled, self.asked_at) = (Some(now), Some(live));
        }
        asks
    }

    /// The session has so much allocated.
    pub(super) fn allocated(&mut self, live: u64) {
        self.asked_at = self.asked_at.map(|most| most.max(live));
    }

    /// Behind this op it is so much.
    pub(super) fn set(&mut self, after: OpNumber, bytes: u64) {
        if bytes > self.last() {
            self.asked_at = None;
        }
        // A figure that is no lower holds from the op on from which that one did.
        let mut after = after;
        while let Some(step) = self.steps.pop_back_if(|step| step.1 <= bytes) {
            after = step.0;
        }
        self.steps.push_back((after, bytes));
        self.trim();
    }

    /// The session's ops through this one are done.
    pub(super) fn done(&mut self, through: OpNumber) {
        self.done = self.done.max(through);
        self.trim();
    }

    /// Forgets figures that hold no more: the next one's op is done.
    fn trim(&mut self) {
        while self.steps.get(1).is_some_and(|step| step.0 <= self.done) {
            self.steps.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lowered_holds_until_the_op_before_is_done() {
        let mut commitment = Commitment::default();
        commitment.set(0, 100);
        commitment.set(5, 40);
        assert_eq!((commitment.bytes(), commitment.last()), (100, 40));
        commitment.done(4);
        assert_eq!(commitment.bytes(), 100);
        commitment.done(5);
        assert_eq!(commitment.bytes(), 40);
        commitment.set(9, 10);
        commitment.set(11, 60);
        assert_eq!((commitment.bytes(), commitment.last()), (60, 60));
        commitment.done(20);
        assert_eq!(commitment.bytes(), 60);
        // Of ops that are done already it holds at once.
        commitment.set(20, 30);
        assert_eq!(commitment.bytes(), 30);
    }
}
