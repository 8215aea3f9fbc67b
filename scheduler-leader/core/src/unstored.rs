//! Blocks of the record that the stream has not acknowledged: this leader's own, and those that
//! other leaders published. While the broker stores nothing, every candidate has them. So a leader
//! that dies does not take them along: its successor appends them before its own.

mod handover;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bus_schemas::{Epoch, LeaderId};
use bytes::Bytes;

use crate::time::Nanos;

pub use handover::{HandedOver, Handover};

/// Maximum bytes of blocks of others that are kept; further ones are dropped.
const OTHERS_BYTES: usize = 64 << 20;
/// Maximum number of terms that are known.
const TERMS: usize = 64;
/// Number of later terms that must have stored something before a term's blocks are given up. A
/// leader that was cut off with a server may have granted on; its blocks arrive when the server is
/// back, after others have led.
const LATER: usize = 8;
/// Time between two requests for missing blocks, and before the same is asked for again. The answer
/// is all that is not stored, and may be large. A block that it does not bring may be stored by
/// now.
const ASK_APART: Nanos = 500_000_000;
const ASK_AGAIN: Nanos = 5_000_000_000;

/// The owner of blocks: one epoch may have two leaders if a broker lost its tail.
pub type TermId = (Epoch, LeaderId);

/// A block that is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnstoredBlock {
    /// The term that it belongs to.
    pub term: TermId,
    /// Its number in the epoch, from 1.
    pub number: u64,
    /// The block, as it is in the stream.
    pub bytes: Bytes,
}

#[derive(Debug)]
struct Kept {
    bytes: Bytes,
    /// True if this candidate is appending it.
    here: bool,
    /// True if another leader sent it: such blocks are limited.
    received: bool,
}

/// One term's blocks.
#[derive(Debug, Default)]
struct Blocks {
    /// By number.
    kept: BTreeMap<u64, Kept>,
    /// Blocks through this number are stored.
    stored: u64,
    /// Numbers of stored blocks that come after one that is not stored, or that is unknown.
    ahead: BTreeSet<u64>,
    /// The last announced value of `stored`.
    announced: u64,
    /// Number of missing blocks when they were last asked for; 0 once none was missing.
    asked_for: u64,
}

impl Blocks {
    /// Number of blocks before the last one here that are neither stored nor here.
    fn missing(&self) -> u64 {
        let last = self.kept.last_key_value().map_or(0, |(number, _)| *number);
        let known = self.kept.len() + self.ahead.len();
        last.saturating_sub(self.stored)
            .saturating_sub(known as u64)
    }

    fn has_stored(&self) -> bool {
        self.stored > 0 || !self.ahead.is_empty()
    }
}

/// All blocks that are not stored.
#[derive(Debug, Default)]
pub struct Unstored {
    terms: BTreeMap<TermId, Blocks>,
    /// Bytes of the received blocks.
    others: usize,
    /// Time at which blocks were last asked for.
    asked_at: Option<Nanos>,
}

impl Unstored {
    /// Notes that a block of this candidate is appended from now on.
    pub fn append(&mut self, block: &UnstoredBlock) {
        let kept = Kept {
            bytes: block.bytes.clone(),
            here: true,
            received: false,
        };
        let blocks = self.terms.entry(block.term).or_default();
        let before = blocks.kept.insert(block.number, kept);
        self.gone(before);
    }

    /// Notes that this candidate leads in `epoch`. Returns the blocks that it must append before
    /// its own, in order, without those of its own earlier epochs that are on their way.
    pub fn take_over(&mut self, epoch: Epoch) -> Vec<UnstoredBlock> {
        let mut left = Vec::new();
        for (term, blocks) in self.terms.range_mut(..(epoch, LeaderId(0))) {
            for (number, kept) in blocks.kept.iter_mut().filter(|(_, kept)| !kept.here) {
                kept.here = true;
                left.push(UnstoredBlock {
                    term: *term,
                    number: *number,
                    bytes: kept.bytes.clone(),
                });
            }
        }
        left
    }

    /// Notes that this candidate leads no more: its appends end, and all blocks are left to the
    /// next leader.
    pub fn give_up(&mut self) {
        let blocks = self.terms.values_mut();
        let kept = blocks.flat_map(|blocks| blocks.kept.values_mut());
        kept.for_each(|kept| kept.here = false);
    }

