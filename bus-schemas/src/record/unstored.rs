//! Blocks of the record that the broker has not stored yet.

use serde::{Deserialize, Serialize};

use crate::codec::message::Message;
use crate::id::{Epoch, LeaderId};

/// Leader to candidates: a block of the record that the stream has not acknowledged. Candidates
/// keep it, and the next leader appends it. So it outlives its leader while the broker cannot store
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnstoredCopy<'a> {
    /// Wire version.
    pub v: u16,
    /// The block's epoch.
    pub epoch: Epoch,
    /// The leader that wrote it.
    pub leader: LeaderId,
    /// Number of this leader's blocks in this epoch that are stored without a gap, and need not be
    /// kept.
    pub stored: u64,
    /// The block's number in the epoch, from 1; 0 if the message only reports `stored`.
    pub number: u64,
    /// The block, as it is in the stream.
    #[serde(with = "serde_bytes")]
    pub bytes: &'a [u8],
}

impl Message for UnstoredCopy<'_> {
    const ARRAY: bool = true;
}
