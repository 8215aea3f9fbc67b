//! Address windows: the ranges of sessions' device pointers.

use serde::{Deserialize, Serialize};

use crate::limits::{ADDRESS_FIRST, ADDRESS_LAST};

/// A range of device addresses that belongs to one session of one worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Window {
    /// First address, a multiple of 2 MiB.
    pub base: u64,
    /// Bytes, a multiple of 2 MiB.
    pub size: u64,
}

impl Window {
    /// First address after the window.
    #[must_use]
    pub fn end(self) -> u64 {
        self.base.saturating_add(self.size)
    }

    /// Start of the worker's part, which holds variables of modules. The client allocates below it,
    /// in fifteen sixteenths of the window.
    #[must_use]
    pub fn worker_part(self) -> u64 {
        self.base.saturating_add(self.size / 16 * 15)
    }

    /// True if `bytes` bytes at `address` lie completely inside.
    #[must_use]
    pub fn contains(self, address: u64, bytes: u64) -> bool {
        address >= self.base
            && address
                .checked_add(bytes)
                .is_some_and(|end| end <= self.base + self.size)
    }

    /// True if a leader may hand out the window.
    #[must_use]
    pub fn is_valid(self) -> bool {
        let aligned = self.base.is_multiple_of(2 << 20) && self.size.is_multiple_of(2 << 20);
        let inside = self.base >= ADDRESS_FIRST
            && self
                .base
                .checked_add(self.size)
                .is_some_and(|end| end <= ADDRESS_LAST);
        aligned && inside && self.size > 0
    }
}
