//! An owned slice of a session's ops, as the device's thread gets it.

use std::ops::Range;
use std::sync::Arc;

use bus_schemas::{Failure, GpuPosition, OpError, OpNumber, Ops, SessionId};
use bytes::Bytes;

use crate::CopyBytes;

/// A contiguous run of ops inside one received batch message. The bytes are shared, not copied.
#[derive(Debug, Clone)]
pub struct OpSpan {
    bytes: Bytes,
    descriptors: Range<usize>,
    blob: Range<usize>,
    count: u32,
}

impl OpSpan {
    /// Creates a span of `count` ops with descriptors and payloads at these ranges of `bytes`.
    ///
    /// # Errors
    /// When the ranges lie outside, or do not hold exactly these ops.
    pub fn new(
        bytes: Bytes,
        descriptors: Range<usize>,
        blob: Range<usize>,
        count: u32,
    ) -> Result<Self, OpError> {
        let column = bytes.get(descriptors.clone()).unwrap_or_default();
        let payloads = bytes.get(blob.clone()).unwrap_or_default();
        Ops::new(count, column, payloads)?;
        Ok(Self {
            bytes,
            descriptors,
            blob,
            count,
        })
    }

    /// The ops, checked when the span was made.
    #[must_use]
    pub fn ops(&self) -> Ops<'_> {
        Ops::checked_before(
            &self.bytes[self.descriptors.clone()],
            &self.bytes[self.blob.clone()],
        )
    }

    /// Number of ops.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// The unit that a device runs.
#[derive(Debug, Clone)]
pub struct Slice {
    /// Its gpu position.
    pub position: GpuPosition,
    /// Its session.
    pub session: SessionId,
    /// Its priority; 0 is the most urgent. A preemptive device lets it overtake less urgent slices.
    pub priority: u8,
    /// Number of its first op.
    pub first: OpNumber,
    /// Its ops, in order.
    pub spans: Vec<OpSpan>,
    /// Staged bytes of the copies that name a transfer, by transfer.
    pub transfers: Vec<(u64, Arc<CopyBytes>)>,
    /// An op that must fail when its turn comes (quota, a false declaration of cost), with the failure. The
    /// device runs the ops before it and completes with this fault.
    pub fail_at: Option<(OpNumber, Failure)>,
    /// Bytes that the blocks of launches may take from these ops on, in op order. Before the first op it is
    /// [`SMALL_LAUNCH`](crate::SMALL_LAUNCH).
    pub launch_bytes: Vec<(OpNumber, u64)>,
}
