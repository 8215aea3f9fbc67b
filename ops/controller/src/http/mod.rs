//! What all requests have in common: who asks, what they may, what a request brings and what answers carry.

pub(crate) mod etag;
pub(crate) mod extract;
pub(crate) mod gate;
pub(crate) mod idempotency;
pub(crate) mod paging;
pub(crate) mod rules;
