//! Blocks that a worker keeps for a leader with a server that stores nothing, and hands over to its
//! successors. The worker reads their stored numbers and seals; that is all it knows of the record.

use bus_schemas::Epoch;
use bytes::Bytes;

use super::{TermId, Unstored, UnstoredBlock};

/// The blocks of one worker.
#[derive(Debug, Default)]
pub struct Handover {
    kept: Unstored,
    /// The last two epochs with leaders that were given all blocks of earlier epochs.
    given: [Epoch; 2],
}

/// A block for a leader that sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    /// The block.
    pub block: UnstoredBlock,
    /// Last block of its term that is stored, as far as this worker knows.
    pub stored: u64,
}

impl Handover {
    /// Takes in a leader's message: its blocks through `stored` are stored. If `number` is above 0,
    /// that block is not.
    pub fn receive(&mut self, term: TermId, stored: u64, number: u64, bytes: Bytes) {
        self.kept.receive(term, stored, number, bytes);
    }

    /// Notes that the leader of this epoch seals the worker. Returns all that is kept of earlier
    /// epochs. The next leader gets the same blocks, for this one may die before it has stored
    /// them. The third does not: they are forgotten.
    #[must_use]
    pub fn seal(&mut self, epoch: Epoch) -> Vec<HandedOver> {
        let [before, last] = self.given;
        if epoch <= last {
            return Vec::new();
        }
        self.kept.forget_before(before);
        self.given = [last, epoch];
        let blocks = self.kept.before(epoch).into_iter();
        let blocks = blocks.map(|block| HandedOver {
            stored: self.kept.stored_through(block.term),
            block,
        });
        blocks.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bus_schemas::LeaderId;
    use proptest::prelude::*;

    use super::*;

    const OWN: TermId = (3, LeaderId(1));

    fn handed(blocks: &[HandedOver]) -> Vec<(Epoch, u64, u64)> {
        let blocks = blocks.iter();
        let blocks = blocks.map(|it| (it.block.term.0, it.block.number, it.stored));
        blocks.collect()
    }

    #[test]
    fn two_leaders_get_the_blocks_and_each_once() {
        let mut kept = Handover::default();
        kept.receive(OWN, 4, 5, "five".into());
        kept.receive(OWN, 4, 6, "six".into());
        kept.receive(OWN, 5, 0, Bytes::new());
        assert_eq!(handed(&kept.seal(3)), [], "its own");
        assert_eq!(handed(&kept.seal(4)), [(3, 6, 5)]);
        assert_eq!(handed(&kept.seal(4)), [], "once");
        assert_eq!(handed(&kept.seal(5)), [(3, 6, 5)], "4 may have died");
        assert_eq!(handed(&kept.seal(6)), []);
    }

    proptest! {
        /// A block goes to each leader of a later epoch, until two such leaders have sealed. A
        /// leader that seals late, or once more, gets nothing.
        #[test]
        fn whoever_seals_next_and_the_one_after_it(
            received in prop::collection::btree_set((1..5_u64, 1..6_u64), 0..12),
            seals in prop::collection::vec(1..9_u64, 1..8),
        ) {
            let mut kept = Handover::default();
            for (epoch, number) in &received {
                kept.receive((*epoch, LeaderId(1)), 0, *number, "block".into());
            }
            let mut sealed = BTreeSet::new();
            for epoch in seals {
                let given = kept.seal(epoch);
                let is_first = sealed.last().is_none_or(|last| epoch > *last);
                let expected = received.iter().filter(|(of, _)| {
                    // The last leader but one that sealed made the worker forget the earlier
                    // blocks.
                    let before = sealed.iter().rev().nth(1);
                    is_first && *of < epoch && before.is_none_or(|before| of >= before)
                });
                let expected: Vec<_> = expected.copied().collect();
                let given: Vec<_> = handed(&given).into_iter().map(|(of, number, _)| (of, number)).collect();
                prop_assert_eq!(given, expected);
                if is_first {
                    sealed.insert(epoch);
                }
            }
        }
    }
}
