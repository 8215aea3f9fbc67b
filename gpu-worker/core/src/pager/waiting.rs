//! Requests for memory, what waits of them, and the answers.

use bus_schemas::{Failure, MemoryAnswer, OpNumber, SessionId, WIRE_VERSION};

use crate::Nanos;

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRequested {
    /// Whose.
    pub session: SessionId,
    /// Its number among those of its session; 0 is none.
    pub number: u64,
    /// Bytes that the session holds as its client counts, when its ops through `after` have run. It
    /// takes no more before the answer, unless `wanted` is no more than is committed to it.
    pub held: u64,
    /// The op sent last.
    pub after: OpNumber,
    /// Bytes that the session wants to hold at most from there on.
    pub wanted: u64,
    /// Bytes that it needs.
    pub least: u64,
    /// The newest recall that the client has obeyed; 0 is none.
    pub recall: u64,
}

/// What a tenant has of a device's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantMemory {
    /// Bytes that it may hold: its quota, or what the device has.
    pub total: u64,
    /// Bytes that its sessions have allocated.
    pub held: u64,
    /// Bytes that it may still allocate.
    pub free: u64,
}

impl TenantMemory {
    /// The message that says it, to the request of this number.
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
        /// What its tenant has.
        memory: TenantMemory,
        /// Why it did not get what it needs.
        refused: Option<Failure>,
    },
    /// Ask a session's client to lower its commitment to what it holds.
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
