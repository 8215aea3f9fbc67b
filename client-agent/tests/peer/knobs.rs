//! The knobs of a test: its settings and counters.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bus_schemas::{RequestReport, SessionId};

/// The settings and counters of a test.
#[derive(Default)]
pub(crate) struct Knobs {
    /// One of this many messages is lost, both ways; 0 loses none.
    pub(crate) lose: AtomicU32,
    /// The op that faults, 0 for none.
    pub(crate) fault: AtomicU64,
    /// Batches received, resent ones too.
    pub(crate) batches: AtomicU64,
    /// Bytes of module images received, each once, without those that were offered first.
    pub(crate) image_bytes: AtomicU64,
    /// Launches run: (function, grid x, parameters).
    pub(crate) launches: Mutex<Vec<(u32, u32, Vec<u8>)>>,
    /// Reported requests, with their sessions.
    pub(crate) reports: Mutex<Vec<(SessionId, RequestReport)>>,
    count: AtomicU32,
}

impl Knobs {
    pub(super) fn loses(&self) -> bool {
        let every = self.lose.load(Ordering::Relaxed);
        // Scattered; otherwise the losses would fall into step with resent messages.
        let scattered = |count: u32| count.wrapping_mul(0x9e37_79b9).rotate_left(11) ^ count;
        every > 0 && scattered(self.count.fetch_add(1, Ordering::Relaxed)) % every == 0
    }
}
