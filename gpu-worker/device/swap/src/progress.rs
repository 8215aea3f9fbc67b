//! Progress of the moves under way, for reports.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of all moves in progress.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    moved: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Returns the bytes that were moved, and that are to be moved in all.
    pub(crate) fn read(&self) -> (u64, u64) {
        let moved = self.moved.load(Ordering::Relaxed);
        let total = self.total.load(Ordering::Relaxed);
        (moved.min(total), total)
    }
}

/// One move's part of it, while the move is in progress.
#[derive(Debug)]
pub(crate) struct Part<'p> {
    all: &'p Progress,
    moved: u64,
    total: u64,
}

impl<'p> Part<'p> {
    /// Adds a move of `total` bytes that begins.
    pub(crate) fn of(all: &'p Progress, total: u64) -> Self {
        all.total.fetch_add(total, Ordering::Relaxed);
        let moved = 0;
        Self { all, moved, total }
    }

    /// Counts this many more bytes as moved.
    pub(crate) fn count(&mut self, bytes: u64) {
        // The figure is for users: a session may have touched more since the total was taken.
        let bytes = bytes.min(self.total - self.moved);
        self.moved += bytes;
        self.all.moved.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.all.moved.fetch_sub(self.moved, Ordering::Relaxed);
        self.all.total.fetch_sub(self.total, Ordering::Relaxed);
    }
}
