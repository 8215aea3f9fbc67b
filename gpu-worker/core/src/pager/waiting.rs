//! Requests for memory, waiting requests, and the answers.

use bus_schemas::{Failure, MemoryAnswer, OpNumber, SessionId, WIRE_VERSION};

use crate::Nanos;

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRequested {
    /// The session that asks.
    pub session: SessionId,
    /// Its number among those of its session; 0 stands for none.
    pub number: u64,
    /// Bytes that the session holds by its client's count, when its ops through `after` have run. It takes no
    /// more before the answer, unless `wanted` is within its commitment.
    pub held: u64,
    /// The op sent last.
    pub after: OpNumber,
    /// Maximum bytes that the session wants to hold from there on.
    pub wanted: u64,
    /// Bytes that it needs.
    pub least: u64,
    /// The newest recall that the client has obeyed; 0 stands for none.
    pub recall: u64,
}

/// A tenant's share of a device's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantMemory {
    /// Bytes that it may hold: its quota, or all of the device.
    pub total: u64,
    /// Bytes that its sessions have allocated.
    pub held: u64,
    /// Bytes that it may still allocate.
    pub free: u64,
}

impl TenantMemory {
    /// Returns the answer to the request of this number.
    #[must_use]
    pub fn answer(self, number: u64, committed: u64, failure: Option<Failure>) -> MemoryAnswer {
        MemoryAnswer {
            v: WIRE_VERSION,
            number,
            recall: 0,
            committed,
            total: self.total,
            held: self.held,
            free: self.free,
            failure,
        }
    }
}

/// An action of the pager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryAction {
    /// Answer a session's request.
    Answer {
        /// The session.
        session: SessionId,
        /// The request's number.
        number: u64,
        /// Bytes that are committed to the session now.
        committed: u64,
        /// The memory of its tenant.
        memory: TenantMemory,
        /// The failure, if it did not get the bytes that it needs.
        refused: Option<Failure>,
    },
    /// Ask a session's client to lower its commitment to the bytes that it holds.
    Recall {
        /// The session.
        session: SessionId,
        /// The recall's number.
        number: u64,
    },
}

/// A request that waits for memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) requested: MemoryRequested,
    pub(super) since: Nanos,
}

impl Waiting {
    pub(super) fn session(&self) -> SessionId {
        self.requested.session
    }
}
