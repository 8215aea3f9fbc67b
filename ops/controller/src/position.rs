//! A position of the launch order, as the interface presents it.

use std::str::FromStr;

use admin::record::PositionRow;
use bus_schemas::{Epoch, GlobalPosition};
use scheduler_leader_core::replay::ReplayedPosition;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Identity;
use crate::waits::{self, WaitModel};

/// A global position: the place in the order of the whole cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct At {
    /// The epoch.
    pub(crate) epoch: Epoch,
    /// The position in this epoch.
    pub(crate) global: GlobalPosition,
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.epoch, self.global)
    }
}

impl FromStr for At {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "not EPOCH.POSITION, such as 3.1742";
        let (epoch, global) = text.split_once('.').ok_or(wrong)?;
        Ok(Self {
            epoch: epoch.parse().map_err(|_| wrong)?,
            global: global.parse().map_err(|_| wrong)?,
        })
    }
}

impl From<&ReplayedPosition> for At {
    fn from(position: &ReplayedPosition) -> Self {
        Self {
            epoch: position.epoch,
            global: position.global,
        }
    }
}

/// A position with a recorded end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Position {
    /// `EPOCH.GLOBAL`: its place in the order of the whole cluster.
    #[schema(example = "3.1742")]
    pub(crate) id: String,
    /// The device.
    pub(crate) gpu: u32,
    /// The worker, 16 hexadecimal digits.
    pub(crate) worker: String,
    /// The position in the worker's order.
    pub(crate) position: u64,
    /// The session's tenant.
    pub(crate) tenant: String,
    /// The session, 16 hexadecimal digits.
    pub(crate) session: String,
    /// The session's number among its tenant's, from 1.
    pub(crate) ordinal: u64,
    /// `run`, `open`, `close`, `standing`, `revoke` or `return`.
    pub(crate) kind: String,
    /// First op.
    pub(crate) first: u64,
    /// Last op.
    pub(crate) last: u64,
    /// The priority at which it ran.
    pub(crate) priority: u8,
    /// Kernels among the ops.
    pub(crate) kernels: Option<u64>,
    /// Charged device nanoseconds.
    pub(crate) cost_ns: u64,
    /// Measured device nanoseconds.
    pub(crate) measured_ns: Option<u64>,
    /// `ran`, `void` or `gone`.
    pub(crate) outcome: Option<String>,
    /// True if it was not recomputed, but taken from a worker's report.
    pub(crate) adopted: bool,
    /// Time at which its end was recorded, milliseconds since 1970. Null if it ended before this
    /// controller began to watch.
    pub(crate) at_ms: Option<u64>,
    /// Nanoseconds from the announcement to the leader until its start; null if not recorded.
    pub(crate) waited_ns: Option<u64>,
    /// The causes of the wait, the longest first; together they are `waited_ns`. Of many, only the
    /// longest name the tenant that caused them.
    pub(crate) waits: Option<Vec<WaitModel>>,
}

impl Position {
    /// The model of a replayed position, with its waits.
    pub(crate) fn explained(replayed: &ReplayedPosition, at_ms: Option<u64>) -> Self {
        let timing = replayed.timing.as_deref();
        Self {
            waited_ns: timing.map(|timing| timing.waited_ns),
            waits: timing.map(|timing| waits::few(&timing.waits).0),
            ..Self::of(PositionRow::from(replayed), at_ms)
        }
    }

    /// The position for a caller who may see it, without hidden names.
    pub(crate) fn seen_by(mut self, who: &Identity) -> Self {
        self.waits = self.waits.map(|waits| waits::seen_by(waits, who));
        self
    }

    /// The model of a row of the order, which has no times.
    pub(crate) fn of(row: PositionRow, at_ms: Option<u64>) -> Self {
        // Without `..`, so that a new field is presented or left out on purpose.
        let PositionRow {
            gpu,
            incarnation: worker,
            position,
            global,
            epoch,
            tenant,
            ordinal,
            session,
            kind,
            first,
            last,
            input: _,
            priority,
            kernels,
            cost_ns,
            outcome,
            measured_ns,
            adopted,
            chain: _,
        } = row;
        Self {
            id: At { epoch, global }.to_string(),
            gpu,
            worker,
            position,
            tenant,
            session,
            ordinal,
            kind,
            first,
            last,
            priority,
            kernels,
            cost_ns,
            measured_ns,
            outcome,
            adopted,
            at_ms,
            waited_ns: None,
            waits: None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use bus_schemas::{GrantKind, Incarnation, SessionId};

    use super::*;

    /// A replayed position without times.
    pub(crate) fn replayed(epoch: Epoch, global: GlobalPosition, tenant: &str) -> ReplayedPosition {
        ReplayedPosition {
            gpu: (global % 2) as u32,
            incarnation: Incarnation(1),
            position: global,
            global,
            epoch,
            input: 0,
            tenant: tenant.parse().unwrap(),
            ordinal: 1,
            session: SessionId(1),
            kind: GrantKind::Run,
            priority: 0,
            first: 1,
            last: 1,
            launches: Some(1),
            work: Vec::new(),
            cost: 0,
            end: None,
            adopted: false,
            timing: None,
            chain: None,
        }
    }

    #[test]
    fn a_place_reads_as_it_is_written() {
        let at = At {
            epoch: 3,
            global: 17,
        };
        assert_eq!(at.to_string().parse(), Ok(at));
        for bad in ["", "3", ".", "3.", "a.b", "3.-1", "3.1.2"] {
            assert!(bad.parse::<At>().is_err(), "{bad}");
        }
    }
}
