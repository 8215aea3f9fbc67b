//! The bytes committed to one session, which it allocates without asking.
//!
//! A client lowers its commitment as of an op. Frees and allocations before that op may not have run yet. So
//! the higher figure holds until that op is done.

use std::collections::VecDeque;

use bus_schemas::OpNumber;

use crate::Nanos;

/// The commitment of a session.
#[derive(Debug, Default)]
pub(super) struct Commitment {
    /// The number of its client's newest request.
    pub(super) number: u64,
    /// Upper bounds in force behind an op, by op; the client goes by the last.
    steps: VecDeque<(OpNumber, u64)>,
    /// Last op of the session that is done.
    done: OpNumber,
    recall: Recall,
}

/// A recall: a request to a client to give bytes back.
#[derive(Debug, Default)]
struct Recall {
    /// Number of the newest recall; 0 if there was none.
    number: u64,
    /// Time at which it was first sent.
    at: Nanos,
    /// Time at which it was last sent, while it is not answered.
    unanswered: Option<Nanos>,
    /// True once ops that free memory are admitted after it was sent; its answer may precede them.
    freed: bool,
}

/// Interval between repeats of an unanswered recall.
const RESEND_NS: Nanos = 200_000_000;
/// Time that a client has to give back unused bytes, before these count as held.
const PATIENCE_NS: Nanos = 2_000_000_000;

impl Recall {
    fn is_since(&self, since: Nanos) -> bool {
        self.number > 0 && self.at >= since
    }
}

impl Commitment {
    /// Bytes that no other session may have.
    pub(super) fn bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.1).max().unwrap_or(0)
    }

    /// Bytes that its client goes by.
    pub(super) fn last(&self) -> u64 {
        self.steps.back().map_or(0, |step| step.1)
    }

    /// Decides if the client is asked now for its unused bytes; it may have freed bytes that are not known
    /// yet. It is asked once after `since`, and at least `pause` after the time before. Returns the recall's
    /// number if so.
    pub(super) fn ask(&mut self, now: Nanos, since: Nanos, pause: Nanos) -> Option<u64> {
        let recall = &mut self.recall;
        let is_due = match recall.unanswered {
            Some(sent) => now.saturating_sub(sent) >= RESEND_NS,
            None => {
                let may_give = recall.freed || !recall.is_since(since);
                may_give && (recall.number == 0 || now >= recall.at + pause)
            }
        };
        if !is_due || self.steps.back().is_none_or(|step| step.1 == 0) {
            return None;
        }
        if recall.unanswered.is_none() {
            (recall.number, recall.at) = (recall.number + 1, now);
            recall.freed = false;
        }
        recall.unanswered = Some(now);
        Some(recall.number)
    }

    /// Notes that the client has obeyed the recalls through this one.
    pub(super) fn obeyed(&mut self, recall: u64) {
        if recall >= self.recall.number {
            self.recall.unanswered = None;
        }
    }

    /// Notes that ops that free memory are admitted.
    pub(super) fn freed(&mut self) {
        self.recall.freed = true;
    }

    /// The newest recall's number.
    pub(super) fn recall(&self) -> u64 {
        self.recall.number
    }

    /// Bytes that its client keeps for certain, as of `since`: 0 as long as it may still answer. If it has
    /// freed memory since it answered, at most the `live` bytes that are known.
    pub(super) fn kept(&self, now: Nanos, since: Nanos, live: u64) -> u64 {
        let recall = &self.recall;
        match recall.unanswered {
            Some(_) if now.saturating_sub(recall.at) < PATIENCE_NS => 0,
            None if !recall.is_since(since) => 0,
            None if recall.freed => self.last().min(live),
            _ => self.last(),
        }
    }

    /// Sets the bytes committed behind this op.
    pub(super) fn set(&mut self, after: OpNumber, bytes: u64) {
        // A figure that is no lower holds from the op of the figure that it replaces.
        let mut after = after;
        while let Some(step) = self.steps.pop_back_if(|step| step.1 <= bytes) {
            after = step.0;
        }
        self.steps.push_back((after, bytes));
        self.trim();
    }

    /// Notes that the session's ops through this one are done.
    pub(super) fn done(&mut self, through: OpNumber) {
        self.done = self.done.max(through);
        self.trim();
    }

    /// Forgets figures that no longer hold, because the op of the next one is done.
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
        // After ops that are done already, the figure holds at once.
        commitment.set(20, 30);
        assert_eq!(commitment.bytes(), 30);
    }

    #[test]
    fn a_client_is_asked_once_for_each_who_needs_it_and_not_waited_for_for_ever() {
        const MS: Nanos = 1_000_000;
        let mut commitment = Commitment::default();
        assert_eq!(commitment.ask(0, 0, MS), None, "it has nothing");
        commitment.set(0, 100);
        assert_eq!(commitment.kept(0, 0, 100), 0, "it was not asked");
        assert_eq!(commitment.ask(5, 5, MS), Some(1));
        assert_eq!(commitment.ask(6, 6, MS), None, "it has not answered");
        commitment.obeyed(0);
        assert_eq!(commitment.kept(7, 7, 100), 0, "that was no answer");
        assert_eq!(commitment.ask(200 * MS + 5, 6, MS), Some(1), "again");
        commitment.obeyed(1);
        let now = 200 * MS + 6;
        assert_eq!(commitment.kept(now, 5, 100), 100);
        assert_eq!(commitment.ask(now, 5, MS), None, "it was asked since");
        assert_eq!(commitment.ask(now, now, 300 * MS), None, "not so soon");
        assert_eq!(commitment.kept(now, now, 100), 0, "it will be");
        assert_eq!(commitment.ask(now, now, MS), Some(2));
        assert_eq!(commitment.kept(2_100 * MS, now, 100), 0);
        assert_eq!(commitment.kept(2_201 * MS, 2_200 * MS, 100), 100, "silent");
        assert_eq!(commitment.ask(2_201 * MS, 2_200 * MS, MS), Some(2));
        assert_eq!(commitment.kept(2_202 * MS, 2_200 * MS, 100), 100, "still");
    }

    #[test]
    fn a_client_that_frees_after_it_answered_is_asked_again() {
        const MS: Nanos = 1_000_000;
        let mut commitment = Commitment::default();
        commitment.set(0, 100);
        assert_eq!(commitment.ask(5, 5, MS), Some(1));
        commitment.obeyed(1);
        assert_eq!(commitment.kept(6, 5, 30), 100);
        commitment.freed();
        assert_eq!(commitment.kept(7, 5, 30), 30);
        assert_eq!(commitment.ask(7, 5, MS), None, "not so soon");
        assert_eq!(commitment.ask(2 * MS, 5, MS), Some(2));
        commitment.obeyed(2);
        assert_eq!(commitment.kept(3 * MS, 5, 30), 100, "that is its answer");
    }
}
