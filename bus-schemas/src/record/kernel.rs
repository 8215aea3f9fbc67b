//! The record of a kernel key: its name, and the times of its launches. It is for people, and no
//! decision depends on it.

use serde::{Deserialize, Deserializer, Serialize};

use crate::record::usage::KernelName;

/// Number of buckets per octave: a value is known within an eighth.
const FINE: u64 = 8;
/// The same in bits.
const FINE_BITS: u32 = FINE.trailing_zeros();

/// Distribution of launch times: counts in buckets that grow with the time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Spread {
    /// Buckets and counts, in order.
    #[serde(deserialize_with = "buckets")]
    buckets: Vec<(u16, u64)>,
}

/// Reads the buckets of a stored record, in order. Invalid buckets are ignored.
fn buckets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(u16, u64)>, D::Error> {
    let stored: Vec<(u16, u64)> = Deserialize::deserialize(deserializer)?;
    let mut spread = Spread::default();
    let known = stored.iter().filter(|row| row.0 <= bucket(u64::MAX));
    known.for_each(|(bucket, launches)| spread.add_to(*bucket, *launches));
    Ok(spread.buckets)
}

/// Returns the bucket of a number of nanoseconds.
fn bucket(ns: u64) -> u16 {
    let octave = ns.max(FINE).ilog2() - FINE_BITS;
    let within = (ns >> octave) + FINE * u64::from(octave);
    u16::try_from(within).unwrap_or(u16::MAX)
}

/// Returns the middle of a bucket.
fn middle(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let octave = (bucket / FINE).saturating_sub(1);
    let low = (bucket - FINE * octave) << octave;
    low + ((1 << octave) >> 1)
}

impl Spread {
    /// Counts `launches` launches of `ns` nanoseconds each.
    pub fn add(&mut self, ns: u64, launches: u64) {
        self.add_to(bucket(ns), launches);
    }

    fn add_to(&mut self, bucket: u16, launches: u64) {
        if launches == 0 {
            return;
        }
        let at = self.buckets.partition_point(|row| row.0 < bucket);
        match self.buckets.get_mut(at) {
            Some(row) if row.0 == bucket => row.1 = row.1.saturating_add(launches),
            _ => self.buckets.insert(at, (bucket, launches)),
        }
    }

    /// Adds the counts of another one.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, launches) in &other.buckets {
            self.add_to(*bucket, *launches);
        }
    }

    /// Returns the approximate time within which `percent` of 100 launches stay, nanoseconds;
    /// `None` without launches.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let all: u128 = self.buckets.iter().map(|row| u128::from(row.1)).sum();
        let rank = (all * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        let reached = self.buckets.iter().find(|(_, launches)| {
            seen += u128::from(*launches);
            seen >= rank
        });
        reached.map(|(bucket, _)| middle(*bucket))
    }
}

/// Measurements of one kernel key since it was first launched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRecord {
    /// The name behind the key.
    pub name: Option<KernelName>,
    /// Number of measured launches.
    pub launches: u64,
    /// Sum of their device nanoseconds.
    pub device_ns: u64,
    /// Nanoseconds of the shortest launch; for launches measured together, their mean.
    pub least_ns: u64,
    /// Nanoseconds of the longest launch, likewise.
    pub most_ns: u64,
    /// Approximate times of the launches, likewise.
    pub spread: Spread,
}

impl KernelRecord {
    /// Adds launches with this total time, and this shortest and longest time.
    pub fn add(&mut self, launches: u64, device_ns: u64, (least, most): (u64, u64)) {
        let Some(between) = launches.checked_sub(1) else {
            return;
        };
        self.bound(least, most);
        self.launches = self.launches.saturating_add(launches);
        self.device_ns = self.device_ns.saturating_add(device_ns);
        if least == most || between == 0 {
            return self.spread.add(device_ns / launches, launches);
        }
        self.spread.add(least, 1);
        self.spread.add(most, 1);
        let rest = device_ns.saturating_sub(least.saturating_add(most));
        if let Some(mean) = rest.checked_div(between - 1) {
            self.spread.add(mean.clamp(least, most), between - 1);
        }
    }

    fn bound(&mut self, least: u64, most: u64) {
        let first = self.launches == 0;
        self.least_ns = if first {
            least
        } else {
            self.least_ns.min(least)
        };
        self.most_ns = self.most_ns.max(most);
    }

