//! The distribution of waits. It is exact up to a number of positions, and then rounded, so that
//! memory is bounded.

use std::collections::BTreeMap;

/// Maximum number of positions with exact waits.
const EXACT: usize = 4_096;
/// Bits of a wait that are kept after that: it is rounded up by one part in 2,048 at most.
const BITS: u32 = 12;

/// Waits of positions added so far.
#[derive(Debug, Default)]
pub(super) struct Distribution {
    exact: Vec<u64>,
    rounded: BTreeMap<u64, u64>,
    count: u64,
    sum: u64,
    longest: u64,
}

impl Distribution {
    pub(super) fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
        self.longest = self.longest.max(ns);
        if self.rounded.is_empty() {
            self.exact.push(ns);
            if self.exact.len() <= EXACT {
                return;
            }
            for ns in std::mem::take(&mut self.exact) {
                *self.rounded.entry(rounded(ns)).or_default() += 1;
            }
        } else {
            *self.rounded.entry(rounded(ns)).or_default() += 1;
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    /// Percentiles of the waits, in the order of `parts`.
    pub(super) fn of_100<const N: usize>(&mut self, parts: [u64; N]) -> [u64; N] {
        self.exact.sort_unstable();
        parts.map(|part| {
            let rank = (u128::from(self.count) * u128::from(part))
                .div_ceil(100)
                .max(1);
            let mut passed = 0;
            let each = self.exact.iter().map(|ns| (*ns, 1));
            let all = each.chain(self.rounded.iter().map(|(ns, count)| (*ns, *count)));
            let mut all = all.skip_while(|(_, count)| {
                passed += u128::from(*count);
                passed < rank
            });
            all.next().map_or(0, |(ns, _)| ns.min(self.longest))
        })
    }
}

/// A wait, rounded up to its leading [`BITS`] bits.
fn rounded(ns: u64) -> u64 {
    let spare = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS);
    ns.div_ceil(1 << spare).saturating_mul(1 << spare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(waits: impl IntoIterator<Item = u64>) -> Distribution {
        let mut waited = Distribution::default();
        for ns in waits {
            waited.add(ns);
        }
        waited
    }

    #[test]
    fn few_waits_are_told_exactly() {
        assert_eq!(of([]).of_100([50, 99]), [0, 0]);
        assert_eq!(of([7]).of_100([50, 99]), [7, 7]);
        let mut many = of((1..=1_000).rev());
        assert_eq!(many.of_100([50, 99, 100]), [500, 990, 1_000]);
        assert_eq!((many.count(), many.sum()), (1_000, 500_500));
    }

    #[test]
    fn of_many_no_more_than_said_waited_longer_and_little_is_kept() {
        let mut many = of((0..300_000_u64).map(|number| (number * 7_919 % 300_000) * 1_000));
        let [half, most] = many.of_100([50, 99]);
        assert!((149_999_000..150_100_000).contains(&half), "{half}");
        assert!((296_999_000..297_200_000).contains(&most), "{most}");
        assert_eq!(many.longest(), 299_999_000);
        assert!(many.exact.is_empty() && many.rounded.len() < 40_000);
        assert_eq!(rounded(u64::MAX), u64::MAX);
        assert_eq!(rounded(4_095), 4_095);
    }
}
