//! The result of a replay, and the reasons why it may fail.

use std::fmt;

use bus_schemas::{
    Chain, CostRun, Epoch, GlobalPosition, GpuId, GpuPosition, GpuTail, GrantKind, Incarnation,
    InputNumber, OpNumber, Outcome, SessionId, Tenant,
};

use super::anchor::Anchor;
use crate::leader::Gap;
use crate::why::Timing;

/// The end of a position, as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The outcome.
    pub outcome: Outcome,
    /// Measured device nanoseconds.
    pub measured: u64,
}

/// One position of the launch order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedPosition {
    /// The device.
    pub gpu: GpuId,
    /// The worker.
    pub incarnation: Incarnation,
    /// The gpu position.
    pub position: GpuPosition,
    /// The global position.
    pub global: GlobalPosition,
    /// The epoch that decided it.
    pub epoch: Epoch,
    /// The last input of that epoch before it was decided.
    pub input: InputNumber,
    /// The tenant.
    pub tenant: Tenant,
    /// The session's number among its tenant's.
    pub ordinal: u64,
    /// The session.
    pub session: SessionId,
    /// The kind of the grant.
    pub kind: GrantKind,
    /// The priority at which it runs.
    pub priority: u8,
    /// First op.
    pub first: OpNumber,
    /// Last op.
    pub last: OpNumber,
    /// Number of kernels among the ops; `None` if the record lacks their intent.
    pub launches: Option<u64>,
    /// The announced costs of its ops, if the replay tells them: runs of equal ops, merged. `bytes` is a run's sum.
    pub work: Vec<CostRun>,
    /// Charged device nanoseconds; 0 for a standing grant, since its ops are charged as they are
    /// reported.
    pub cost: u64,
    /// Its end; `None` if no end is recorded.
    pub end: Option<End>,
    /// True if it was taken from a seal's tail instead of recomputed: it was decided after the last
    /// recorded input of its epoch.
    pub adopted: bool,
    /// Its times and the causes of its wait, if the replay explains, the position has run, and its
    /// record has the times.
    pub timing: Option<Box<Timing>>,
    /// The worker's chain at it, once the accepted grants of the worker are known.
    pub chain: Option<Chain>,
}

/// The fate of a worker, as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// The record has no end of it.
    #[default]
    Here,
    /// It announced that it leaves, and left.
    Left,
    /// It was declared lost.
    Lost,
}

impl Fate {
    /// Its name in files and output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Left => "left",
            Self::Lost => "lost",
        }
    }
}

/// Accepted positions that neither the record nor a seal's tail has, from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// The device.
    pub gpu: GpuId,
    /// The worker.
    pub incarnation: Incarnation,
    /// The first such position.
    pub first: GpuPosition,
    /// The last such position.
    pub last: GpuPosition,
}

impl Hole {
    /// Number of positions.
    #[must_use]
    pub fn positions(&self) -> u64 {
        self.last + 1 - self.first
    }
}

impl fmt::Display for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            gpu,
            incarnation,
            first,
            last,
        } = self;
        write!(
            f,
            "gpu {gpu} worker {incarnation} positions {first} to {last}"
        )
    }
}

/// One incarnation's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The worker.
    pub incarnation: Incarnation,
    /// The end of its chain.
    pub tail: GpuTail,
    /// The fate of the worker.
    pub fate: Fate,
    /// The last position at which the record has the worker's chain (sealed, or known when the
    /// worker was lost) and the same chain was recomputed. 0 if the record has none.
    pub recorded: GpuPosition,
}

/// The result of a replay: the recorded order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Digest over all incarnations that accepted anything, with any fate.
    pub digest: Chain,
    /// Every incarnation, by gpu and incarnation.
    pub tails: Vec<Tail>,
    /// Every position with a known grant, by gpu, incarnation and position.
    pub positions: Vec<ReplayedPosition>,
    /// Positions taken from seals' tails.
    pub adopted: u64,
    /// Accepted positions that neither the record nor a tail has: an order with one is incomplete.
    pub skipped: u64,
    /// These positions.
    pub holes: Vec<Hole>,
    /// Positions that went unrecorded, according to the record.
    pub gap_positions: u64,
    /// The gaps in which the record names them.
    pub named: Vec<Gap>,
    /// Number of recorded gaps.
    pub gaps: u64,
    /// Number of terms: epochs with a takeover, counted twice if two leaders had it.
    pub epochs: u64,
    /// Number of applied inputs.
    pub inputs: u64,
    /// The anchor at which it begins, if the earlier record was cut off. Its counts are in no other
    /// field.
    pub anchor: Option<Anchor>,
}
