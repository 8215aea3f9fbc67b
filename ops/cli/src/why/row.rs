//! One position and what it waited for.

use scheduler_leader_core::replay::ReplayedPosition;
use scheduler_leader_core::why::{Cause, Timing, Wait};
use serde::Serialize;

use crate::record::PositionRow;

/// A time that was waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitRow {
    /// For what.
    pub cause: Cause,
    /// The tenant whose doing it was; none where it was nobody's.
    pub of: Option<String>,
    /// Nanoseconds.
    pub ns: u64,
}

/// Waits as they are told.
#[must_use]
pub fn wait_rows(waits: &[Wait]) -> Vec<WaitRow> {
    let row = |wait: &Wait| WaitRow {
        cause: wait.cause,
        of: wait.of.as_ref().map(ToString::to_string),
        ns: wait.ns,
    };
    waits.iter().map(row).collect()
}

/// One position that ran. Times are nanoseconds of the leader's clock (since 1970, as its host knew when the
/// leader began).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedRow {
    /// The position.
    #[serde(flatten)]
    pub position: PositionRow,
    /// When the leader heard of its first op; of a standing grant, when it was granted.
    pub announced_ns: u64,
    /// When it was granted.
    pub granted_ns: u64,
    /// When its worker had the grant.
    pub accepted_ns: u64,
    /// When it was handed to the device.
    pub begun_ns: u64,
    /// When its first op began.
    pub started_ns: u64,
    /// When its last op had ended.
    pub ended_ns: u64,
    /// From announced to started; of a standing grant, for how long ops of it were on the worker and had not
    /// started.
    pub waited_ns: u64,
    /// What for, the longest first: together `waited_ns`.
    pub waits: Vec<WaitRow>,
}

impl ExplainedRow {
    /// A position with its times, where it has any.
    #[must_use]
    pub fn of(position: &ReplayedPosition) -> Option<Self> {
        let timing: &Timing = position.timing.as_deref()?;
        Some(Self {
            position: PositionRow::from(position),
            announced_ns: timing.announced,
            granted_ns: timing.granted,
            accepted_ns: timing.accepted,
            begun_ns: timing.begun,
            started_ns: timing.started,
            ended_ns: timing.ended,
            waited_ns: timing.waited_ns,
            waits: wait_rows(&timing.waits),
        })
    }
}
