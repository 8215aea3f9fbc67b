//! The result of a replay, and the reasons why it may fail.

use std::fmt;

use bus_schemas::{
    Chain, Epoch, GlobalPosition, GpuId, GpuPosition, GpuTail, GrantKind, Incarnation, InputNumber,
    OpNumber, Outcome, SessionId, Tenant,
};

use super::anchor::Anchor;
use crate::leader::Gap;
use crate::why::Timing;

/// The end of a position, as the record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// How.
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
    /// What it does.
    pub kind: GrantKind,
    /// The priority that it runs at.
    pub priority: u8,
    /// First op.
    pub first: OpNumber,
    /// Last op.
    pub last: OpNumber,
    /// Kernels among the ops; `None` where the record lacks their intent.
    pub launches: Option<u64>,
    /// Charged device nanoseconds; 0 for a standing grant, whose ops are charged as they are told of.
    pub cost: u64,
    /// How it ended; `None` where no end is recorded.
    pub end: Option<End>,
    /// Not recomputed, but taken from a seal's tail: it was decided behind the last input that the
    /// record has of its epoch.
    pub adopted: bool,
    /// When it waited and ran, and what it waited for: where the replay explains, it has run, and its record
    /// has the times.
    pub timing: Option<Box<Timing>>,
    /// The worker's chain behind it, once it is known what the worker accepted.
    pub chain: Option<Chain>,
}

/// The fate of a worker, as the record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// Nothing is said of its going.
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

/// Positions that a worker accepted, and that neither the record nor a seal's tail tells: both
/// numbers are of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// The device.
    pub gpu: GpuId,
    /// The worker.
    pub incarnation: Incarnation,
    /// The first such position.
    pub first: GpuPosition,
    /// The last.
    pub last: GpuPosition,
}

impl Hole {
    /// How many positions it is.
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
    /// Where its chain ends.
    pub tail: GpuTail,
    /// What became of it.
    pub fate: Fate,
    /// The last position at which the record says what the worker's chain is (sealed, or known when
    /// the worker was lost), and the same was recomputed. 0 where it says so nowhere.
    pub recorded: GpuPosition,
}

/// The result of a replay: the order that the record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Digest over all incarnations that accepted anything, whatever became of them.
    pub digest: Chain,
    /// Every incarnation, by gpu and incarnation.
    pub tails: Vec<Tail>,
    /// Every position whose grant is known, by gpu, incarnation and position.
    pub positions: Vec<ReplayedPosition>,
    /// Positions taken from seals' tails.
    pub adopted: u64,
    /// Positions that were accepted and that nothing tells: an order with one is not whole.
    pub skipped: u64,
    /// Where they are.
    pub holes: Vec<Hole>,
    /// Positions that went unrecorded, as the record itself says.
    pub gap_positions: u64,
    /// What the record says went unrecorded.
    pub named: Vec<Gap>,
    /// Recorded gaps.
    pub gaps: u64,
    /// Terms: epochs with a takeover, one twice where two leaders had it.
    pub epochs: u64,
    /// Inputs applied.
    pub inputs: u64,
    /// Where it begins, if what lies before was cut off: what it says of that is counted nowhere
    /// else here.
    pub anchor: Option<Anchor>,
}
