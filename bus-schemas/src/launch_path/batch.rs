//! The batch: a client's ops on their way to the worker. It is an array of a version, a few numbers
//! and packed columns.

use serde::{Deserialize, Serialize};

use crate::codec::message::Message;
use crate::id::OpNumber;
use crate::launch_path::ops::{OpError, Ops};

/// Client to worker: the ops `first .. first + count` of a session. Repeated until the worker's
/// `received` covers it; the worker trims an overlap with what it has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch<'a> {
    /// Wire version.
    pub v: u16,
    /// Number of the first op.
    pub first: OpNumber,
    /// Number of ops.
    pub count: u32,
    /// Results received so far, without a gap: the worker may forget them.
    pub results: u64,
    /// [`crate::DESCRIPTOR_BYTES`] bytes per op.
    #[serde(with = "serde_bytes")]
    pub descriptors: &'a [u8],
    /// The ops' payloads, one after the other.
    #[serde(with = "serde_bytes")]
    pub blob: &'a [u8],
}

impl Message for Batch<'_> {
    const ARRAY: bool = true;
}

impl<'a> Batch<'a> {
    /// Returns the batch's ops, checked.
    ///
    /// # Errors
    /// [`OpError`] about the first problem.
    pub fn ops(&self) -> Result<Ops<'a>, OpError> {
        Ops::new(self.count, self.descriptors, self.blob)
    }
}
