//! Drains: a drained worker takes no new sessions, and leaves when it has none.

use serde::{Deserialize, Serialize};

use crate::codec::message::Message;
use crate::id::{Epoch, Incarnation, LeaderId};

/// Administrator to leader, a request to drain a worker, or to end its drain. A drained worker gets
/// no new sessions, and leaves when it has none left. Recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Wire version.
    pub v: u16,
    /// The worker.
    pub incarnation: Incarnation,
    /// True if the worker is drained from now on.
    pub draining: bool,
}

impl Message for Drain {
    const ARRAY: bool = false;
}

/// Leader to a drained worker without sessions, after each of its heartbeats: leave. To a worker
/// that has announced its leaving by itself, it confirms that. A worker that has not joined learns
/// that a live worker has its gpu number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    /// Wire version.
    pub v: u16,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// True if the leader has noted the worker's announcement: once gone, the worker does not count
    /// as lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noted: bool,
    /// True if a live worker has the gpu number of this one, which obeys no leader yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken: bool,
}

impl Message for Leave {
    const ARRAY: bool = false;
}
