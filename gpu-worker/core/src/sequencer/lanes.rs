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
pub(super) struct ByLane<T>([T; LANES]);

impl<T> ByLane<T> {
    /// Values of the lanes that are more urgent than this one.
    pub(super) fn before(&self, lane: Lane) -> impl Iterator<Item = &T> {
        self.0.iter().take(lane.0)
    }

    /// Values of this lane and the more urgent ones.
    pub(super) fn through(&self, lane: Lane) -> impl Iterator<Item = &T> {
        self.0.iter().take(lane.0 + 1)
    }

    /// Values of all lanes.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
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
        assert_eq!(counts.all().copied().collect::<Vec<_>>(), [1, 1, 1, 1, 252]);
        assert_eq!(Lane::at(u8::MAX), Lane::LAST);
        assert_eq!(counts.before(Lane::at(0)).count(), 0);
        assert_eq!(counts.through(Lane::at(0)).count(), 1);
        assert_eq!(counts.before(Lane::LAST).count(), 4);
        assert_eq!(counts.through(Lane::LAST).count(), 5);
    }
}
