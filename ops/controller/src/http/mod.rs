//! Common parts of all requests: identity, permissions, extractors and headers.

pub(crate) mod etag;
pub(crate) mod extract;
pub(crate) mod gate;
pub(crate) mod idempotency;
pub(crate) mod paging;
pub(crate) mod rules;
