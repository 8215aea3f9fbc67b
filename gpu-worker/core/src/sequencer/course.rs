//! A session's course under standing grants: how much of it is on the device, and how fast it is.

use bus_schemas::OpNumber;

/// Parts that a window on the device is made of at least.
const PARTS: u64 = 4;
/// Ops in a part at most.
const PART_OPS: u64 = 1_024;
/// An estimate falls by one part in this with each part that took less.
const EASE: u64 = 8;

/// How a session's ops come along under standing grants that go on from one another.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    /// Last op that ran, and the sum of what those that ran declare.
    pub(super) through: OpNumber,
    pub(super) declared: u64,
    /// Estimated nanoseconds on the device.
    pub(super) held: u64,
    /// Estimated nanoseconds of an op: what the last part's took, or a little less than before.
    pub(super) pace: u64,
}

impl Course {
    /// A grant stands that names this window. Of a session of which nothing has run, an op may take as long
    /// as any: it starts op by op, lest a newcomer wait for all that it sent at once.
    pub(super) fn begin(&mut self, unknown: u64, window: u64) {
        if self.pace == 0 {
            self.pace = unknown.max(window / PARTS).max(1);
        }
    }

    /// How many ops may be started now, with so much on the device at a time.
    pub(super) fn room(&self, window: u64) -> u64 {
        let part = (window / PARTS / self.pace).clamp(1, PART_OPS);
        let cost = self.pace.saturating_mul(part);
        let room = self.held == 0 || self.held.saturating_add(cost) <= window;
        if room { part } else { 0 }
    }

    /// A part of `ops` ops took this long.
    pub(super) fn learn(&mut self, ops: u64, measured: u64) {
        let mean = (measured / ops.max(1)).max(1);
        self.pace = mean.max(self.pace - self.pace / EASE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 2_000_000;

    /// A course that stands with nothing known of its ops.
    fn begun() -> Course {
        let mut course = Course::default();
        course.begin(20_000, WINDOW);
        course
    }

    #[test]
    fn a_burst_of_ops_of_which_nothing_is_known_is_not_all_on_the_device() {
        let mut course = begun();
        // A few ops that take nothing come first: a module, an allocation, a copy.
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
        // One that takes long is started alone, and so is what follows.
        course.learn(50, 50 * 350_000_000);
        assert_eq!(course.room(WINDOW), 1);
    }
}
