//! Where a replay can begin although what lies before was cut off: what a replay up to there arrived
//! at. Beside the blocks of an epoch it is its block number 0.

use bus_schemas::{Chain, ClusterSettings, Epoch, GpuTail, Incarnation, LeaderId, WIRE_VERSION};
use serde::{Deserialize, Serialize};

use super::{Replay, ReplayError, Stream};
use crate::policy::ORDER_VERSION;

/// A worker's chain at an anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchored {
    /// The worker.
    pub incarnation: Incarnation,
    /// Where its chain was.
    pub tail: GpuTail,
    /// It was declared lost.
    pub lost: bool,
    /// It announced that it leaves, and left.
    pub left: bool,
}

/// What lies before an epoch, recomputed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anchor {
    /// Wire version.
    pub v: u16,
    /// The rules by which it was recomputed.
    pub order_version: u32,
    /// The first epoch behind it.
    pub epoch: Epoch,
    /// That epoch's leader.
    pub leader: LeaderId,
    /// The chains, where that leader sealed them.
    pub workers: Vec<Anchored>,
    /// The launch order's digest there.
    pub digest: Chain,
    /// The settings that the epoch began with.
    pub settings: ClusterSettings,
    /// Positions before it.
    pub positions: u64,
    /// Of those, such as were taken from seals' tails.
    pub adopted: u64,
    /// Positions before it that nothing names.
    pub skipped: u64,
    /// Positions before it that went unrecorded, as the record said.
    pub gap_positions: u64,
    /// Gaps before it.
    pub gaps: u64,
    /// Terms before it.
    pub epochs: u64,
    /// Inputs before it.
    pub inputs: u64,
}

// Settings have no floating point, and say so of themselves only in part.
impl Eq for Anchor {}

impl Anchor {
    /// Number of an anchor among the blocks of the epoch behind it.
    pub const NUMBER: u64 = 0;

    /// Its bytes, as a block's.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Plain data: it cannot fail.
        rmp_serde::to_vec_named(self).unwrap_or_default()
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`ReplayError`] where it is none, or was made by other rules.
    pub fn decode(epoch: Epoch, bytes: &[u8]) -> Result<Self, ReplayError> {
        let number = Self::NUMBER;
        let wrong = |why: String| ReplayError::Block { epoch, number, why };
        let anchor: Self =
            rmp_serde::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if anchor.v > WIRE_VERSION || anchor.epoch != epoch {
            let why = format!("an anchor of epoch {}, version {}", anchor.epoch, anchor.v);
            return Err(wrong(why));
        }
        if anchor.order_version != ORDER_VERSION {
            return Err(ReplayError::Version {
                epoch,
                got: anchor.order_version,
                have: ORDER_VERSION,
            });
        }
        Ok(anchor)
    }
}

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

/// What is counted of what lies before an epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    pub(super) gaps: u64,
    pub(super) epochs: u64,
    pub(super) inputs: u64,
}

impl Replay {
    /// One that keeps no rows and no blocks, for a record of any length: for the anchors it comes to.
    #[must_use]
    pub fn for_anchors() -> Self {
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
