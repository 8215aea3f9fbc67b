//! Freed extents that work under way may still use: they stay mapped until that work has passed the free.

use std::collections::BTreeMap;

/// One freed extent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Grave<T> {
    pub(super) size: u64,
    /// Bytes of it that count as held.
    pub(super) held: u64,
    /// Number of the free.
    pub(super) free: u64,
    pub(super) what: T,
}

/// Freed extents by their first addresses; none overlaps another.
#[derive(Debug)]
pub(super) struct Buried<T> {
    graves: BTreeMap<u64, Grave<T>>,
    held: u64,
}

impl<T> Default for Buried<T> {
    fn default() -> Self {
        Self {
            graves: BTreeMap::new(),
            held: 0,
        }
    }
}

impl<T> Buried<T> {
    /// Bytes that count as held.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn bury(&mut self, first: u64, grave: Grave<T>) {
        self.held += grave.held;
        self.graves.insert(first, grave);
    }

    /// Takes out the extents that overlap a range: work behind the free may use them at once.
    pub(super) fn revive(&mut self, base: u64, limit: u64) -> Vec<(u64, Grave<T>)> {
        let before = self.graves.range(..limit).rev();
        let inside = before.take_while(|(first, grave)| *first + grave.size > base);
        let firsts: Vec<u64> = inside.map(|(first, _)| *first).collect();
        let revived = firsts.into_iter().rev();
        revived
            .filter_map(|first| Some((first, self.take(first)?)))
            .collect()
    }

    /// Takes out the extents of frees through this one, because all work has passed it.
    pub(super) fn passed(&mut self, through: u64) -> Vec<T> {
        let graves = self.graves.iter();
        let passed = graves.filter(|(_, grave)| grave.free <= through);
        let firsts: Vec<u64> = passed.map(|(first, _)| *first).collect();
        firsts
            .into_iter()
            .filter_map(|first| Some(self.take(first)?.what))
            .collect()
    }

    fn take(&mut self, first: u64) -> Option<Grave<T>> {
        let grave = self.graves.remove(&first)?;
        self.held -= grave.held;
        Some(grave)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buried(graves: &[(u64, u64, u64)]) -> Buried<u64> {
        let mut buried = Buried::default();
        for (first, size, free) in graves.iter().copied() {
            let grave = Grave {
                size,
                held: size / 2,
                free,
                what: first,
            };
            buried.bury(first, grave);
        }
        buried
    }

    fn revived(buried: &mut Buried<u64>, base: u64, limit: u64) -> Vec<u64> {
        let revived = buried.revive(base, limit).into_iter();
        revived.map(|(first, _)| first).collect()
    }

    #[test]
    fn what_work_has_passed_goes() {
        let mut buried = buried(&[(0, 10, 1), (10, 10, 3), (20, 10, 2)]);
        assert_eq!(buried.held(), 15);
        assert_eq!(buried.passed(0), []);
        assert_eq!(buried.passed(2), [0, 20]);
        assert_eq!(buried.held(), 5);
        assert_eq!(buried.passed(u64::MAX), [10]);
        assert_eq!((buried.held(), buried.passed(u64::MAX)), (0, vec![]));
    }

    #[test]
    fn what_overlaps_comes_back_whole() {
        let graves = [(0, 10, 1), (20, 10, 1), (30, 20, 2), (60, 10, 2)];
        let mut some = buried(&graves);
        assert_eq!(revived(&mut some, 10, 20), [], "between two");
        assert_eq!(revived(&mut some, 25, 31), [20, 30]);
        assert_eq!(some.held(), 10);
        assert_eq!(revived(&mut some, 20, 50), [], "they are back");
        assert_eq!(some.passed(2), [0, 60]);
        let mut all = buried(&graves);
        assert_eq!(revived(&mut all, 5, 61), [0, 20, 30, 60]);
    }
}
