//! Estimated costs of ops. All numbers here are part of the rules.

use std::collections::BTreeMap;

use bus_schemas::{CostClass, CostRun, KernelKey, ProfileHash};

use crate::input::Profile;

/// Nanoseconds charged for an op, beside the bytes that it moves or the kernel that it runs.
const LIGHT_NS: u64 = 500;
/// Bytes that a copy moves in a nanosecond.
const BYTES_PER_NS: u64 = 8;
/// Maximum cost of an op: 2.4 hours. It keeps every sum in its integer.
const HIGHEST_NS: u64 = 1 << 43;
/// Binary digits of virtual time below the nanosecond.
const FRACTION: u32 = 20;

/// The profile, looked up by key.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    /// Cost of a kernel that is not in the profile.
    pub(crate) unknown_ns: u64,
    version: u64,
    named: ProfileHash,
    entries: BTreeMap<KernelKey, u64>,
}

impl Costs {
    /// Takes in a profile's estimates; those of other keys stay, unless the profile is whole.
    pub(crate) fn take(&mut self, profile: &Profile) {
        if profile.whole {
            self.entries.clear();
        }
        for (key, ns) in &profile.entries {
            match ns {
                0 => self.entries.remove(key),
                _ => self.entries.insert(*key, *ns),
            };
        }
        (self.version, self.named) = (profile.version, profile.hash);
    }

    /// The profile's version, the hash that its leader named, and the number of its kernel keys.
    pub(crate) fn profile(&self) -> (u64, ProfileHash, u64) {
        (self.version, self.named, self.entries.len() as u64)
    }

    /// The hash of the present estimates.
    pub(crate) fn hash(&self) -> ProfileHash {
        ProfileHash::of(self.entries.iter().map(|(key, ns)| (*key, *ns)))
    }

    /// Estimated nanoseconds of each op of a run, at least 1.
    pub(crate) fn of(&self, run: &CostRun) -> u64 {
        let known = |key| self.entries.get(key).copied().unwrap_or(self.unknown_ns);
        let cost = match run.class {
            CostClass::Launch => known(&run.key),
            CostClass::Copy | CostClass::Sync => LIGHT_NS.saturating_add(run.bytes / BYTES_PER_NS),
            CostClass::Light => LIGHT_NS,
        };
        cost.clamp(1, HIGHEST_NS)
    }
}

/// The whole nanoseconds of a tag.
pub(crate) fn whole_ns(tag: u128) -> u64 {
    u64::try_from(tag >> FRACTION).unwrap_or(u64::MAX)
}

/// Virtual time that a cost adds to the tag of a flow with this weight.
pub(crate) fn virtual_time(cost: u64, weight: u32) -> u128 {
    let weight = u128::from(weight.max(1));
    match u128::from(cost) << FRACTION {
        // Most products are below 2^64: a narrow division is several times faster.
        scaled if scaled <= u128::from(u64::MAX) => u128::from(scaled as u64 / weight as u64),
        scaled => scaled / weight,
    }
}
