//! The next profile version: what workers measured, where it is far from what was estimated.

use std::collections::BTreeMap;

use bus_schemas::{Incarnation, KernelKey, Measured};

use super::config::{Config, Nanos};
use crate::input::Profile;

/// Kernel keys kept of one worker, and in the profile, at most.
const KEYS: usize = 1 << 15;
/// An estimate is off when it differs from the measured mean by more than one part in this.
const TOLERANCE: u64 = 5;

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    count: u64,
    ns: u64,
}

/// Measurements not in the profile yet.
#[derive(Debug)]
pub(super) struct Learner {
    profile: BTreeMap<KernelKey, u64>,
    version: u64,
    /// Totals last heard.
    heard: BTreeMap<(Incarnation, KernelKey), Total>,
    /// What came since a key's estimate was last made.
    fresh: BTreeMap<KernelKey, Total>,
    next_at: Nanos,
}

impl Learner {
    pub(super) fn new(profile: &Profile, now: Nanos) -> Self {
        Self {
            profile: profile.entries.iter().copied().collect(),
            version: profile.version,
            heard: BTreeMap::new(),
            fresh: BTreeMap::new(),
            next_at: now,
        }
    }

    pub(super) fn measured(&mut self, worker: Incarnation, measured: &Measured) {
        for kernel in &measured.kernels {
            let before = self.heard.get(&(worker, kernel.key)).copied();
            if before.is_none() && self.heard.len() >= KEYS {
                continue;
            }
            let before = before.unwrap_or_default();
            if kernel.count <= before.count || kernel.total_ns < before.ns {
                continue;
            }
            let fresh = self.fresh.entry(kernel.key).or_default();
            fresh.count = fresh.count.saturating_add(kernel.count - before.count);
            fresh.ns = fresh.ns.saturating_add(kernel.total_ns - before.ns);
            let total = Total {
                count: kernel.count,
                ns: kernel.total_ns,
            };
            self.heard.insert((worker, kernel.key), total);
        }
    }

    /// Forgets a worker that is lost.
    pub(super) fn lost(&mut self, worker: Incarnation) {
        self.heard.retain(|(heard, _), _| *heard != worker);
    }

    /// The estimates that are to change, if it is time and there are any.
    pub(super) fn next(&mut self, now: Nanos, config: &Config) -> Option<Profile> {
        if self.fresh.is_empty() || now < self.next_at {
            return None;
        }
        self.next_at = now.saturating_add(config.learn);
        let mut entries = Vec::new();
        for (key, total) in std::mem::take(&mut self.fresh) {
            let mean = (total.ns / total.count.max(1)).max(1);
            let known = self.profile.get(&key).copied();
            let off = known.is_none_or(|known| mean.abs_diff(known) > known / TOLERANCE);
            if off && (known.is_some() || self.profile.len() < KEYS) {
                self.profile.insert(key, mean);
                entries.push((key, mean));
            }
        }
        if entries.is_empty() {
            return None;
        }
        self.version += 1;
        Some(Profile {
            version: self.version,
            entries,
        })
    }

    /// The whole profile.
    pub(super) fn profile(&self) -> Profile {
        Profile {
            version: self.version,
            entries: self.profile.iter().map(|(key, ns)| (*key, *ns)).collect(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        (!self.fresh.is_empty()).then_some(self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{MeasuredKernel, WIRE_VERSION};

    use super::*;

    fn measured(key: u64, count: u64, total_ns: u64) -> Measured {
        Measured {
            v: WIRE_VERSION,
            kernels: vec![MeasuredKernel {
                key: KernelKey(key),
                count,
                total_ns,
            }],
        }
    }

    #[test]
    fn estimates_follow_what_was_measured_since() {
        let config = Config::new("lab".parse().unwrap());
        let profile = Profile {
            version: 4,
            entries: vec![(KernelKey(1), 1_000), (KernelKey(2), 1_000)],
        };
        let worker = Incarnation(1);
        let mut learner = Learner::new(&profile, 0);
        assert_eq!(learner.next(0, &config), None);
        // Within a fifth: it stays. Totals are absolute: repeating one adds nothing.
        learner.measured(worker, &measured(1, 10, 11_000));
        learner.measured(worker, &measured(1, 10, 11_000));
        assert_eq!(learner.next(1, &config), None);
        // Off, and one that nobody knew.
        learner.measured(worker, &measured(2, 10, 30_000));
        learner.measured(worker, &measured(3, 1, 77));
        assert_eq!(learner.next(2, &config), None, "at most once in a while");
        let changed = learner.next(2 + config.learn, &config).unwrap();
        assert_eq!(changed.version, 5);
        assert_eq!(changed.entries, [(KernelKey(2), 3_000), (KernelKey(3), 77)]);
        // It became faster: only what is new counts.
        learner.measured(worker, &measured(2, 20, 40_000));
        let changed = learner.next(3 + 2 * config.learn, &config).unwrap();
        assert_eq!(changed.entries, [(KernelKey(2), 1_000)]);
        let whole = learner.profile();
        assert_eq!(whole.entries.len(), 3);
        assert_eq!(whole.version, 6);
    }
}
