//! The naive view's record of sessions' memory.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{GpuPosition, Incarnation, SessionId};

/// The naive view's record of memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Sessions that their workers reported as swapped out, and that have not returned since.
    pub(super) away: BTreeSet<SessionId>,
    /// Returns that are not reported.
    pub(super) returns: BTreeMap<(Incarnation, GpuPosition), SessionId>,
}
