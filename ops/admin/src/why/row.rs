//! One position and its waits.

use scheduler_leader_core::replay::ReplayedPosition;
use scheduler_leader_core::why::{Cause, Timing, Wait};
use serde::Serialize;

use crate::record::PositionRow;

/// A part of a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitRow {
    /// The cause.
    pub cause: Cause,
    /// The tenant that caused it; `None` if no tenant did.
    pub of: Option<String>,
    /// Nanoseconds.
    pub ns: u64,
}

/// Waits as rows.
#[must_use]
pub fn wait_rows(waits: &[Wait]) -> Vec<WaitRow> {
    let row = |wait: &Wait| WaitRow {
        cause: wait.cause,
        of: wait.of.as_ref().map(ToString::to_string),
        ns: wait.ns,
    };
    waits.iter().map(row).collect()
}

/// One position that ran. Times are nanoseconds of the leader's clock: since 1970, as known to its
/// host when the leader began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedRow {
    /// The position.
    #[serde(flatten)]
    pub position: PositionRow,
    /// Time at which the leader heard of its first op; for a standing grant, the time of the grant.
    pub announced_ns: u64,
    /// Time at which it was granted.
    pub granted_ns: u64,
    /// Time at which its worker had the grant.
    pub accepted_ns: u64,
    /// Time at which it was handed to the device.
    pub begun_ns: u64,
    /// Time at which its first op began.
    pub started_ns: u64,
    /// Time at which its last op had ended.
    pub ended_ns: u64,
    /// Time from announced to started. For a standing grant, the time in which ops were on the
    /// worker and had not started.
    pub waited_ns: u64,
    /// Causes of the wait, the longest first; their sum is `waited_ns`.
    pub waits: Vec<WaitRow>,
}

impl ExplainedRow {
    /// A position with its times; `None` if it has none.
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
