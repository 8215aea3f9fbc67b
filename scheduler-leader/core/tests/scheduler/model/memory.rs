//! What the naive view remembers of sessions' memory.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{GpuPosition, Incarnation, SessionId};

/// What the naive view remembers of memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Sessions that their workers said were swapped out, and that did not return since.
    pub(super) away: BTreeSet<SessionId>,
    /// Returns that are not reported.
    pub(super) returns: BTreeMap<(Incarnation, GpuPosition), SessionId>,
}
