//! The configuration of a swap space.

use std::path::PathBuf;

/// The size of a swap space. By default it has no room at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwapConfig {
    /// Maximum bytes in the host's memory, taken as they are needed.
    pub memory: u64,
    /// The file for further bytes.
    pub file: Option<SwapFile>,
}

/// A swap file. It has no name, and is gone with its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapFile {
    /// The directory with the file. Its file system should be on a disk, because one in memory takes memory.
    pub dir: PathBuf,
    /// Size in bytes, all reserved at once.
    pub bytes: u64,
}
