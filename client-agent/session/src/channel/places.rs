//! Destination addresses of large copies.

use std::collections::BTreeSet;
use std::ops::Range;

/// Maximum number of remembered addresses; at this number all are forgotten and count as new.
const PLACES: usize = 1 << 16;

/// Destination addresses of large copies.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeSet<u64>);

impl Places {
    /// Notes a copy to an address; returns true if it is the first.
    pub(super) fn is_first(&mut self, address: u64) -> bool {
        if self.0.len() >= PLACES {
            self.0.clear();
        }
        self.0.insert(address)
    }

    /// Forgets the addresses of a freed allocation: the next copy there is new.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        if self.0.range(range.clone()).next().is_none() {
            return;
        }
        let mut rest = self.0.split_off(&range.start);
        self.0.append(&mut rest.split_off(&range.end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_copy_to_a_place_is_offered_until_that_is_freed() {
        let mut places = Places::default();
        for address in [100, 200, 300] {
            assert!(places.is_first(address) && !places.is_first(address));
        }
        places.forget(150..300);
        assert_eq!(
            [100, 200, 300].map(|address| places.is_first(address)),
            [false, true, false]
        );
    }
}
