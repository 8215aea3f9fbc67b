//! Blocks of the record that the stream has not acknowledged: what this leader wrote, and what
//! other leaders said of theirs. While the broker stores nothing they are with every candidate, so
//! that a leader that dies does not take them along: its successor appends them before its own.

use std::collections::BTreeMap;

use bus_schemas::{Epoch, LeaderId};
use bytes::Bytes;

/// Bytes of others' blocks that are kept at most; what comes behind is not.
const OTHERS_BYTES: usize = 64 << 20;
/// Reigns that are known of at most.
const REIGNS: usize = 64;

/// Whose blocks: of an epoch there may be two leaders, where a broker lost its tail.
pub(super) type Reign = (Epoch, LeaderId);

/// One block.
#[derive(Debug)]
struct Kept {
    bytes: Bytes,
    /// Another leader's, who alone has use for it so far: those are limited.
    heard: bool,
}

/// One reign's blocks.
#[derive(Debug, Default)]
struct Blocks {
    /// By number.
    blocks: BTreeMap<u64, Kept>,
    /// Those are stored without a gap.
    stored: u64,
    /// As was last said of it.
    told: u64,
    /// The highest number there was.
    last: u64,
}

/// All that is not stored.
#[derive(Debug, Default)]
pub(super) struct Unstored {
    reigns: BTreeMap<Reign, Blocks>,
    /// Bytes of those that were heard.
    others: usize,
}

impl Unstored {
    /// A block of our own, or one that we append for another.
    pub(super) fn appending(&mut self, reign: Reign, number: u64, bytes: &Bytes) {
        let blocks = self.reigns.entry(reign).or_default();
        blocks.last = blocks.last.max(number);
        let kept = Kept {
            bytes: bytes.clone(),
            heard: false,
        };
        let before = blocks.blocks.insert(number, kept);
        self.gone(before);
    }

    /// Blocks are not kept any more.
    fn gone(&mut self, blocks: impl IntoIterator<Item = Kept>) {
        let heard = blocks.into_iter().filter(|kept| kept.heard);
        self.others -= heard.map(|kept| kept.bytes.len()).sum::<usize>();
    }

    /// Another leader said of a block of its that it is not stored.
    pub(super) fn heard(&mut self, reign: Reign, number: u64, bytes: Bytes) {
        let is_known = self.reigns.contains_key(&reign);
        let is_over = self.reigns.range((reign.0 + 1, LeaderId(0))..);
        let is_over = is_over.into_iter().any(|(_, later)| later.stored > 0);
        if is_over || (!is_known && self.reigns.len() >= REIGNS) {
            return;
        }
        let blocks = self.reigns.entry(reign).or_default();
        let is_new = number > blocks.stored && !blocks.blocks.contains_key(&number);
        if is_new && self.others + bytes.len() <= OTHERS_BYTES {
            self.others += bytes.len();
            blocks.last = blocks.last.max(number);
            blocks.blocks.insert(number, Kept { bytes, heard: true });
        }
    }

    /// A leader said that its blocks through this one are stored.
    pub(super) fn heard_stored(&mut self, reign: Reign, through: u64) {
        if through == 0 || (self.reigns.len() >= REIGNS && !self.reigns.contains_key(&reign)) {
            return;
        }
        let blocks = self.reigns.entry(reign).or_default();
        let kept = blocks.blocks.split_off(&through.saturating_add(1));
        let gone = std::mem::replace(&mut blocks.blocks, kept);
        blocks.stored = blocks.stored.max(through);
        blocks.last = blocks.last.max(through);
        self.gone(gone.into_values());
        self.forget_before(reign.0);
    }

    /// A block is stored.
    pub(super) fn stored(&mut self, reign: Reign, number: u64) {
        let Some(blocks) = self.reigns.get_mut(&reign) else {
            return;
        };
        let stored = blocks.blocks.remove(&number);
        let first = blocks.blocks.first_key_value();
        blocks.stored = first.map_or(blocks.last, |(first, _)| first - 1);
        let some = blocks.stored > 0;
        self.gone(stored);
        if some {
            self.forget_before(reign.0);
        }
    }

