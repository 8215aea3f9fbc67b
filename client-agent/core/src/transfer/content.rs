//! What is known of a copy that was offered by the hashes of its chunks.

use bytes::Bytes;

/// How far an offered transfer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// The worker has not answered.
    Asked,
    /// The worker holds these chunks (a bit for each), and the bytes are to be taken.
    Wanted(u64),
    /// They were: the same.
    Taken(u64),
}

/// A question on its way.
#[derive(Debug)]
pub(super) struct Question {
    /// The copy's first transfer, and how many it has.
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) message: Bytes,
    pub(super) published: bool,
}