    /// Takes in another leader's message: a term's blocks through `stored` are stored. If `number`
    /// is above 0, that block is not.
    pub fn receive(&mut self, term: TermId, stored: u64, number: u64, bytes: Bytes) {
        let is_known = self.terms.contains_key(&term);
        if self.is_over(term.0) || (!is_known && self.terms.len() >= TERMS) {
            return;
        }
        if stored > 0 {
            self.through(term, stored);
            self.forget_oldest();
        }
        let blocks = self.terms.entry(term).or_default();
        let is_new = number > blocks.stored
            && !blocks.ahead.contains(&number)
            && !blocks.kept.contains_key(&number);
        if is_new && self.others + bytes.len() <= OTHERS_BYTES {
            self.others += bytes.len();
            let kept = Kept {
                bytes,
                here: false,
                received: true,
            };
            blocks.kept.insert(number, kept);
        }
    }

    /// Notes that the stream acknowledged a block.
    pub fn stored(&mut self, term: TermId, number: u64) {
        let Some(blocks) = self.terms.get_mut(&term) else {
            return;
        };
        let stored = blocks.kept.remove(&number);
        blocks.ahead.insert(number);
        self.gone(stored);
        self.through(term, 0);
        self.forget_oldest();
    }

    /// Notes that a term's blocks are stored through `through`, and on through those stored out of
    /// order.
    fn through(&mut self, term: TermId, through: u64) {
        let blocks = self.terms.entry(term).or_default();
        blocks.stored = blocks.stored.max(through);
        while let Some(next) = blocks.stored.checked_add(1)
            && blocks.ahead.remove(&next)
        {
            blocks.stored = next;
        }
        let stored = blocks.stored;
        blocks.ahead.retain(|number| *number > stored);
        let behind = blocks.kept.extract_if(..=stored, |_, _| true);
        let behind: Vec<_> = behind.map(|(_, kept)| kept).collect();
        self.gone(behind);
    }

    /// Returns true if so many later terms have stored something that no block of this epoch is
    /// appended any more.
    fn is_over(&self, epoch: Epoch) -> bool {
        let later = (
            Bound::Excluded((epoch, LeaderId(u64::MAX))),
            Bound::Unbounded,
        );
        let stored = self.terms.range(later).filter(|(_, it)| it.has_stored());
        stored.count() >= LATER
    }

    /// Gives up the blocks of terms that are over.
    fn forget_oldest(&mut self) {
        while let Some((term, _)) = self.terms.first_key_value()
            && self.is_over(term.0)
            && let Some((_, blocks)) = self.terms.pop_first()
        {
            self.gone(blocks.kept.into_values());
        }
    }

    /// Forgets the blocks of the epochs before this one, which the worker that keeps them need not
    /// hand over any more.
    pub fn forget_before(&mut self, epoch: Epoch) {
        let kept = self.terms.split_off(&(epoch, LeaderId(0)));
        let gone = std::mem::replace(&mut self.terms, kept);
        let blocks = gone.into_values().map(|blocks| blocks.kept);
        self.gone(blocks.flat_map(BTreeMap::into_values));
    }

    /// Subtracts removed blocks from the count.
    fn gone(&mut self, blocks: impl IntoIterator<Item = Kept>) {
        let received = blocks.into_iter().filter(|kept| kept.received);
        self.others -= received.map(|kept| kept.bytes.len()).sum::<usize>();
    }

    /// All blocks that are not stored, in order.
    #[must_use]
    pub fn all(&self) -> Vec<UnstoredBlock> {
        listed(self.terms.iter())
    }

    /// All blocks of the epochs before this one that are not stored, in order.
    #[must_use]
    pub fn before(&self, epoch: Epoch) -> Vec<UnstoredBlock> {
        listed(self.terms.range(..(epoch, LeaderId(0))))
    }

