//! A session's course under standing grants: the part of it on the device, and its pace.

use bus_schemas::OpNumber;

/// Minimum number of parts in a window on the device.
const PARTS: u64 = 4;
/// Maximum number of ops in a part.
const PART_OPS: u64 = 1_024;
/// Divisor of the estimate's fall with each part that took less.
const EASE: u64 = 8;

/// Progress of a session's ops under standing grants that go on from one another.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    /// Last op that ran, and the sum of [`bus_schemas::CostRun::declared`] over the ops that ran.
    pub(super) through: OpNumber,
    pub(super) declared: u64,
    /// Estimated nanoseconds on the device.
    pub(super) held: u64,
    /// Estimated nanoseconds of an op: those of the last part, or a little less than before.
    pub(super) pace: u64,
}

impl Course {
    /// Begins a standing grant with this window. In a session that has run nothing, an op may take as long as
    /// any. So the session starts op by op. Otherwise a later session would wait for all that this one sent
    /// at once.
    pub(super) fn begin(&mut self, unknown: u64, window: u64) {
        if self.pace == 0 {
            self.pace = unknown.max(window / PARTS).max(1);
        }
    }

    /// Number of ops that may start now, with this much on the device at a time.
    pub(super) fn room(&self, window: u64) -> u64 {
        let part = (window / PARTS / self.pace).clamp(1, PART_OPS);
        let cost = self.pace.saturating_mul(part);
        let room = self.held == 0 || self.held.saturating_add(cost) <= window;
        if room { part } else { 0 }
    }

    /// Learns from a part of `ops` ops that took this long.
    pub(super) fn learn(&mut self, ops: u64, measured: u64) {
        let mean = (measured / ops.max(1)).max(1);
        self.pace = mean.max(self.pace - self.pace / EASE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 2_000_000;

    /// A course of a standing grant without knowledge of its ops.
    fn begun() -> Course {
        let mut course = Course::default();
        course.begin(20_000, WINDOW);
        course
    }

    #[test]
    fn a_burst_of_ops_of_which_nothing_is_known_is_not_all_on_the_device() {
        let mut course = begun();
        // A few cheap ops come first: a module, an allocation, a copy.
        for _ in 0..4 {
            assert_eq!(course.room(WINDOW), 1);
            course.learn(1, 1_000);
        }
        let mut started = 0;
        while course.room(WINDOW) > 0 {
            started += course.room(WINDOW);
            course.held += course.pace * course.room(WINDOW);
        }
        assert!(started <= 8, "{started}");
    }

    #[test]
    fn short_ops_are_soon_started_many_at_a_time() {
        let mut course = begun();
        let mut ops = 0;
        while course.room(WINDOW) < 50 {
            ops += course.room(WINDOW);
            course.learn(course.room(WINDOW), 5_000 * course.room(WINDOW));
        }
        assert!(ops < 400, "{ops}");
        // A slow op starts alone, and so do those that follow.
        course.learn(50, 50 * 350_000_000);
        assert_eq!(course.room(WINDOW), 1);
    }
}
