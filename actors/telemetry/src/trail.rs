//! The arrivals of a session's ops: the ops of each message and their time. The leader measures the time in its
//! queues with them.

use std::collections::VecDeque;
use std::time::Instant;

use bus_schemas::OpNumber;

/// Maximum number of marks of a session; beyond it the oldest is dropped. A client that never gets
/// a grant must not make the leader grow.
const MARKS: usize = 4096;

/// Ops that arrived in one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrailMark {
    /// The first op that had not arrived before.
    pub first: OpNumber,
    /// The last op.
    pub last: OpNumber,
    /// Time of arrival.
    pub received: Instant,
}

impl TrailMark {
    /// Number of ops.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// One session's marks, in op order. Holds no memory before the first mark.
#[derive(Debug, Default)]
pub struct Trail {
    marks: VecDeque<TrailMark>,
    marked: OpNumber,
    /// The first mark that was dropped and has not ended.
    dropped: Option<TrailMark>,
}

impl Trail {
    /// Marks the ops `first..=last` of a message. Ops that arrived before are not marked again.
    pub fn received(&mut self, first: OpNumber, last: OpNumber, now: Instant) {
        let Some(unmarked) = self.marked.checked_add(1) else {
            return;
        };
        let first = first.max(unmarked);
        if last < first {
            return;
        }
        if self.marks.len() == MARKS {
            let dropped = self.marks.pop_front();
            self.dropped = self.dropped.or(dropped);
        }
        self.marked = last;
        self.marks.push_back(TrailMark {
            first,
            last,
            received: now,
        });
    }

    /// Returns the time at which the oldest ops arrived that have not ended.
    #[must_use]
    pub fn oldest(&self) -> Option<Instant> {
        let oldest = self.dropped.as_ref().or(self.marks.front());
        oldest.map(|mark| mark.received)
    }

    /// Ends the ops up to `last`: yields the marks that end with them, oldest first, and drops
    /// them. Marks that are not taken from the iterator are kept.
    pub fn through(&mut self, last: OpNumber) -> impl Iterator<Item = TrailMark> + '_ {
        self.dropped = self.dropped.filter(|mark| mark.last > last);
        std::iter::from_fn(move || self.marks.pop_front_if(|mark| mark.last <= last))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_resend_is_marked_once_and_a_gap_is_no_mark() {
        let now = Instant::now();
        let mut trail = Trail::default();
        trail.received(1, 4, now);
        trail.received(1, 4, now);
        trail.received(3, 6, now);
        trail.received(9, 9, now);
        let ranges = |marks: Vec<TrailMark>| -> Vec<_> {
            marks
                .iter()
                .map(|mark| (mark.first, mark.last, mark.ops()))
                .collect()
        };
        assert_eq!(trail.oldest(), Some(now));
        assert_eq!(ranges(trail.through(5).collect()), [(1, 4, 4)]);
        assert_eq!(ranges(trail.through(9).collect()), [(5, 6, 2), (9, 9, 1)]);
        assert_eq!(trail.through(u64::MAX).count(), 0);
        assert_eq!(trail.oldest(), None);
    }

    #[test]
    fn a_session_that_gets_nothing_is_bounded() {
        let mut trail = Trail::default();
        let first = Instant::now();
        trail.received(1, 1, first);
        for op in 2..=3 * MARKS as u64 {
            trail.received(op, op, Instant::now());
        }
        assert_eq!(
            trail.oldest(),
            Some(first),
            "the age is that of a dropped mark"
        );
        assert_eq!(trail.through(u64::MAX).count(), MARKS);
        trail.received(u64::MAX, u64::MAX, Instant::now());
        trail.received(u64::MAX, u64::MAX, Instant::now());
        assert_eq!(trail.through(u64::MAX).count(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_op_is_marked_once_and_in_order(
            batches in proptest::collection::vec((1u64..60, 0u64..10), 0..40),
            cuts in proptest::collection::vec(0u64..80, 0..10),
        ) {
            let now = Instant::now();
            let mut trail = Trail::default();
            for (first, more) in &batches {
                trail.received(*first, first + more, now);
            }
            let mut last = 0;
            for cut in cuts.into_iter().chain([u64::MAX]) {
                for mark in trail.through(cut) {
                    prop_assert!(mark.first > last && mark.last >= mark.first && mark.last <= cut);
                    last = mark.last;
                }
            }
            let most = batches.iter().map(|(first, more)| first + more).max();
            prop_assert_eq!(last, most.unwrap_or(0));
        }
    }
}
