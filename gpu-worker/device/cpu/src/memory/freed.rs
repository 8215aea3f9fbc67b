//! Allocations that were freed last, for the messages of faults.

use std::collections::VecDeque;

/// Number of freed allocations that are remembered.
const FREED: usize = 64;

/// The allocations that were freed last.
#[derive(Debug, Default)]
pub(crate) struct Freed(VecDeque<(u64, u64)>);

impl Freed {
    /// Notes an allocation that has been freed: its first byte, and the one behind its last.
    pub(crate) fn push(&mut self, start: u64, end: u64) {
        if self.0.len() == FREED {
            self.0.pop_front();
        }
        self.0.push_back((start, end));
    }

    /// Forgets those that overlap a new allocation: their bytes are in use again.
    pub(crate) fn reused(&mut self, start: u64, end: u64) {
        self.0.retain(|freed| freed.1 <= start || end <= freed.0);
    }

    /// The last freed allocation that an access was within.
    pub(crate) fn find(&self, addr: u64, end: u64) -> Option<(u64, u64)> {
        let mut all = self.0.iter().rev();
        all.find(|freed| freed.0 <= addr && end <= freed.1).copied()
    }
}