    /// Adds another record of the same key.
    pub fn merge(&mut self, other: &Self) {
        if self.name.is_none() {
            self.name.clone_from(&other.name);
        }
        if other.launches > 0 {
            self.bound(other.least_ns, other.most_ns);
        }
        self.launches = self.launches.saturating_add(other.launches);
        self.device_ns = self.device_ns.saturating_add(other.device_ns);
        self.spread.merge(&other.spread);
    }

    /// Returns the mean nanoseconds of a launch, if one was measured.
    #[must_use]
    pub fn mean_ns(&self) -> Option<u64> {
        self.device_ns.checked_div(self.launches)
    }

    /// Returns the approximate time within which `percent` of 100 launches stayed, nanoseconds.
    #[must_use]
    pub fn percentile_ns(&self, percent: u64) -> Option<u64> {
        let about = self.spread.percentile(percent)?;
        Some(about.max(self.least_ns).min(self.most_ns))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_one_another() {
        let mut last = 0;
        for ns in 0..100_000_u64 {
            let at = bucket(ns);
            assert!(at == last || at == last + 1, "{ns}");
            assert!(middle(at).abs_diff(ns) <= ns / 8, "{ns}: {}", middle(at));
            last = at;
        }
        assert!(bucket(u64::MAX) < 500);
        assert!(middle(bucket(u64::MAX)) > u64::MAX / 8 * 7);
    }

    #[test]
    fn a_stored_record_of_any_numbers_is_read() {
        let most = bucket(u64::MAX);
        let rows = [
            (u16::MAX, 3),
            (most, u64::MAX),
            (most + 1, 5),
            (2, 1),
            (most, 9),
        ];
        let stored = rmp_serde::to_vec(&rows).unwrap();
        let spread: Spread = rmp_serde::from_slice(&stored).unwrap();
        assert_eq!(spread.buckets, [(2, 1), (most, u64::MAX)]);
        assert_eq!(spread.percentile(100), Some(middle(most)));
        let mut all = KernelRecord::default();
        all.add(u64::MAX, u64::MAX, (u64::MAX, u64::MAX));
        all.spread.merge(&spread);
        let stored = rmp_serde::to_vec(&all).unwrap();
        let read: KernelRecord = rmp_serde::from_slice(&stored).unwrap();
        assert_eq!(read, all);
        all.add(u64::MAX, u64::MAX, (1, u64::MAX));
        all.merge(&read);
        assert_eq!((all.launches, all.device_ns), (u64::MAX, u64::MAX));
        assert!(all.percentile_ns(100) >= Some(middle(most)));
    }

    #[test]
    fn launches_measured_together_count_as_their_mean() {
        let mut record = KernelRecord::default();
        record.add(0, 0, (9, 9));
        assert_eq!(record, KernelRecord::default());
        assert_eq!((record.mean_ns(), record.percentile_ns(50)), (None, None));
        record.add(10, 1_000, (50, 400));
        assert_eq!((record.least_ns, record.most_ns), (50, 400));
        assert_eq!(record.mean_ns(), Some(100));
        // Eight launches of 68 or 69 each.
        let median = record.percentile_ns(50).unwrap();
        assert!((64..=73).contains(&median), "{median}");
        assert_eq!(record.percentile_ns(100), Some(400));
        // Two long launches without a short one between them.
        let mut two = KernelRecord::default();
        two.add(2, 30, (10, 20));
        assert_eq!(two.percentile_ns(1), Some(10));
        assert_eq!(two.percentile_ns(100), Some(20));
    }

    proptest! {
        #[test]
        fn percentiles_are_near_and_merging_is_adding(
            times in prop::collection::vec((1..1_u64 << 40, any::<bool>()), 1..200),
        ) {
            let [mut one, mut other, mut all] = [(); 3].map(|()| KernelRecord::default());
            for (ns, first) in &times {
                let part = if *first { &mut one } else { &mut other };
                part.add(1, *ns, (*ns, *ns));
                all.add(1, *ns, (*ns, *ns));
            }
            one.merge(&other);
            prop_assert_eq!(&one, &all);
            let mut sorted: Vec<_> = times.iter().map(|(ns, _)| *ns).collect();
            sorted.sort_unstable();
            for percent in [1, 50, 95, 100] {
                let rank = (sorted.len() * percent as usize).div_ceil(100).max(1);
                let (is, about) = (sorted[rank - 1], all.percentile_ns(percent).unwrap());
                prop_assert!(about.abs_diff(is) <= is / 8, "{} for {}", about, is);
            }
        }
    }
}