    /// Returns true if it is time to ask for blocks that a term's leader announced and that were
    /// not received. A block behind a gap is of no use to a replay. It does not ask too often, nor
    /// without room for the blocks.
    pub fn is_to_ask(&mut self, now: Nanos, term: TermId) -> bool {
        let Some(blocks) = self.terms.get_mut(&term) else {
            return false;
        };
        let missing = blocks.missing();
        if missing == 0 {
            blocks.asked_for = 0;
        }
        if missing == 0 || self.others > OTHERS_BYTES / 2 {
            return false;
        }
        let apart = match missing > blocks.asked_for {
            true => ASK_APART,
            false => ASK_AGAIN,
        };
        let asked_at = self.asked_at;
        let is_due = asked_at.is_none_or(|at| now.saturating_sub(at) >= apart);
        if is_due {
            self.asked_at = Some(now);
            blocks.asked_for = missing;
        }
        is_due
    }

    /// The last of a term's blocks that are stored without a gap.
    #[must_use]
    pub fn stored_through(&self, term: TermId) -> u64 {
        self.terms.get(&term).map_or(0, |blocks| blocks.stored)
    }

    /// The terms that have stored more than was announced so far.
    pub fn newly_stored(&mut self) -> Vec<TermId> {
        let newly = self.terms.iter_mut();
        let newly = newly.filter(|(_, blocks)| blocks.stored > blocks.announced);
        let newly = newly.map(|(term, blocks)| {
            blocks.announced = blocks.stored;
            *term
        });
        newly.collect()
    }
}

