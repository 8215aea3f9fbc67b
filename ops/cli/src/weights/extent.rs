//! The place of a tensor in a file, and what is wrong with a file that does not say it.

use std::io::ErrorKind;

/// Bytes of a file's head at most.
pub(super) const HEAD_BYTES: u64 = 100_000_000;
/// Tensors of a file at most.
pub(super) const TENSORS: usize = 1 << 20;
/// Bytes of a tensor's name at most.
pub(super) const NAME_BYTES: usize = 512;

/// Where a tensor lies, as a file's head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) name: String,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// What is wrong with a file.
pub(super) fn malformed(why: impl Into<String>) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, why.into())
}
