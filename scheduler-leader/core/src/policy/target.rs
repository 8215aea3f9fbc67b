//! The demands of tenants with a target on those of lower priority on one GPU.
//!
//! Nothing here looks at a clock: a request is estimated from the charges of its ops, and time is
//! counted in ticks, which are recorded.

use crate::by_priority::ByPriority;

/// Ticks for which a tenant counts as active after its last work was done.
const LINGER: u8 = 10;
/// A peak falls by its value divided by this with each lower figure.
const FALL: u64 = 64;

/// A maximum that falls slowly: roughly the highest of the last few dozen figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Peak(u64);

impl Peak {
    /// Takes in a figure.
    pub(crate) fn note(&mut self, figure: u64) {
        self.0 = figure.max(self.0 - self.0.div_ceil(FALL));
    }

    /// The peak, 0 before the first figure.
    pub(crate) fn get(self) -> u64 {
        self.0
    }
}

/// Tracks if a flow's sessions have work queued or under way, or had it recently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    /// Sessions with work that is not done.
    busy: u32,
    /// Ticks left until the flow is inactive, while no session is busy.
    left: u8,
}

impl Presence {
    /// Notes that a session has work.
    pub(crate) fn begin(&mut self) {
        self.busy += 1;
    }

    /// Notes that a session has no more work.
    pub(crate) fn end(&mut self) {
        self.busy = self.busy.saturating_sub(1);
        if self.busy == 0 {
            self.left = LINGER;
        }
    }

    /// Notes that a tick has passed.
    pub(crate) fn tick(&mut self) {
        if self.busy == 0 {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// Ends the lingering: its tenant had no target, so earlier work does not count.
    pub(crate) fn forget(&mut self) {
        self.left = 0;
    }

    /// Returns true if the flow counts as active.
    pub(crate) fn is_active(self) -> bool {
        self.busy > 0 || self.left > 0
    }

    /// Returns true if it is active only until some ticks have passed.
    pub(crate) fn is_leaving(self) -> bool {
        self.busy == 0 && self.left > 0
    }
}

/// The costliest slice that may go ahead of a request with this target: half of the time that the
/// request itself leaves. It is at least a quantum, the bound of all slices but those of a single
/// op.
pub(crate) fn longest_ahead(target: u64, request: u64, quantum: u64) -> u64 {
    (target.saturating_sub(request) / 2).max(quantum)
}

/// For each priority, the costliest slice that the active targets above it let ahead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits(ByPriority<Option<u64>>);

impl Limits {
    /// Adds a tenant of this priority, which lets no costlier slice of a lower priority ahead.
    pub(crate) fn add(&mut self, priority: u8, longest: u64) {
        for limit in self.0.below_mut(priority) {
            *limit = Some(limit.map_or(longest, |known| known.min(longest)));
        }
    }

    /// The limit of a priority, if a target above it is active.
    pub(crate) fn of(&self, priority: u8) -> Option<u64> {
        self.0[priority]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_a_maximum_that_falls_slowly() {
        let mut peak = Peak::default();
        assert_eq!(peak.get(), 0);
        peak.note(6_400);
        assert_eq!(peak.get(), 6_400);
        peak.note(1);
        assert_eq!(peak.get(), 6_300);
        peak.note(7_000);
        assert_eq!(peak.get(), 7_000);
        (0..1_000).for_each(|_| peak.note(500));
        assert_eq!(peak.get(), 500, "it does not fall below what is");
        peak.note(u64::MAX);
        (0..10_000).for_each(|_| peak.note(0));
        assert_eq!(peak.get(), 0, "it ends at nothing");
    }

    #[test]
    fn presence_lasts_ten_ticks_beyond_the_last_work() {
        let mut presence = Presence::default();
        assert!(!presence.is_active());
        presence.begin();
        presence.begin();
        presence.end();
        (0..100).for_each(|_| presence.tick());
        assert!(presence.is_active() && !presence.is_leaving());
        presence.end();
        for _ in 0..10 {
            assert!(presence.is_leaving());
            presence.tick();
        }
        assert!(!presence.is_active());
    }

    #[test]
    fn the_tightest_target_above_limits() {
        assert_eq!(longest_ahead(10_000_000, 4_000_000, 500_000), 3_000_000);
        assert_eq!(longest_ahead(10_000_000, 9_500_000, 500_000), 500_000);
        assert_eq!(longest_ahead(1_000_000, 9_500_000, 500_000), 500_000);
        let mut limits = Limits::default();
        limits.add(1, 700);
        limits.add(3, 500);
        assert_eq!(
            *limits.0.values(),
            [None, None, Some(700), Some(700), Some(500)]
        );
    }
}