fn listed<'a>(terms: impl Iterator<Item = (&'a TermId, &'a Blocks)>) -> Vec<UnstoredBlock> {
    let blocks = terms.flat_map(|(term, blocks)| {
        let kept = blocks.kept.iter();
        kept.map(|(number, kept)| UnstoredBlock {
            term: *term,
            number: *number,
            bytes: kept.bytes.clone(),
        })
    });
    blocks.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(number: u64) -> Bytes {
        Bytes::from(vec![number as u8; 1 << 10])
    }

    fn unstored(term: TermId, number: u64) -> UnstoredBlock {
        UnstoredBlock {
            term,
            number,
            bytes: block(number),
        }
    }

    fn numbers(blocks: &[UnstoredBlock]) -> Vec<(Epoch, u64)> {
        let numbers = blocks.iter().map(|block| (block.term.0, block.number));
        numbers.collect()
    }

    #[test]
    fn what_is_not_stored_is_left_to_the_next_leader() {
        let mut kept = Unstored::default();
        let (term, own) = ((3, LeaderId(7)), (4, LeaderId(8)));
        (1..=4).for_each(|number| kept.receive(term, 0, number, block(number)));
        kept.receive(term, 2, 0, Bytes::new());
        kept.receive(term, 0, 2, block(2));
        assert_eq!(kept.take_over(3), []);
        assert_eq!(numbers(&kept.take_over(4)), [(3, 3), (3, 4)]);
        // Once.
        assert_eq!(kept.take_over(4), []);
        kept.append(&unstored(own, 1));
        kept.stored(term, 4);
        assert_eq!(kept.stored_through(term), 2);
        kept.stored(term, 3);
        assert_eq!(kept.newly_stored(), [term]);
        assert_eq!(kept.stored_through(term), 4);
        assert_eq!(kept.newly_stored(), []);
        // A candidate receives its own messages too.
        kept.receive(own, 0, 1, block(1));
        assert_eq!(kept.take_over(5), [], "it is on its way");
        kept.give_up();
        assert_eq!(numbers(&kept.take_over(5)), [(4, 1)]);
        kept.stored(own, 1);
        assert_eq!(kept.newly_stored(), [own]);
    }

    #[test]
    fn what_comes_when_another_leads_is_appended_still() {
        let mut kept = Unstored::default();
        let (cut_off, own) = ((3, LeaderId(7)), (4, LeaderId(8)));
        kept.receive(cut_off, 4, 0, Bytes::new());
        kept.append(&unstored(own, 1));
        kept.stored(own, 1);
        kept.receive(cut_off, 4, 5, block(5));
        assert_eq!(numbers(&kept.before(4)), [(3, 5)]);
        assert_eq!(numbers(&kept.before(3)), []);
        assert_eq!(numbers(&kept.take_over(4)), [(3, 5)]);
        kept.stored(cut_off, 5);
        kept.receive(cut_off, 4, 5, block(5));
        assert_eq!((kept.all(), kept.others), (vec![], 0), "it is stored");
        // Enough others have led meanwhile: the term is over.
        let later = 4 + LATER as u64;
        (5..later).for_each(|epoch| kept.receive((epoch, LeaderId(8)), 1, 0, Bytes::new()));
        kept.receive(cut_off, 4, 6, block(6));
        assert_eq!((kept.all(), kept.others), (vec![], 0));
        assert_eq!(kept.terms.len(), LATER);
    }

    #[test]
    fn a_block_of_which_nothing_is_known_is_not_said_to_be_stored() {
        let mut kept = Unstored::default();
        let term = (3, LeaderId(7));
        // This candidate began to hear late: another one may have the fourth block.
        kept.receive(term, 3, 5, block(5));
        kept.take_over(4);
        kept.stored(term, 5);
        assert_eq!(kept.stored_through(term), 3);
        kept.receive(term, 4, 0, Bytes::new());
        assert_eq!(kept.stored_through(term), 5);
    }

    #[test]
    fn what_was_not_heard_is_asked_for_and_not_too_often() {
        let (mut kept, mut now) = (Unstored::default(), 0);
        let term = (3, LeaderId(7));
        let mut asks = |later, stored, number| {
            now += later;
            kept.receive(term, stored, number, block(number));
            kept.is_to_ask(now, term)
        };
        assert!(!asks(0, 10, 11));
        assert!(asks(0, 10, 13), "the 12th is missing");
        assert!(!asks(ASK_APART, 10, 14), "the same is asked for once");
        assert!(asks(ASK_APART, 10, 16), "the 15th as well");
        assert!(!asks(ASK_APART, 10, 12), "one of two has come");
        assert!(asks(ASK_AGAIN, 10, 17), "the other one has not");
        assert!(!asks(ASK_APART, 15, 0), "it is stored");
        assert!(asks(ASK_APART, 15, 19), "one is missing anew");
        assert!(!asks(1, 15, 21), "too soon");
        assert!(asks(ASK_APART, 15, 22));
        // Without room for the missing blocks, the candidate does not ask again and again.
        let large = Bytes::from(vec![0; 1 << 20]);
        (30..70).for_each(|number| kept.receive(term, 15, number, large.clone()));
        assert!(!kept.is_to_ask(Nanos::MAX, term));
        assert!(!kept.is_to_ask(Nanos::MAX, (4, LeaderId(7))));
    }

    #[test]
    fn nobody_fills_it() {
        let mut kept = Unstored::default();
        let large = Bytes::from(vec![0; 1 << 20]);
        (1..=200).for_each(|number| kept.receive((1, LeaderId(1)), 0, number, large.clone()));
        assert_eq!(kept.all().len(), OTHERS_BYTES >> 20);
        (2..1_000).for_each(|epoch| kept.receive((epoch, LeaderId(1)), 0, 1, block(1)));
        assert!(kept.terms.len() <= TERMS);
    }

    proptest! {
        /// For any messages of the bus: the kept bytes match the count and stay within the limit,
        /// and no stored block is appended.
        #[test]
        fn anything_may_be_received(
            received in proptest::collection::vec(
                (0..4_u8, prop_oneof![0..4_u64, Just(u64::MAX)],
                 prop_oneof![0..6_u64, Just(u64::MAX)], prop_oneof![0..6_u64, Just(u64::MAX)]),
                0..60,
            ),
        ) {
            let mut kept = Unstored::default();
            for (what, epoch, stored, number) in received {
                let term = (epoch, LeaderId(stored % 2));
                match what {
                    0 | 1 => kept.receive(term, stored, number, block(number)),
                    2 => kept.stored(term, number),
                    _ => {
                        let left = kept.take_over(epoch);
                        prop_assert!(left.iter().all(|it| it.number > kept.stored_through(it.term)));
                        kept.give_up();
                    }
                }
                let all = kept.all();
                prop_assert_eq!(all.len() << 10, kept.others);
                prop_assert!(all.iter().all(|it| it.number > kept.stored_through(it.term)));
            }
        }
    }
}
