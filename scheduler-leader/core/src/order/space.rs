//! A worker's address space: which windows are taken.

use std::collections::BTreeMap;

use bus_schemas::{Window, limits};

/// Windows are whole multiples of this.
const UNIT: u64 = 2 << 20;

/// The windows of one worker's sessions.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Size by base.
    taken: BTreeMap<u64, u64>,
}

impl Space {
    /// The size of a window on a device of this capacity for a tenant of this quota (0: none).
    pub(crate) fn size(capacity: u64, quota: u64) -> u64 {
        let most = if quota == 0 {
            capacity
        } else {
            quota.min(capacity)
        };
        let size = most.saturating_mul(2).max(limits::WINDOW_MIN_BYTES);
        size.checked_next_multiple_of(UNIT).unwrap_or(u64::MAX)
    }

    /// The first free window of this size that has no address of `beside`.
    pub(crate) fn find(&self, size: u64, beside: impl Iterator<Item = Window>) -> Option<Window> {
        let mut beside: Vec<_> = beside.map(|window| (window.base, window.size)).collect();
        beside.sort_unstable();
        let mut beside = beside.into_iter().peekable();
        let mut own = self
            .taken
            .iter()
            .map(|(base, size)| (*base, *size))
            .peekable();
        let mut base = limits::ADDRESS_FIRST;
        // Both by base: the next is the lower of the two.
        loop {
            let first = match (own.peek(), beside.peek()) {
                (Some(one), Some(other)) if one.0 <= other.0 => own.next(),
                (Some(_), None) => own.next(),
                _ => beside.next(),
            };
            let Some((taken, length)) = first else { break };
            if taken.saturating_sub(base) >= size {
                break;
            }
            base = base.max(taken.saturating_add(length));
        }
        let window = Window { base, size };
        window.is_valid().then_some(window)
    }

    /// Whether a window of this size is free.
    pub(crate) fn has_room(&self, size: u64) -> bool {
        let mut base = limits::ADDRESS_FIRST;
        for (taken, length) in &self.taken {
            if taken.saturating_sub(base) >= size {
                return true;
            }
            base = base.max(taken.saturating_add(*length));
        }
        limits::ADDRESS_LAST.saturating_sub(base) >= size
    }

    /// Marks a window as taken.
    pub(crate) fn insert(&mut self, window: Window) {
        self.taken.insert(window.base, window.size);
    }

    /// Frees a window.
    pub(crate) fn remove(&mut self, window: Window) {
        if self.taken.get(&window.base) == Some(&window.size) {
            self.taken.remove(&window.base);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_disjoint_first_fit_and_used_again() {
        let mut space = Space::default();
        let size = Space::size(8 << 30, 0);
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
        space.remove(windows[7]);
        assert!(space.has_room(size));
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
        let half = Window {
            base: at(2).base + size / 2,
            size,
        };
        let beyond = Window {
            base: half.end(),
            size,
        };
        assert_eq!(one.find(size, [at(0), half].into_iter()), Some(beyond));
    }

    #[test]
    fn a_window_is_twice_the_smaller_of_quota_and_capacity() {
        assert_eq!(Space::size(100 << 30, 0), 200 << 30);
        assert_eq!(Space::size(100 << 30, 50 << 30), 100 << 30);
        assert_eq!(Space::size(100 << 30, (9 << 30) + 1), (18 << 30) + UNIT);
        assert_eq!(Space::size(u64::MAX, 0), u64::MAX);
    }
}
