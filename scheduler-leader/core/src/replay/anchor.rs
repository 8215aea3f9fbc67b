//! Anchors: states from which a replay can begin although the earlier record was cut off. An anchor
//! is the result of a replay up to that point. Among the blocks of an epoch it has block number 0.

use bus_schemas::{Chain, ClusterSettings, Epoch, GpuTail, Incarnation, LeaderId, WIRE_VERSION};
use serde::{Deserialize, Serialize};

use super::error::ReplayError;
use crate::policy::ORDER_VERSION;

/// A worker's chain at an anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchored {
    /// The worker.
    pub incarnation: Incarnation,
    /// The end of its chain.
    pub tail: GpuTail,
    /// True if it was declared lost.
    pub lost: bool,
    /// True if it announced that it leaves, and left.
    pub left: bool,
}

/// The state before an epoch, recomputed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anchor {
    /// Wire version.
    pub v: u16,
    /// The rules by which it was recomputed.
    pub order_version: u32,
    /// The first epoch after it.
    pub epoch: Epoch,
    /// The leader of that epoch.
    pub leader: LeaderId,
    /// The chains at that leader's seals.
    pub workers: Vec<Anchored>,
    /// The launch order's digest at the anchor.
    pub digest: Chain,
    /// The settings that the epoch began with.
    pub settings: ClusterSettings,
    /// Positions before it.
    pub positions: u64,
    /// Number of those positions that were taken from seals' tails.
    pub adopted: u64,
    /// Number of positions before it that neither the record nor a tail has.
    pub skipped: u64,
    /// Positions before it that went unrecorded, according to the record.
    pub gap_positions: u64,
    /// Gaps before it.
    pub gaps: u64,
    /// Terms before it.
    pub epochs: u64,
    /// Inputs before it.
    pub inputs: u64,
}

// Settings have no floating point, though they implement only `PartialEq`.
impl Eq for Anchor {}

impl Anchor {
    /// Number of an anchor among the blocks of the epoch after it.
    pub const NUMBER: u64 = 0;
    /// The epoch of the subject on which anchors are stored; no leader has it.
    pub const EPOCH: Epoch = 0;

    /// Encodes it as the bytes of a block.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Plain data: the encoding cannot fail.
        rmp_serde::to_vec_named(self).unwrap_or_default()
    }

    /// Decodes an anchor.
    ///
    /// # Errors
    /// [`ReplayError`] if the bytes are no anchor, or if other rules made it.
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

/// Counts of the record before an epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    pub(super) gaps: u64,
    pub(super) epochs: u64,
    pub(super) inputs: u64,
}
