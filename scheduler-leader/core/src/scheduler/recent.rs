//! Work of late on a worker, by which placement judges how busy it is.

use crate::policy::TICK_NS;

/// Ticks over which granted work counts as recent: a second.
pub(super) const RECENT_TICKS: u32 = 100;
/// Nanoseconds of that.
const RECENT_NS: u64 = RECENT_TICKS as u64 * TICK_NS;

/// Work granted on a worker of late; of standing grants, work that is known to have run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recent {
    /// In the second that goes on.
    now: u64,
    /// In the one before.
    before: u64,
}

impl Recent {
    pub(super) fn note(&mut self, cost: u64) {
        self.now = self.now.saturating_add(cost);
    }

    /// A second is over.
    pub(super) fn turn(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// Percent of the device's time, by the busier of the two seconds.
    pub(super) fn percent(self) -> u8 {
        let percent = self.now.max(self.before) / (RECENT_NS / 100);
        percent.min(100) as u8
    }

    pub(super) fn is_none(self) -> bool {
        self.now == 0 && self.before == 0
    }
}
