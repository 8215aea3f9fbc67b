//! Blocks of the record that the broker has not stored yet.

use serde::{Deserialize, Serialize};

use crate::codec::message::Message;
use crate::id::{Epoch, LeaderId};

/// Leader to candidates: a block of the record that the stream has not acknowledged. Candidates
/// keep it, and whoever leads next appends it: so it outlives its leader while the broker stores
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnstoredCopy<'a> {
    /// Wire version.
    pub v: u16,
    /// The block's epoch.
    pub epoch: Epoch,
    /// Who wrote it.
    pub leader: LeaderId,
    /// Blocks of this leader in this epoch that are stored without a gap: they need not be kept.
    pub stored: u64,
    /// The block's number in the epoch, from 1; 0 where only `stored` is told.
    pub number: u64,
    /// The block, as it is in the stream.
    #[serde(with = "serde_bytes")]
    pub bytes: &'a [u8],
}

impl Message for UnstoredCopy<'_> {
    const ARRAY: bool = true;
}
