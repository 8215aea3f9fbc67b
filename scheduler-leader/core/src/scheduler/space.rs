//! A worker's address space: the taken windows, and the free ranges between them.

use std::collections::BTreeMap;

use bus_schemas::{Window, limits};

/// The windows of one worker's sessions. A window is a power of two and begins at a multiple of its
/// size, so that windows that end leave room for larger ones.
#[derive(Debug)]
pub(crate) struct Space {
    /// Size by base.
    taken: BTreeMap<u64, u64>,
    /// Ranges outside all windows: end by base, not adjacent.
    free: BTreeMap<u64, u64>,
}

impl Default for Space {
    fn default() -> Self {
        Self {
            taken: BTreeMap::new(),
            free: BTreeMap::from([(limits::ADDRESS_FIRST, limits::ADDRESS_LAST)]),
        }
    }
}

impl Space {
    /// The size of a window on a device of this capacity for a tenant of this quota (0: none). It
    /// is at least twice the bytes that may be allocated, for allocations come and go. A wide
    /// window is at least three times those bytes: the allocations left of a full session may lie
    /// anywhere in the first half. Nearly all free bytes then still fit in a row.
    pub(crate) fn size(capacity: u64, quota: u64, wide: bool) -> u64 {
        let most = if quota == 0 {
            capacity
        } else {
            quota.min(capacity)
        };
        let times = if wide { 3 } else { 2 };
        let size = most.saturating_mul(times).max(limits::WINDOW_MIN_BYTES);
        size.checked_next_power_of_two().unwrap_or(u64::MAX)
    }

    /// The first free window of this size that has no address of `beside`.
    pub(crate) fn find(&self, size: u64, beside: impl Iterator<Item = Window>) -> Option<Window> {
        let beside: Vec<Window> = beside.collect();
        let mut free = self.free.iter();
        free.find_map(|(first, end)| first_between(size, (*first, *end), &beside))
    }

    /// Returns true if no session has an address of this window.
    pub(crate) fn is_free(&self, window: Window) -> bool {
        let before = self.free.range(..=window.base).next_back();
        before.is_some_and(|(_, end)| window.end() <= *end)
    }

    /// Returns true if a window of this size is free.
    pub(crate) fn has_room(&self, size: u64) -> bool {
        self.find(size, std::iter::empty()).is_some()
    }

    /// Marks a window as taken.
    pub(crate) fn insert(&mut self, window: Window) {
        self.taken.insert(window.base, window.size);
        let (base, end) = (window.base, window.end());
        while let Some((&from, &to)) = self.free.range(..end).next_back() {
            if to <= base {
                break;
            }
            self.free.remove(&from);
            if end < to {
                self.free.insert(end, to);
            }
            if from < base {
                self.free.insert(from, base);
            }
        }
    }

    /// Frees a window.
    pub(crate) fn remove(&mut self, window: Window) {
        if self.taken.get(&window.base) != Some(&window.size) {
            return;
        }
        self.taken.remove(&window.base);
        let before = self.free.range(..=window.base).next_back();
        let before = before.filter(|(_, to)| **to == window.base);
        let from = before.map_or(window.base, |(from, _)| *from);
        let to = self.free.remove(&window.end()).unwrap_or(window.end());
        self.free.insert(from, to);
    }
}

