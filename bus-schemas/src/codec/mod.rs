//! The encoding of messages: complete ones, packed columns in them, and data too large for one.

pub(crate) mod chunked;
pub(crate) mod column;
pub(crate) mod decode_budget;
pub(crate) mod framing;
pub(crate) mod message;
pub(crate) mod sample_hash;
