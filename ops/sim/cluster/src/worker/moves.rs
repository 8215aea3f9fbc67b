//! Moves of sessions' memory in progress.

use bus_schemas::SessionId;

use crate::Nanos;

/// What is moved at a time.
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
    /// Somebody who waits for memory is looked at again soon.
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
