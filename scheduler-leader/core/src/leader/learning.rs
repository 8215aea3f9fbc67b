//! The next profile version: measured times of workers that differ much from the estimates.

use std::collections::BTreeMap;

use bus_schemas::{Incarnation, KernelKey, Measured, ProfileHash};

use super::config::LeaderConfig;
use crate::input::Profile;
use crate::time::Nanos;

/// Maximum number of kernel keys in the profile.
const KEYS: usize = 1 << 15;
/// Number of keys forgotten at once if there is no room: those measured longest ago.
const FORGOTTEN: usize = KEYS / 4;
/// Maximum number of workers' totals that are kept.
const TOTALS: usize = 4 * KEYS;
/// An estimate is off if it differs from the known mean by more than one part in this.
const TOLERANCE: u64 = 5;
/// Maximum number of launches that an estimate remembers.
const MEMORY: u64 = 256;
/// Launches that an estimate of another term counts as; with fewer, an estimate is a first guess.
const KNOWN: u64 = 8;
/// Maximum factor by which a report may differ from the estimate, if it has fewer launches than the
/// estimate remembers.
const LEAP: u64 = 8;

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    count: u64,
    ns: u64,
}

/// The known data of one key.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    /// The value in the profile.
    published: u64,
    /// Mean nanoseconds of the remembered launches.
    mean: u64,
    /// Number of remembered launches.
    weight: u64,
    /// The newest version when it was last measured.
    measured: u64,
}

impl Estimate {
    fn new(published: u64, weight: u64, measured: u64) -> Self {
        Self {
            published,
            mean: published,
            weight,
            measured,
        }
    }

    /// Takes in a measurement: `fresh.count` more launches took `fresh.ns`.
    fn learn(&mut self, fresh: Total) {
        let mean = (fresh.ns / fresh.count.max(1)).max(1);
        let (low, high) = ((self.mean / LEAP).max(1), self.mean.saturating_mul(LEAP));
        let (outweighs, leaps) = (fresh.count >= self.weight, !(low..=high).contains(&mean));
        if outweighs && leaps && self.weight < KNOWN {
            // For example, a first launch that loaded its code.
            (self.mean, self.weight) = (mean, fresh.count.min(MEMORY));
            return;
        }
        let mean = if outweighs {
            mean
        } else {
            mean.clamp(low, high)
        };
        let (old, new) = (u128::from(self.weight), u128::from(fresh.count));
        let sum = u128::from(self.mean) * old + u128::from(mean) * new;
        // A mean of two numbers is no larger than the larger of them.
        self.mean = u64::try_from(sum / (old + new).max(1)).unwrap_or(u64::MAX);
        self.weight = self.weight.saturating_add(fresh.count).min(MEMORY);
    }

    fn is_off(&self) -> bool {
        self.mean.abs_diff(self.published) > self.published / TOLERANCE
    }
}

/// The profile as it is learned, and measurements that are not in it yet.
#[derive(Debug)]
pub(super) struct Learner {
    estimates: BTreeMap<KernelKey, Estimate>,
    /// The newest version.
    version: u64,
    /// The last received totals.
    totals: BTreeMap<(Incarnation, KernelKey), Total>,
    /// Measurements since a key was last learned.
    fresh: BTreeMap<KernelKey, Total>,
    next_at: Nanos,
}

impl Learner {
    /// Continues from `profile`; new versions are numbered above `newest` and its version.
    pub(super) fn new(profile: &Profile, newest: u64, now: Nanos) -> Self {
        let mut learner = Self {
            estimates: BTreeMap::new(),
            version: newest,
            totals: BTreeMap::new(),
            fresh: BTreeMap::new(),
            next_at: now,
        };
        learner.adopt(profile);
        learner
    }

    /// Replaces the learned estimates by a profile.
    pub(super) fn adopt(&mut self, profile: &Profile) {
        self.version = self.version.max(profile.version);
        let entries = profile.entries.iter().filter(|(_, ns)| *ns > 0);
        let known = |(key, ns): &(KernelKey, u64)| (*key, Estimate::new(*ns, KNOWN, self.version));
        self.estimates = entries.map(known).collect();
        self.fresh.clear();
    }

