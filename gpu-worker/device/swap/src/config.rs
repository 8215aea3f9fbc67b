//! The configuration of a swap space.

use std::path::PathBuf;

/// How large a swap space is. By default it has no room at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwapConfig {
    /// Bytes that it may hold in the host's memory. They are taken as they are needed.
    pub memory: u64,
    /// What it may hold beside them in a file.
    pub file: Option<SwapFile>,
}

/// A swap file. It has no name, and is gone with its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapFile {
    /// The directory whose file system it is in: on a disk, for what is in memory takes memory.
    pub dir: PathBuf,
    /// Its bytes, all of which are reserved at once.
    pub bytes: u64,
}
