//! A session's memory: a client asks its worker before it allocates. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::message::Message;
use crate::control::process::ClientProcess;
use crate::error::Failure;
use crate::id::OpNumber;

/// Client to worker: how much the session wants to hold of the device's memory. Said again until a
/// [`MemoryAnswer`] has its number. With `wanted` and `least` both at most what it may hold already,
/// it gives back the rest, or asks how things are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRequest {
    /// Wire version.
    pub v: u16,
    /// Its number among those of the session, from 1; the worker knows the newest.
    pub number: u64,
    /// Bytes that the session holds when its ops through `after` have run: each allocation counts as
    /// a multiple of 256. It takes no more before the answer.
    pub held: u64,
    /// The op pushed last.
    pub after: OpNumber,
    /// Bytes that it wants to hold at most from there on.
    pub wanted: u64,
    /// Bytes that it needs.
    pub least: u64,
    /// The newest recall that the client has obeyed; 0 is none.
    pub recall: u64,
    /// The process that has the session, for people; said once is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ClientProcess>,
    /// The session's memory is never to be swapped out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

impl Message for MemoryRequest {
    const ARRAY: bool = false;
}

/// Worker to client: what the session may hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAnswer {
    /// Wire version.
    pub v: u16,
    /// The request that it answers; 0 is a recall, which asks for one: others need what the session
    /// does not use.
    pub number: u64,
    /// The recall's number among those of the session, from 1; 0 in an answer.
    pub recall: u64,
    /// Bytes that the session may hold without asking.
    pub committed: u64,
    /// Bytes that its tenant may hold on this device: its quota, or what the device has.
    pub total: u64,
    /// Bytes that its tenant has allocated there.
    pub held: u64,
    /// Bytes that its tenant may still allocate there.
    pub free: u64,
    /// Why the session did not get what it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Message for MemoryAnswer {
    const ARRAY: bool = false;
}
