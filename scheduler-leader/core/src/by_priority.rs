//! A value for each priority, found by the priority.

use std::ops::{Index, IndexMut};

/// Number of priorities: 0 (highest) to 4.
const PRIORITIES: usize = 5;

/// One value per priority. A priority above 4 counts as the lowest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ByPriority<T>([T; PRIORITIES]);

impl<T> ByPriority<T> {
    /// The values, the highest priority's first.
    pub(crate) fn values(&self) -> &[T; PRIORITIES] {
        &self.0
    }

    /// The values, the highest priority's first.
    pub(crate) fn values_mut(&mut self) -> &mut [T; PRIORITIES] {
        &mut self.0
    }

    /// Priorities and values, the highest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &T)> {
        (0..).zip(&self.0)
    }

    /// The values of a priority and of those above it.
    pub(crate) fn through(&self, priority: u8) -> impl Iterator<Item = &T> {
        self.0.iter().take(usize::from(priority) + 1)
    }

    /// The values of the priorities below one.
    pub(crate) fn below_mut(&mut self, priority: u8) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().skip(usize::from(priority) + 1)
    }
}

fn place(priority: u8) -> usize {
    usize::from(priority).min(PRIORITIES - 1)
}

impl<T> Index<u8> for ByPriority<T> {
    type Output = T;

    #[expect(
        clippy::indexing_slicing,
        reason = "`place` gives no higher one than the last of the array"
    )]
    fn index(&self, priority: u8) -> &T {
        &self.0[place(priority)]
    }
}

impl<T> IndexMut<u8> for ByPriority<T> {
    #[expect(
        clippy::indexing_slicing,
        reason = "`place` gives no higher one than the last of the array"
    )]
    fn index_mut(&mut self, priority: u8) -> &mut T {
        &mut self.0[place(priority)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_priority_has_a_value_and_others_have_the_lowest_ones() {
        let mut values = ByPriority::<u64>::default();
        (0..5).for_each(|priority| values[priority] = u64::from(priority) + 1);
        assert_eq!(values.values(), &[1, 2, 3, 4, 5]);
        assert_eq!((values[4], values[200]), (5, 5));
        assert_eq!(values.through(1).sum::<u64>(), 3);
        values.below_mut(3).for_each(|value| *value = 0);
        assert_eq!(values.iter().last(), Some((4, &0)));
    }
}
