//! A position of the launch order as people and programs read it.

use bus_schemas::{Chain, ChainEntry, GrantKind, Outcome, Tenant};
use scheduler_leader_core::replay::{Replayed, ReplayedPosition};
use serde::{Deserialize, Serialize};

/// One position: a row of the command line, and a line of the evidence's `order.jsonl`. Files of
/// earlier versions have only the first eleven fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionRow {
    /// The device.
    pub gpu: u32,
    /// The worker.
    pub incarnation: String,
    /// The gpu position.
    pub position: u64,
    /// The position in the cluster's order, within the epoch.
    pub global: u64,
    /// The epoch that granted it.
    pub epoch: u64,
    /// The session's tenant.
    pub tenant: String,
    /// The session's number among its tenant's, from 1.
    pub ordinal: u64,
    /// The session.
    pub session: String,
    /// `run`, `open`, `close`, `standing`, `revoke` or `return`.
    pub kind: String,
    /// First op.
    pub first: u64,
    /// Last op.
    pub last: u64,
    /// The last input of the epoch before the decision.
    #[serde(default)]
    pub input: u64,
    /// The priority that it runs at.
    #[serde(default)]
    pub priority: u8,
    /// Kernels among the ops.
    #[serde(default)]
    pub kernels: Option<u64>,
    /// Charged device nanoseconds.
    #[serde(default)]
    pub cost_ns: u64,
    /// `ran`, `void` or `gone`; `None` if no end is recorded.
    #[serde(default)]
    pub outcome: Option<String>,
    /// Measured device nanoseconds.
    #[serde(default)]
    pub measured_ns: Option<u64>,
    /// True if it was not recomputed, but taken from a worker's tail.
    #[serde(default)]
    pub adopted: bool,
    /// The worker's chain after it.
    #[serde(default)]
    pub chain: Option<String>,
}

impl From<&ReplayedPosition> for PositionRow {
    fn from(position: &ReplayedPosition) -> Self {
        let outcome = position.end.and_then(|end| match end.outcome {
            Outcome::Ran => Some("ran"),
            Outcome::Void => Some("void"),
            Outcome::Gone => Some("gone"),
            // Not ends.
            Outcome::Part | Outcome::Closed => None,
        });
        Self {
            gpu: position.gpu,
            incarnation: position.incarnation.to_string(),
            position: position.position,
            global: position.global,
            epoch: position.epoch,
            tenant: position.tenant.to_string(),
            ordinal: position.ordinal,
            session: position.session.to_string(),
            kind: position.kind.name().into(),
            first: position.first,
            last: position.last,
            input: position.input,
            priority: position.priority,
            kernels: position.launches,
            cost_ns: position.cost,
            outcome: outcome.map(Into::into),
            measured_ns: position.end.map(|end| end.measured),
            adopted: position.adopted,
            chain: position.chain.map(|chain| chain.to_string()),
        }
    }
}

impl PositionRow {
    /// The fields of the chain, besides the position: the same in every run of the same order.
    pub(super) fn essence(&self) -> (&str, u64, &str, u64, u64) {
        (
            &self.tenant,
            self.ordinal,
            &self.kind,
            self.first,
            self.last,
        )
    }

    /// The chain after this row, given the chain before; `None` if the row is no valid grant.
    pub(super) fn chain_from(&self, before: Chain) -> Option<Chain> {
        let tenant: Tenant = self.tenant.parse().ok()?;
        let kind = GrantKind::from_name(&self.kind)?;
        Some(before.then(&ChainEntry {
            position: self.position,
            tenant: &tenant,
            ordinal: self.ordinal,
            kind,
            first: self.first,
            last: self.last,
        }))
    }
}

/// The rows of a replay, in the cluster's order.
#[must_use]
pub fn rows(replayed: &Replayed) -> Vec<PositionRow> {
    let mut rows: Vec<PositionRow> = replayed.positions.iter().map(PositionRow::from).collect();
    rows.sort_by_key(|row| (row.epoch, row.global));
    rows
}
