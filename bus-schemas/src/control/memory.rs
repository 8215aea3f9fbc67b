//! A session's memory: a client asks its worker before it allocates. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::message::Message;
use crate::control::process::ClientProcess;
use crate::error::Failure;
use crate::id::OpNumber;

/// Client to worker: the device memory that the session wants to hold. Repeated until a
/// [`MemoryAnswer`] has its number. If `wanted` and `least` are within its current commitment, the
/// request returns the rest, or only asks for the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRequest {
    /// Wire version.
    pub v: u16,
    /// The request's number within the session, from 1; the worker keeps the newest.
    pub number: u64,
    /// Bytes that the session holds once its ops through `after` have run; each allocation counts
    /// as a multiple of 256. Before the answer the session allocates no more, or up to `wanted` if
    /// that is within its commitment.
    pub held: u64,
    /// The last op that was pushed.
    pub after: OpNumber,
    /// Maximum bytes that it wants to hold from then on.
    pub wanted: u64,
    /// Minimum bytes that it needs.
    pub least: u64,
    /// The newest recall that the client has obeyed; 0 if none.
    pub recall: u64,
    /// The client process, for people; sending it once suffices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ClientProcess>,
    /// True if the session's memory must never be swapped out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

impl Message for MemoryRequest {
    const ARRAY: bool = false;
}

/// Worker to client: the memory that the session may hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAnswer {
    /// Wire version.
    pub v: u16,
    /// Number of the request. 0 is a recall, which asks the client for a request, because other
    /// sessions need the unused part.
    pub number: u64,
    /// The recall's number within the session, from 1; 0 in an answer.
    pub recall: u64,
    /// Bytes that the session may hold without another request.
    pub committed: u64,
    /// Bytes that its tenant may hold on this device: its quota, or the device's memory. If memory
    /// is overcommitted, no more than one session may hold.
    pub total: u64,
    /// Bytes that its tenant has allocated there.
    pub held: u64,
    /// Bytes that its tenant may still allocate there; if memory is overcommitted, the session.
    pub free: u64,
    /// The reason that the session did not get its minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Message for MemoryAnswer {
    const ARRAY: bool = false;
}
