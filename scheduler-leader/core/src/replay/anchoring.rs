//! The anchors of a replay: where it begins, and where another could.

use bus_schemas::{Epoch, LeaderId, WIRE_VERSION};

use super::anchor::Anchor;
use super::error::ReplayError;
use super::recompute::Replay;
use super::stream::Stream;
use crate::policy::ORDER_VERSION;

/// The anchor that a replay of these blocks begins behind, in any order, if it does not begin with the
/// first block there ever was.
///
/// # Errors
/// [`ReplayError`] when a block cannot be read or is by other rules.
pub fn beginning(blocks: &[(Epoch, u64, Vec<u8>)]) -> Result<Option<Anchor>, ReplayError> {
    let mut replay = Replay::default();
    if blocks.iter().any(|block| block.1 == Anchor::NUMBER) {
        for (epoch, number, bytes) in blocks {
            replay.add(*epoch, *number, bytes)?;
        }
        replay.restore();
    }
    Ok(replay.restored)
}

impl Replay {
    /// One that keeps no block that was taken and no row that has ended, for a record of any length: for the
    /// ends that it tells and the anchors it comes to.
    #[must_use]
    pub fn forgetful() -> Self {
        let mut replay = Self::default();
        (replay.forgets, replay.chains.forgets) = (true, true);
        replay
    }

    /// Where the replay of the epoch that it has come to could begin, once every worker that was
    /// there in the epoch before has been sealed, or is gone.
    #[must_use]
    pub fn anchor(&self) -> Option<&Anchor> {
        self.reached.as_ref()
    }

    /// Begins behind the first anchor before which something is missing, if there is one: what there
    /// is of earlier epochs was appended once more by a later leader, and the anchor counts it.
    pub(super) fn restore(&mut self) {
        if self.term.is_some() || self.restored.is_some() {
            return;
        }
        let begins = |(of, anchor): &(&(Epoch, LeaderId), &Anchor)| {
            let before: u64 = self.streams.range(..*of).map(|it| it.1.inputs_held()).sum();
            let begun = self.streams.get(of).is_some_and(Stream::has_beginning);
            begun && before < anchor.inputs
        };
        let Some((of, anchor)) = self.anchors.iter().find(begins) else {
            return;
        };
        let (of, anchor) = (*of, anchor.clone());
        self.streams = self.streams.split_off(&of);
        self.chains.restore(&anchor);
        self.restored = Some(anchor);
    }

    /// Notes an anchor, if the term that it has come to has just got so far.
    pub(super) fn note_anchor(&mut self) {
        let Some(term) = &mut self.term else {
            return;
        };
        let Some((chains, settings)) = term.anchored.take() else {
            return;
        };
        let tails = chains.workers.iter().map(|worker| worker.tail);
        let tails: Vec<_> = tails.collect();
        let base = self.restored.as_ref();
        let more = |count: u64, of: fn(&Anchor) -> u64| count + base.map_or(0, of);
        self.reached = Some(Anchor {
            v: WIRE_VERSION,
            order_version: ORDER_VERSION,
            epoch: term.of.0,
            leader: term.of.1,
            digest: bus_schemas::digest(&tails),
            workers: chains.workers,
            settings,
            positions: more(chains.positions, |it| it.positions),
            adopted: more(chains.adopted, |it| it.adopted),
            skipped: more(chains.skipped, |it| it.skipped),
            gap_positions: more(chains.gap_positions, |it| it.gap_positions),
            gaps: more(self.before.gaps, |it| it.gaps),
            epochs: more(self.before.epochs, |it| it.epochs),
            inputs: more(self.before.inputs, |it| it.inputs),
        });
    }
}
