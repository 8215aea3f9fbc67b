//! Recent work on a worker, by which placement estimates its load.

use crate::policy::TICK_NS;

/// Ticks over which granted work counts as recent: one second.
pub(super) const RECENT_TICKS: u32 = 100;
/// Nanoseconds of these ticks.
const RECENT_NS: u64 = RECENT_TICKS as u64 * TICK_NS;

/// Work granted recently on a worker. For standing grants, it is work that is known to have run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recent {
    /// Nanoseconds in the current second.
    now: u64,
    /// Nanoseconds in the second before.
    before: u64,
}

impl Recent {
    pub(super) fn note(&mut self, cost: u64) {
        self.now = self.now.saturating_add(cost);
    }

    /// Starts the next second.
    pub(super) fn turn(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// Percent of the device's time, in the busier of the two seconds.
    pub(super) fn percent(self) -> u8 {
        let percent = self.now.max(self.before) / (RECENT_NS / 100);
        percent.min(100) as u8
    }

    pub(super) fn is_none(self) -> bool {
        self.now == 0 && self.before == 0
    }
}
