//! A histogram of nanoseconds with a bounded relative error.

/// Linear steps per power of two. A value lies at most half a step from its bucket's middle: an
/// error of at most 1/64, under 1.6 %.
const STEPS: usize = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Counts of values in log-linear buckets: exact below 32, above it 32 buckets per power of two. A
/// quantile is at most 1.6 % off. Holds memory only between the smallest and the largest bucket in
/// use, and none if empty. Two histograms merge without loss.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Counts of the buckets from `base` on.
    counts: Vec<u64>,
    base: usize,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    /// Creates an empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        *self.slot(bucket(value)) += 1;
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.slot(other.base + other.counts.len() - 1);
        self.slot(other.base);
        let from = other.base - self.base;
        for (mine, theirs) in self.counts[from..].iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.min = if self.count == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Number of recorded values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact sum of the values.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Exact minimum; 0 if empty.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.min
    }

    /// Exact maximum; 0 if empty.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Mean, exact but for rounding; 0 if empty.
    #[must_use]
    pub fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.count));
        mean.and_then(|mean| u64::try_from(mean).ok()).unwrap_or(0)
    }

    /// Returns the value at or below which a share `q` (0 to 1) of the values lies. It is the
    /// smallest value of rank `ceil(q * count)`, at most 1.6 % off; 0 if empty.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let rank = rank.clamp(1, self.count.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(self.base + index).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Returns the count of one bucket; makes room for it.
    fn slot(&mut self, bucket: usize) -> &mut u64 {
        if self.counts.is_empty() {
            self.base = bucket;
        }
        if bucket < self.base {
            let missing = self.base - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.base = bucket;
        }
        let index = bucket - self.base;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        &mut self.counts[index]
    }
}

/// Returns the bucket of a value: at most 1,920 for all of u64.
fn bucket(value: u64) -> usize {
    let power = value.max(1).ilog2();
    let Some(shift) = power.checked_sub(STEP_BITS) else {
        return value as usize;
    };
    (shift as usize + 1) * STEPS + ((value >> shift) as usize - STEPS)
}

/// Returns the value in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let Some(shift) = (bucket / STEPS).checked_sub(1) else {
        return bucket as u64;
    };
    let low = ((bucket % STEPS + STEPS) as u64) << shift;
    low + ((1u64 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    fn close(found: u64, exact: u64) -> bool {
        found.abs_diff(exact) as f64 <= exact as f64 / 64.0
    }

    #[test]
    fn empty_is_all_zero_and_holds_nothing() {
        let empty = Histogram::new();
        assert_eq!((empty.count(), empty.sum(), empty.min()), (0, 0, 0));
        assert_eq!((empty.max(), empty.mean(), empty.quantile(0.5)), (0, 0, 0));
        assert_eq!(empty.counts.capacity(), 0);
    }

    #[test]
    fn the_ends_of_the_range_are_held() {
        let both = of(&[u64::MAX, 0]);
        assert_eq!(both.quantile(0.0), 0);
        assert!(close(both.quantile(1.0), u64::MAX));
        assert_eq!(bucket(u64::MAX) + 1, 60 * STEPS);
    }

    #[test]
    fn a_thousand_even_values_have_their_quantiles() {
        let even = of(&(1..=1000).map(|n| n * 1_000).collect::<Vec<_>>());
        for (q, exact) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            assert!(close(even.quantile(q), exact), "{q}: {}", even.quantile(q));
        }
        assert_eq!(even.mean(), 500_500);
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        let value = (0u32..64, any::<u64>()).prop_map(|(shift, n)| n >> shift);
        proptest::collection::vec(value, 1..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_quantile_is_close(mut values in values(), q in 0.0..=1.0) {
            let found = of(&values).quantile(q);
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            prop_assert!(close(found, values[rank - 1]), "{found} {}", values[rank - 1]);
        }

        #[test]
        fn merging_is_recording_all(one in values(), other in values()) {
            let mut merged = of(&one);
            merged.merge(&of(&other));
            merged.merge(&Histogram::new());
            prop_assert_eq!(merged, of(&[one, other].concat()));
        }

        #[test]
        fn buckets_follow_one_another(n in 0usize..60 * STEPS) {
            prop_assert_eq!(bucket(middle(n)), n);
        }
    }
}
