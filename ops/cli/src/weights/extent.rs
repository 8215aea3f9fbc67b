//! The place of a tensor in a file, and the error of a file without it.

use std::io::ErrorKind;

/// Maximum bytes of a file's head.
pub(super) const HEAD_BYTES: u64 = 100_000_000;
/// Maximum number of tensors of a file.
pub(super) const TENSORS: usize = 1 << 20;
/// Maximum bytes of a tensor's name.
pub(super) const NAME_BYTES: usize = 512;

/// The extent of a tensor according to the file's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) name: String,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// The error of a malformed file.
pub(super) fn malformed(why: impl Into<String>) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, why.into())
}
