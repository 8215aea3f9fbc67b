//! Moves of sessions' memory in progress.

use bus_schemas::SessionId;

use crate::Nanos;

/// The move of a session's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub(super) session: SessionId,
    pub(super) out: bool,
    pub(super) began: Nanos,
    pub(super) ends: Nanos,
}

/// The moves of a worker, one after the other.
#[derive(Debug, Default)]
pub(super) struct Moves {
    pub(super) ns_per_mib: u64,
    pub(super) moves: Vec<Move>,
    /// True if a look at the sessions that wait for memory is scheduled.
    pub(super) looks: bool,
}

impl Moves {
    pub(super) fn new(ns_per_mib: u64) -> Self {
        Self {
            ns_per_mib,
            ..Self::default()
        }
    }
}
