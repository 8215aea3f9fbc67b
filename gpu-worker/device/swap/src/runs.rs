//! The free bytes of a tier, in runs.

use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of free runs examined for one that is long enough.
const LOOKS: usize = 64;

/// The free runs of a range of bytes.
#[derive(Debug)]
pub(crate) struct Runs {
    /// The end of each run, by its start.
    free: BTreeMap<u64, u64>,
    left: u64,
}

impl Runs {
    /// Creates the runs of free bytes, all of them free.
    pub(crate) fn new(bytes: u64) -> Self {
        let free = (bytes > 0).then_some((0, bytes));
        Self {
            free: free.into_iter().collect(),
            left: bytes,
        }
    }

    /// Number of free bytes.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Returns the first free bytes from `from` on, at most `most`.
    pub(crate) fn next(&self, from: u64, most: u64) -> Option<Range<u64>> {
        let around = self.free.range(..from).next_back();
        let around = around.filter(|(_, end)| **end > from);
        let (start, end) = around.or_else(|| self.free.range(from..).next())?;
        let start = (*start).max(from);
        Some(start..(*end).min(start.saturating_add(most)))
    }

    /// Takes up to `bytes` bytes in one run: of the first that is long enough, otherwise all of the first.
    /// `None` if nothing is free.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<Range<u64>> {
        let mut looked = self.free.iter().take(LOOKS);
        let long_enough = looked.find(|(start, end)| *end - *start >= bytes);
        let (start, end) = long_enough.or_else(|| self.free.first_key_value())?;
        let (start, end) = (*start, *end);
        let taken = start..end.min(start.saturating_add(bytes));
        self.free.remove(&start);
        if taken.end < end {
            self.free.insert(taken.end, end);
        }
        self.left -= taken.end - taken.start;
        Some(taken)
    }

    /// Gives back a run that was taken.
    pub(crate) fn give(&mut self, run: Range<u64>) {
        self.left += run.end - run.start;
        let (mut start, mut end) = (run.start, run.end);
        if let Some(after) = self.free.remove(&end) {
            end = after;
        }
        if let Some((before, until)) = self.free.range(..start).next_back()
            && *until == start
        {
            start = *before;
        }
        self.free.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_run_that_is_long_enough_is_taken_before_pieces() {
        let mut runs = Runs::new(10);
        let taken = [2, 2, 2].map(|bytes| runs.take(bytes));
        assert_eq!(taken, [Some(0..2), Some(2..4), Some(4..6)]);
        runs.give(0..2);
        assert_eq!(runs.take(3), Some(6..9), "the first is too short");
        assert_eq!(runs.take(3), Some(0..2), "and now nothing else is there");
        runs.give(4..6);
        runs.give(2..4);
        assert_eq!(runs.take(4), Some(2..6), "neighbours are one");
        assert_eq!((runs.take(9), runs.take(1)), (Some(9..10), None));
    }

    proptest! {
        /// No byte is given twice, and in the end all bytes are one run.
        #[test]
        fn nothing_is_given_twice_or_lost(
            total in 0..200_u64,
            steps in prop::collection::vec((any::<bool>(), 1..40_u64, any::<prop::sample::Index>()), 0..80),
        ) {
            let mut runs = Runs::new(total);
            let mut owner = vec![false; total as usize];
            let mut taken: Vec<Range<u64>> = Vec::new();
            for (take, bytes, which) in steps {
                if take {
                    let free = owner.iter().filter(|taken| !**taken).count() as u64;
                    prop_assert_eq!(runs.left(), free);
                    let Some(run) = runs.take(bytes) else {
                        prop_assert_eq!(free, 0);
                        continue;
                    };
                    prop_assert!(run.start < run.end && run.end - run.start <= bytes);
                    for at in run.clone() {
                        prop_assert!(!std::mem::replace(&mut owner[at as usize], true));
                    }
                    taken.push(run);
                } else if !taken.is_empty() {
                    let run = taken.swap_remove(which.index(taken.len()));
                    owner[run.start as usize..run.end as usize].fill(false);
                    runs.give(run);
                }
            }
            taken.into_iter().for_each(|run| runs.give(run));
            prop_assert_eq!(runs.left(), total);
            prop_assert_eq!(runs.take(total), (total > 0).then_some(0..total));
        }
    }
}
