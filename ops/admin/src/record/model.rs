//! A record: the blocks of a leader's inputs, and the order that results from their replay.

use anyhow::{Context, Result, bail};
use bus_schemas::{Epoch, GpuTail, Incarnation};
use scheduler_leader_core::replay::{self, Anchor, Replayed, ReplayedChange, ReplayedPosition};
use scheduler_leader_core::why::DeviceDay;

use crate::errors::ErrorCode;
use crate::why::{RecordBegin, Within};

/// A block of the record: epoch, number, bytes.
pub type Block = (Epoch, u64, Vec<u8>);

/// A record, from which the order can be recomputed without a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The cluster's name.
    pub cluster: String,
    /// Its blocks, in any order.
    pub blocks: Vec<Block>,
    /// The ends of the workers' chains, as the workers reported them at the time.
    pub ends: Vec<(Incarnation, GpuTail)>,
    /// The first 8 bytes of each worker's chain after each position, from the first. They are from
    /// the replay at the time when the record was written. If it replays differently, they show the
    /// first position that differs.
    pub marks: Vec<(Incarnation, Vec<u64>)>,
}

impl Record {
    /// Recomputes the order.
    ///
    /// # Errors
    /// If it does not replay.
    pub fn replay(&self) -> Result<Replayed> {
        replay::replay(&self.blocks, &[])
            .context(ErrorCode::Replay.failed("the record does not replay"))
    }

    /// The anchor, if the beginning was cut off.
    ///
    /// # Errors
    /// If the anchor cannot be read.
    pub fn anchor(&self) -> Result<Option<Anchor>> {
        replay::beginning(&self.blocks).context(ErrorCode::Replay.failed("the record's anchor"))
    }

    /// Recomputes the order. `tell` gets each ended position with its waits, and each open standing
    /// grant. Returns the same as [`crate::why::explain`], and `within` is as there.
    ///
    /// # Errors
    /// If it does not replay.
    pub fn explain(
        &self,
        within: Option<Within>,
        mut tell: impl FnMut(ReplayedPosition),
    ) -> Result<(Vec<DeviceDay>, Vec<ReplayedChange>, Option<RecordBegin>)> {
        let mut blocks: Vec<&Block> = self.blocks.iter().collect();
        blocks.sort_by_key(|(epoch, number, _)| (*number != Anchor::NUMBER, *epoch, *number));
        let mut replay = Within::replay(within);
        let wrong = || ErrorCode::Replay.failed("the record does not replay");
        // One epoch at a time, so that only its blocks of the replay are kept.
        for epoch in blocks.chunk_by(|one, other| one.0 == other.0 || other.1 == Anchor::NUMBER) {
            for (epoch, number, bytes) in epoch {
                replay.add(*epoch, *number, bytes).with_context(wrong)?;
            }
            let ended = |row| {
                if within.is_none_or(|within| within.has(&row)) {
                    tell(row);
                }
            };
            replay.advance(ended).with_context(wrong)?;
        }
        if within.is_none() {
            replay.standing().into_iter().for_each(tell);
        }
        let begin = RecordBegin::of(&replay, within);
        Ok((replay.device_days(), replay.take_changes(), begin))
    }

    /// Recomputes the order, which must be whole.
    ///
    /// # Errors
    /// If it does not replay, or has a hole.
    pub fn replay_whole(&self) -> Result<Replayed> {
        let replayed = self.replay()?;
        whole(&replayed)?;
        Ok(replayed)
    }
}

/// Checks that an order has every position that a worker accepted.
///
/// # Errors
/// An error that names the first missing position.
pub fn whole(replayed: &Replayed) -> Result<()> {
    let before = replayed.anchor.as_ref().map_or(0, |anchor| anchor.skipped);
    match replayed.holes.first() {
        None if before > 0 => bail!(ErrorCode::ReplayHole.failed(format!(
            "of {before} positions before the anchor neither the record nor a seal's \
             tail told anything"
        ))),
        None => Ok(()),
        Some(hole) => bail!(ErrorCode::ReplayHole.failed(format!(
            "{} positions were accepted that are neither in the record nor in a seal's \
             tail, the first of them: {hole}",
            replayed.skipped
        ))),
    }
}
