//! The anchors of a replay: the one at which it begins, and those at which another replay could
//! begin.

use bus_schemas::{Epoch, LeaderId, WIRE_VERSION};

use super::anchor::Anchor;
use super::error::ReplayError;
use super::recompute::Replay;
use super::stream::Stream;
use crate::policy::ORDER_VERSION;

/// The anchor after which a replay of these blocks (in any order) begins. `None` if it begins with
/// the first block ever written.
///
/// # Errors
/// [`ReplayError`] if a block cannot be read or was made by other rules.
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
    /// A replay that keeps neither taken blocks nor rows that have ended, for a record of any
    /// length. It serves the ended positions that it reports, and its anchors.
    #[must_use]
    pub fn forgetful() -> Self {
        let mut replay = Self::default();
        (replay.forgets, replay.chains.forgets) = (true, true);
        replay
    }

    /// The anchor before the epoch that the replay has reached. It exists once every worker that
    /// was there in the previous epoch has been sealed, or is gone.
    #[must_use]
    pub fn anchor(&self) -> Option<&Anchor> {
        self.reached.as_ref()
    }

    /// Begins after the first anchor before which blocks are missing, if there is one. Present
    /// blocks of earlier epochs were appended again by a later leader, and the anchor counts them.
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

    /// Notes an anchor, if the present term has just reached it.
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
