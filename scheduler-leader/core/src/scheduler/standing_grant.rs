//! A session's standing grant: where it stands, and how far it is accounted.

use bus_schemas::{GpuPosition, OpNumber};

/// What is known of a session's standing grant.
#[derive(Debug)]
pub(super) struct Standing {
    /// The position it began at, and that at which it goes on now.
    pub(super) from: GpuPosition,
    pub(super) position: GpuPosition,
    /// Its session's priority when it was granted: its parts run at it.
    pub(super) priority: u8,
    /// Its last op that ran, as reported, and what its ops through there declare.
    pub(super) through: OpNumber,
    pub(super) claimed: u32,
    /// Its last op, once it is closed.
    pub(super) closed: Option<OpNumber>,
    /// Its position has ended.
    pub(super) ended: bool,
    /// Positions it went on at while announced ops did not come, and what had run at the last.
    pub(super) stale: u32,
    pub(super) seen: OpNumber,
    /// Its last op that is accounted: that ran and was announced, or was also closed in.
    pub(super) accounted: OpNumber,
    /// What its client announced of the ops through there.
    pub(super) declared: u64,
    /// Charged and measured since both were of the same ops.
    pub(super) charged: u64,
    pub(super) measured: u64,
}

/// Positions at which a standing grant goes on while nothing of what was announced runs. While its
/// session's ops run, less urgent ones hardly do: who lets so many by announces and does not send, and
/// is granted slices, which show that.
const STALE: u32 = 16;

impl Standing {
    pub(super) fn new(position: GpuPosition, first: OpNumber, priority: u8) -> Self {
        Self {
            from: position,
            position,
            priority,
            through: first - 1,
            claimed: 0,
            closed: None,
            ended: false,
            stale: 0,
            seen: first - 1,
            accounted: first - 1,
            declared: 0,
            charged: 0,
            measured: 0,
        }
    }

    /// It would go on at another position. Gives whether it may.
    pub(super) fn go_on(&mut self, busy: bool) -> bool {
        let stands_still = busy && self.seen == self.through;
        self.stale = if stands_still { self.stale + 1 } else { 0 };
        self.seen = self.through;
        self.stale <= STALE
    }

    /// Whether a position is one of its own.
    pub(super) fn spans(&self, position: GpuPosition) -> bool {
        (self.from..=self.position).contains(&position)
    }

    /// Whether what follows it may be granted.
    pub(super) fn is_over(&self) -> bool {
        self.closed.is_some_and(|closed| self.accounted >= closed)
    }
}