/// The first window of this size between two addresses that has no address of `beside`.
fn first_between(size: u64, (first, end): (u64, u64), beside: &[Window]) -> Option<Window> {
    let mut base = first.checked_next_multiple_of(size)?;
    while base.checked_add(size)? <= end {
        let window = Window { base, size };
        let mut others = beside.iter();
        let Some(other) = others.find(|it| it.base < window.end() && base < it.end()) else {
            return window.is_valid().then_some(window);
        };
        base = other.end().checked_next_multiple_of(size)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn windows_are_disjoint_first_fit_and_used_again() {
        let mut space = Space::default();
        let size = Space::size(8 << 30, 0, false);
        assert_eq!(size, 16 << 30);
        let take = |space: &mut Space| {
            let window = space.find(size, std::iter::empty())?;
            space.insert(window);
            Some(window)
        };
        let windows: Vec<_> = std::iter::from_fn(|| take(&mut space)).collect();
        assert_eq!(windows.len(), 4096);
        for pair in windows.windows(2) {
            assert!(pair[0].end() <= pair[1].base);
        }
        assert!(!space.has_room(size));
        assert!(!space.is_free(windows[7]));
        space.remove(windows[7]);
        assert!(space.has_room(size) && space.is_free(windows[7]));
        assert_eq!(take(&mut space), Some(windows[7]));
    }

    #[test]
    fn windows_of_one_program_are_disjoint_across_workers() {
        let (mut one, size) = (Space::default(), 16 << 30);
        let at = |number: u64| Window {
            base: limits::ADDRESS_FIRST + number * size,
            size,
        };
        one.insert(at(1));
        assert_eq!(one.find(size, [].into_iter()), Some(at(0)));
        assert_eq!(one.find(size, [at(0)].into_iter()), Some(at(2)));
        assert_eq!(one.find(size, [at(3), at(0)].into_iter()), Some(at(2)));
        // A window of an earlier leader, which was not a power of two.
        let half = Window {
            base: at(2).base + size / 2,
            size,
        };
        assert_eq!(one.find(size, [at(0), half].into_iter()), Some(at(4)));
    }

    #[test]
    fn a_window_is_the_power_of_two_that_has_twice_the_smaller_of_quota_and_capacity() {
        assert_eq!(Space::size(100 << 30, 0, false), 256 << 30);
        assert_eq!(Space::size(100 << 30, 50 << 30, false), 128 << 30);
        assert_eq!(Space::size(100 << 30, (8 << 30) + 1, false), 32 << 30);
        assert_eq!(Space::size(100 << 30, 8 << 30, false), 16 << 30);
        assert_eq!(Space::size(100 << 30, 1, false), 2 << 30);
        assert_eq!(Space::size(u64::MAX, 0, false), u64::MAX);
        let wide = [
            (100 << 30, 512 << 30),
            (80 << 30, 256 << 30),
            (1 << 30, 4 << 30),
            (1, 2 << 30),
        ];
        for (capacity, size) in wide {
            assert_eq!(Space::size(capacity, 0, true), size);
        }
        assert!(!Space::default().has_room(u64::MAX));
    }

    /// A step: open a session with a window of 2 GiB shifted this far, or close an open one.
    fn steps() -> impl Strategy<Value = Vec<(u32, Option<usize>)>> {
        let step = (0..12_u32, proptest::option::weighted(0.4, any::<usize>()));
        proptest::collection::vec(step, 1..200)
    }

    proptest! {
        #[test]
        fn windows_never_overlap_and_all_is_free_when_all_are_closed(steps in steps()) {
            let mut space = Space::default();
            let mut open: Vec<Window> = Vec::new();
            for (shift, close) in steps {
                if let Some(close) = close.filter(|_| !open.is_empty()) {
                    space.remove(open.swap_remove(close % open.len()));
                    continue;
                }
                let size = limits::WINDOW_MIN_BYTES << shift;
                let found = space.find(size, std::iter::empty());
                prop_assert_eq!(found.is_some(), space.has_room(size));
                let Some(window) = found else {
                    // No aligned window is free, by any search.
                    let bases = (limits::ADDRESS_FIRST..limits::ADDRESS_LAST).step_by(size as usize);
                    let taken = |base: u64| open.iter().any(|it| it.base < base + size && base < it.end());
                    prop_assert!(bases.into_iter().all(taken));
                    continue;
                };
                prop_assert!(window.is_valid() && window.base.is_multiple_of(size));
                prop_assert!(open.iter().all(|it| it.end() <= window.base || window.end() <= it.base));
                space.insert(window);
                open.push(window);
            }
            for window in open {
                space.remove(window);
            }
            prop_assert_eq!(space.free, BTreeMap::from([(limits::ADDRESS_FIRST, limits::ADDRESS_LAST)]));
            prop_assert!(space.taken.is_empty());
        }
    }
}
