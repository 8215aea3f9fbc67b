//! Anchors: states from which a replay can begin although the record before was cut off. An anchor is
//! what a replay up to there arrived at. Beside the blocks of an epoch it is its block number 0.

use bus_schemas::{Chain, ClusterSettings, Epoch, GpuTail, Incarnation, LeaderId, WIRE_VERSION};
use serde::{Deserialize, Serialize};

use super::error::ReplayError;
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

/// The state before an epoch, recomputed.
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
    /// The epoch on whose subject anchors are stored; no leader has it.
    pub const EPOCH: Epoch = 0;

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

/// What is counted of what lies before an epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    pub(super) gaps: u64,
    pub(super) epochs: u64,
    pub(super) inputs: u64,
}