    /// Of an earlier epoch nothing is appended any more once a later one has a block: who reads the
    /// record as it grows reads one behind the other.
    fn forget_before(&mut self, epoch: Epoch) {
        let kept = self.reigns.split_off(&(epoch, LeaderId(0)));
        let gone = std::mem::replace(&mut self.reigns, kept);
        let blocks = gone.into_values().map(|blocks| blocks.blocks);
        self.gone(blocks.flat_map(BTreeMap::into_values));
    }

    /// What is not stored of the epochs before this one, in order.
    pub(super) fn before(&self, epoch: Epoch) -> Vec<(Reign, u64, Bytes)> {
        self.range(..(epoch, LeaderId(0)))
    }

    /// All that is not stored, in order.
    pub(super) fn all(&self) -> Vec<(Reign, u64, Bytes)> {
        self.range(..)
    }

    fn range(&self, reigns: impl std::ops::RangeBounds<Reign>) -> Vec<(Reign, u64, Bytes)> {
        let reigns = self.reigns.range(reigns);
        let all = reigns.flat_map(|(reign, blocks)| {
            let blocks = blocks.blocks.iter();
            blocks.map(|(number, kept)| (*reign, *number, kept.bytes.clone()))
        });
        all.collect()
    }

    /// How far a reign's blocks are stored without a gap.
    pub(super) fn through(&self, reign: Reign) -> u64 {
        self.reigns.get(&reign).map_or(0, |blocks| blocks.stored)
    }

    /// Of which reigns more is stored than was said so far, and how far.
    pub(super) fn news(&mut self) -> Vec<(Reign, u64)> {
        let news = self.reigns.iter_mut();
        let news = news.filter(|(_, blocks)| blocks.stored > blocks.told);
        let news = news.map(|(reign, blocks)| {
            blocks.told = blocks.stored;
            (*reign, blocks.stored)
        });
        news.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64) -> Bytes {
        Bytes::from(vec![number as u8; 1 << 10])
    }

    fn numbers(unstored: &Unstored, before: Epoch) -> Vec<(Epoch, u64)> {
        let blocks = unstored.before(before);
        blocks
            .iter()
            .map(|(reign, number, _)| (reign.0, *number))
            .collect()
    }

    #[test]
    fn what_is_not_stored_is_kept_for_the_next_leader() {
        let mut unstored = Unstored::default();
        let reign = (3, LeaderId(7));
        (1..=4).for_each(|number| unstored.heard(reign, number, block(number)));
        unstored.heard_stored(reign, 2);
        unstored.heard(reign, 2, block(2));
        assert_eq!(numbers(&unstored, 4), [(3, 3), (3, 4)]);
        assert_eq!(numbers(&unstored, 3), []);
        assert_eq!(unstored.others, 2 << 10);
        // The next leader appends them, and then its own.
        for (reign, number, bytes) in unstored.before(4) {
            unstored.appending(reign, number, &bytes);
        }
        unstored.appending((4, LeaderId(8)), 1, &block(1));
        assert_eq!(unstored.others, 0);
        unstored.stored(reign, 4);
        assert_eq!(unstored.through(reign), 2);
        unstored.stored(reign, 3);
        assert_eq!(unstored.news(), [(reign, 4)]);
        assert_eq!(unstored.news(), []);
        unstored.stored((4, LeaderId(8)), 1);
        assert_eq!(unstored.news(), [((4, LeaderId(8)), 1)]);
        assert_eq!(unstored.reigns.len(), 1);
        // What comes late is of no use any more.
        unstored.heard(reign, 5, block(5));
        assert_eq!(unstored.all(), []);
    }

    #[test]
    fn nobody_fills_it() {
        let mut unstored = Unstored::default();
        let large = Bytes::from(vec![0; 1 << 20]);
        (1..=200).for_each(|number| unstored.heard((1, LeaderId(1)), number, large.clone()));
        assert_eq!(unstored.all().len(), OTHERS_BYTES >> 20);
        for epoch in 2..1_000 {
            unstored.heard((epoch, LeaderId(1)), 1, block(1));
        }
        assert!(unstored.reigns.len() <= REIGNS);
        unstored.heard_stored((1_000, LeaderId(1)), 1);
        assert_eq!(unstored.reigns.len(), REIGNS);
        unstored.heard_stored((1, LeaderId(1)), 200);
        assert_eq!(unstored.others, 0);
    }
}
