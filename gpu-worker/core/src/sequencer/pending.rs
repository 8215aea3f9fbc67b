//! Accepted positions and standing grants: what is known of each until it has ended.

use std::collections::VecDeque;

use bus_schemas::{GpuPosition, Grant, OpNumber, Outcome, SealedGrant, Tenant};

use crate::Nanos;

/// Where a grant is counted: its priority. A worse one than there is counts as the lowest.
pub(super) fn lane(grant: &Grant) -> usize {
    usize::from(grant.priority.min(4))
}

/// An accepted position.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) position: GpuPosition,
    pub(super) grant: Grant,
    pub(super) ended: bool,
}

/// An accepted grant as it is kept for replay, with whose it is: its session may be closed and
/// forgotten by the time that a seal asks.
#[derive(Debug)]
pub(super) struct KeptGrant {
    pub(super) sealed: SealedGrant,
    pub(super) tenant: Tenant,
    pub(super) ordinal: u64,
}

/// How a position ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) measured: u64,
    pub(super) last: OpNumber,
    pub(super) outcome: Outcome,
    pub(super) failed: bool,
}

impl Ending {
    /// Nothing was measured and nothing failed.
    pub(super) fn plain(last: OpNumber, outcome: Outcome) -> Self {
        Self {
            measured: 0,
            last,
            outcome,
            failed: false,
        }
    }
}

/// Ops on the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) first: OpNumber,
    pub(super) last: OpNumber,
    pub(super) cost: u64,
}

/// A standing grant that has not ended.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) grant: Grant,
    pub(super) owner: (Tenant, u64),
    /// Last op started; one before the first where none was.
    pub(super) started: OpNumber,
    /// The op that failed.
    pub(super) failed: Option<OpNumber>,
    /// Parts of it did not run, for an earlier op of the session had failed.
    pub(super) skipped: bool,
    /// Started and not completed, in op order.
    pub(super) parts: VecDeque<Part>,
    /// Since when it waits for an image.
    pub(super) waits: Option<Nanos>,
}

impl Standing {
    /// Estimated nanoseconds on the device.
    pub(super) fn cost(&self) -> u64 {
        let costs = self.parts.iter().map(|part| part.cost);
        costs.fold(0, u64::saturating_add)
    }

    /// The part that has completed, as a grant of its own.
    pub(super) fn take_part(&mut self, grant: &Grant) -> Option<Grant> {
        let Part { first, last, cost } = self.parts.pop_front()?;
        Some(Grant {
            first,
            last,
            cost,
            ..*grant
        })
    }
}
