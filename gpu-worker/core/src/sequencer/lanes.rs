//! Lanes: the sequencer's counts by priority of the grants.

use std::ops::{Index, IndexMut};

use bus_schemas::Grant;

/// Number of priorities.
const LANES: usize = 5;

/// The lane of a priority: 0, the most urgent, to 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane(usize);

impl Lane {
    /// The least urgent lane.
    pub(super) const LAST: Self = Self(LANES - 1);

    /// The lane in which a grant is counted.
    pub(super) fn of(grant: &Grant) -> Self {
        Self::at(grant.priority)
    }

    /// The lane of a priority. A number beyond the lowest priority counts as the lowest.
    fn at(priority: u8) -> Self {
        Self(usize::from(priority).min(LANES - 1))
    }
}

/// A value for each lane.
#[derive(Debug, Default)]
struct ByLane<T>([T; LANES]);

impl<T> ByLane<T> {
    /// Values of the lanes that are more urgent than this one.
    fn before(&self, lane: Lane) -> impl Iterator<Item = &T> {
        self.0.iter().take(lane.0)
    }

    /// Values of this lane and the more urgent ones.
    fn through(&self, lane: Lane) -> impl Iterator<Item = &T> {
        self.0.iter().take(lane.0 + 1)
    }
}

/// The positions that wait for the device or run on it, by priority.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// Accepted positions that have not begun.
    waiting: ByLane<usize>,
    /// Slices on the device.
    running: ByLane<usize>,
    /// Their charged cost.
    cost: ByLane<u64>,
}

impl Lanes {
    /// Adds a position that waits.
    pub(super) fn wait(&mut self, grant: &Grant) {
        self.waiting[Lane::of(grant)] += 1;
    }

    /// Removes a position that waited.
    pub(super) fn pass(&mut self, grant: &Grant) {
        self.waiting[Lane::of(grant)] -= 1;
    }

    /// True if a position that is more urgent than this one waits.
    pub(super) fn are_urged(&self, grant: &Grant) -> bool {
        let mut waiting = self.waiting.before(Lane::of(grant));
        waiting.any(|waiting| *waiting > 0)
    }

    /// Adds a slice to the device.
    pub(super) fn start(&mut self, grant: &Grant) {
        let lane = Lane::of(grant);
        self.running[lane] += 1;
        self.cost[lane] = self.cost[lane].saturating_add(grant.cost);
    }

    /// Removes a slice from the device.
    pub(super) fn end(&mut self, grant: &Grant) {
        let lane = Lane::of(grant);
        self.running[lane] -= 1;
        self.cost[lane] = self.cost[lane].saturating_sub(grant.cost);
    }

    /// Number of slices on the device in this lane and the more urgent ones.
    pub(super) fn running(&self, lane: Lane) -> usize {
        self.running.through(lane).sum()
    }

    /// Charged cost of these slices.
    pub(super) fn cost(&self, lane: Lane) -> u64 {
        let costs = self.cost.through(lane);
        costs.fold(0, |sum, cost| sum.saturating_add(*cost))
    }
}

impl<T> Index<Lane> for ByLane<T> {
    type Output = T;

    #[expect(
        clippy::indexing_slicing,
        reason = "a lane is below their number, see `Lane::of`"
    )]
    fn index(&self, lane: Lane) -> &T {
        &self.0[lane.0]
    }
}

impl<T> IndexMut<Lane> for ByLane<T> {
    #[expect(
        clippy::indexing_slicing,
        reason = "a lane is below their number, see `Lane::of`"
    )]
    fn index_mut(&mut self, lane: Lane) -> &mut T {
        &mut self.0[lane.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_priority_has_a_lane() {
        let mut counts = ByLane::<u32>::default();
        for priority in 0..=u8::MAX {
            counts[Lane::at(priority)] += 1;
        }
        assert_eq!(counts.0, [1, 1, 1, 1, 252]);
        assert_eq!(Lane::at(u8::MAX), Lane::LAST);
        assert_eq!(counts.before(Lane::at(0)).count(), 0);
        assert_eq!(counts.through(Lane::at(0)).count(), 1);
        assert_eq!(counts.before(Lane::LAST).count(), 4);
        assert_eq!(counts.through(Lane::LAST).count(), 5);
    }
}
