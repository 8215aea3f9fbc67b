//! The state of a copy that is offered by the hashes of its chunks.

use bytes::Bytes;

/// The progress of an offered transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// The worker has not answered.
    Asked,
    /// The worker holds these chunks (a bit for each), and the bytes must be taken.
    Wanted(u64),
    /// The bytes were taken; the worker holds these chunks.
    Taken(u64),
}

/// A question on its way.
#[derive(Debug)]
pub(super) struct Question {
    /// The copy's first transfer, and its number of transfers.
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) message: Bytes,
    pub(super) published: bool,
}
