//! Drains: workers that take no new sessions and leave when they have none.

use serde::{Deserialize, Serialize};

use crate::codec::message::Message;
use crate::id::{Epoch, Incarnation, LeaderId};

/// Administrator to leader, a request: place no new sessions on a worker, and have it leave when it
/// has none any more; or place sessions there again. Recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// Wire version.
    pub v: u16,
    /// The worker.
    pub incarnation: Incarnation,
    /// Whether it is drained from now on.
    pub draining: bool,
}

impl Message for Drain {
    const ARRAY: bool = false;
}

/// Leader to a worker that is drained and has no sessions, with every heartbeat of it: leave. Or, to
/// one that has announced by itself that it leaves: that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    /// Wire version.
    pub v: u16,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// The worker has announced that it leaves, and the leader has noted it: gone, the worker is not
    /// taken for lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noted: bool,
}

impl Message for Leave {
    const ARRAY: bool = false;
}
