//! Mean times of kernels on this device, to divide a measured time among the launches in it.

use std::collections::HashMap;

use bus_schemas::KernelKey;

/// Number of measurements after which a kernel's mean is known.
const ENOUGH: u32 = 8;
/// Approximate number of recent measurements in a mean.
const RECENT: u32 = 32;
/// Interval of sampled slices: in one of this many, every launch is measured.
const SAMPLED: u32 = 16;
/// Maximum number of known kernels; beyond that, all are measured anew.
const KEYS: usize = 32_768;
/// Assumed nanoseconds of an unknown kernel.
const UNKNOWN: u64 = 1_000;

/// The measurements of a kernel.
#[derive(Debug, Clone, Copy)]
struct Known {
    count: u32,
    mean: u64,
}

/// The mean times of kernels.
#[derive(Debug, Default)]
pub(crate) struct KernelTimes {
    known: HashMap<KernelKey, Known>,
    slices: u32,
}

impl KernelTimes {
    /// True if each launch of the next slice is to be measured.
    pub(crate) fn samples(&mut self) -> bool {
        self.slices = self.slices.wrapping_add(1);
        self.slices.is_multiple_of(SAMPLED)
    }

    /// True if a launch is to be measured because too little is known of its kernel.
    pub(crate) fn is_due(&self, key: KernelKey) -> bool {
        self.known.get(&key).is_none_or(|it| it.count < ENOUGH)
    }

    /// Notes that `count` launches of a kernel took `ns` nanoseconds together. A kernel's first time is
    /// forgotten once there is a second, because it may include loading of code.
    pub(crate) fn measured(&mut self, key: KernelKey, count: u64, ns: u64) {
        let Some(each) = ns.checked_div(count) else {
            return;
        };
        if self.known.len() >= KEYS && !self.known.contains_key(&key) {
            self.known.clear();
        }
        let known = self.known.entry(key).or_insert(Known { count: 0, mean: 0 });
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(RECENT);
        let (before, weight) = match known.count {
            0 | 1 => (0, u64::from(count)),
            _ => (u64::from(known.count.min(RECENT)), u64::from(count)),
        };
        let sum =
            u128::from(known.mean) * u128::from(before) + u128::from(each) * u128::from(weight);
        let mean = sum / u128::from(before + weight);
        known.mean = u64::try_from(mean).unwrap_or(u64::MAX);
        known.count = known.count.saturating_add(count);
    }

    /// Approximate nanoseconds of a launch of a kernel, never 0.
    pub(crate) fn about(&self, key: KernelKey) -> u64 {
        self.known.get(&key).map_or(UNKNOWN, |it| it.mean.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KernelKey = KernelKey(7);

    #[test]
    fn a_kernel_is_due_until_it_was_measured_often_enough() {
        let mut times = KernelTimes::default();
        for _ in 0..ENOUGH {
            assert!(times.is_due(KEY));
            times.measured(KEY, 1, 500);
        }
        assert!(!times.is_due(KEY) && times.is_due(KernelKey(8)));
        assert_eq!(
            (times.about(KEY), times.about(KernelKey(8))),
            (500, UNKNOWN)
        );
    }

    #[test]
    fn launches_measured_together_count_as_so_many() {
        let mut times = KernelTimes::default();
        times.measured(KEY, 9, 9_000);
        assert!(!times.is_due(KEY));
        assert_eq!(times.about(KEY), 1_000);
        times.measured(KEY, 0, 5);
        assert_eq!(times.about(KEY), 1_000, "none");
    }

    #[test]
    fn the_first_time_is_forgotten_and_a_mean_follows_what_is_measured() {
        let mut times = KernelTimes::default();
        times.measured(KEY, 1, 9_000_000);
        times.measured(KEY, 1, 1_000);
        assert_eq!(times.about(KEY), 1_000);
        for _ in 0..200 {
            times.measured(KEY, 1, 3_000);
        }
        assert!(
            (2_900..=3_000).contains(&times.about(KEY)),
            "{}",
            times.about(KEY)
        );
    }

    #[test]
    fn one_slice_of_sixteen_is_a_sample() {
        let mut times = KernelTimes::default();
        let samples = (0..160).filter(|_| times.samples()).count();
        assert_eq!(samples, 10);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let mut times = KernelTimes::default();
        for key in 0..KEYS as u64 + 5 {
            times.measured(KernelKey(key), 9, 9);
        }
        assert_eq!(times.known.len(), 5);
    }
}
