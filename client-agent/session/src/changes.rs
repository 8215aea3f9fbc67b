//! The number of times that this process may have changed what its workers say of its memory.
//!
//! NVML is linked into the same library as the drop-in. What a worker said before such a change is
//! not said again.

use std::sync::atomic::{AtomicU64, Ordering};

static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Counts an allocation, a free, or the end of a wait for an answer.
pub(crate) fn note_memory_change() {
    CHANGES.fetch_add(1, Ordering::Relaxed);
}

/// Number of allocations, frees and waits of this process so far, over all its sessions.
#[must_use]
pub fn memory_changes() -> u64 {
    CHANGES.load(Ordering::Relaxed)
}