    /// Takes in a worker's measurement, and learns from it if `learns`.
    pub(super) fn measured(&mut self, worker: Incarnation, measured: &Measured, learns: bool) {
        for kernel in &measured.kernels {
            let before = self.totals.get(&(worker, kernel.key)).copied();
            if before.is_none() && self.totals.len() >= TOTALS {
                self.totals.clear();
            }
            let total = Total {
                count: kernel.count,
                ns: kernel.total_ns,
            };
            let last = before.unwrap_or_default();
            if total.count <= last.count || total.ns < last.ns {
                continue;
            }
            self.totals.insert((worker, kernel.key), total);
            if !learns {
                continue;
            }
            let mut fresh = Total {
                count: total.count - last.count,
                ns: total.ns - last.ns,
            };
            if before.is_none() && self.estimates.contains_key(&kernel.key) {
                // The total of its whole life, most of which may be long ago and known already.
                let mean = fresh.ns / fresh.count;
                fresh.count = fresh.count.min(KNOWN);
                fresh.ns = mean.saturating_mul(fresh.count);
            }
            let sum = self.fresh.entry(kernel.key).or_default();
            sum.count = sum.count.saturating_add(fresh.count);
            sum.ns = sum.ns.saturating_add(fresh.ns);
        }
    }

    /// Forgets a lost worker.
    pub(super) fn lost(&mut self, worker: Incarnation) {
        self.totals.retain(|(of, _), _| *of != worker);
    }

    /// The estimates that are to change, if it is time and there are any. Every key measured until
    /// now is in them, or is in the profile and not off.
    pub(super) fn next(&mut self, now: Nanos, config: &LeaderConfig) -> Option<Profile> {
        if self.fresh.is_empty() || now < self.next_at {
            return None;
        }
        self.next_at = now.saturating_add(config.learn);
        let version = self.version + 1;
        let mut changed = BTreeMap::new();
        for (key, fresh) in std::mem::take(&mut self.fresh) {
            if let Some(estimate) = self.estimates.get_mut(&key) {
                estimate.learn(fresh);
                estimate.measured = version;
                if estimate.is_off() {
                    estimate.published = estimate.mean;
                    changed.insert(key, estimate.mean);
                }
                continue;
            }
            if self.estimates.len() >= KEYS {
                changed.extend(self.forget().into_iter().map(|key| (key, 0)));
            }
            let mean = (fresh.ns / fresh.count.max(1)).max(1);
            let estimate = Estimate::new(mean, fresh.count.min(MEMORY), version);
            self.estimates.insert(key, estimate);
            changed.insert(key, mean);
        }
        if changed.is_empty() {
            return None;
        }
        self.version = version;
        Some(Profile {
            version,
            hash: ProfileHash::of(self.entries()),
            whole: false,
            entries: changed.into_iter().collect(),
        })
    }

    /// Makes room: forgets the keys that were measured longest ago.
    fn forget(&mut self) -> Vec<KernelKey> {
        let estimates = self.estimates.iter();
        let mut oldest: Vec<_> = estimates.map(|(key, it)| (it.measured, *key)).collect();
        oldest.sort_unstable();
        oldest.truncate(FORGOTTEN);
        for (_, key) in &oldest {
            self.estimates.remove(key);
        }
        oldest.into_iter().map(|(_, key)| key).collect()
    }

    fn entries(&self) -> impl Iterator<Item = (KernelKey, u64)> + '_ {
        let estimates = self.estimates.iter();
        estimates.map(|(key, estimate)| (*key, estimate.published))
    }

    /// The whole profile.
    pub(super) fn profile(&self) -> Profile {
        Profile::of(self.version, self.entries().collect())
    }

    pub(super) fn next_wakeup(&self) -> Option<Nanos> {
        (!self.fresh.is_empty()).then_some(self.next_at)
    }
}

#[cfg(test)]
mod tests;
