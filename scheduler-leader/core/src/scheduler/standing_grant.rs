//! A session's standing grant: its position, and the ops accounted so far.

use bus_schemas::{GpuPosition, OpNumber};

/// The known state of a session's standing grant.
#[derive(Debug)]
pub(super) struct Standing {
    /// The position at which it began, and the one at which it continues now.
    pub(super) from: GpuPosition,
    pub(super) position: GpuPosition,
    /// Its session's priority when it was granted: its parts run at this priority.
    pub(super) priority: u8,
    /// Its last op that ran, and the declared sum of its ops through there, folded; both as
    /// reported.
    pub(super) through: OpNumber,
    pub(super) claimed: u32,
    /// Its last op, once it is closed.
    pub(super) closed: Option<OpNumber>,
    /// True if its position has ended.
    pub(super) ended: bool,
    /// Number of positions at which it continued while announced ops did not come, and the last op
    /// that had run at the last of them.
    pub(super) stale: u32,
    pub(super) seen: OpNumber,
    /// Its last accounted op: one that ran and was announced, or was announced and closed in.
    pub(super) accounted: OpNumber,
    /// The sum (wrapping) of [`bus_schemas::CostRun::declared`] over the announced ops through there.
    pub(super) declared: u64,
    /// Nanoseconds charged and measured since both last covered the same ops.
    pub(super) charged: u64,
    pub(super) measured: u64,
}

/// Positions at which a standing grant continues while none of the announced ops run. While its
/// session's ops run, less urgent ones hardly do. So a session that lets this many pass announces
/// ops and does not send them. It is then granted slices, which show that.
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

    /// Notes that it would continue at another position. Returns true if it may.
    pub(super) fn go_on(&mut self, busy: bool) -> bool {
        let stands_still = busy && self.seen == self.through;
        self.stale = if stands_still { self.stale + 1 } else { 0 };
        self.seen = self.through;
        self.stale <= STALE
    }

    /// Returns true if a position is one of its own.
    pub(super) fn spans(&self, position: GpuPosition) -> bool {
        (self.from..=self.position).contains(&position)
    }

    /// Returns true if the work behind it may be granted.
    pub(super) fn is_over(&self) -> bool {
        self.closed.is_some_and(|closed| self.accounted >= closed)
    }
}
