//! Images and weights that workers hold in common, by tenant and by worker.

use std::collections::BTreeMap;

use crate::slots::WorkerSlot;
use bus_schemas::Tenant;

/// The use of things that workers may have in common, by tenant, and the workers that have them.
#[derive(Debug, Default)]
pub(super) struct Commons {
    /// Number of workers on which a tenant uses a fingerprint.
    used: BTreeMap<(Tenant, u64), u32>,
    /// Workers that have a fingerprint, from any tenant, and the bytes that it saves there.
    holders: BTreeMap<(u64, WorkerSlot), u64>,
}

impl Commons {
    /// Replaces the things of a worker: the tenant, the fingerprint, and the bytes, 0 if it is not
    /// there.
    pub(super) fn set<'a>(
        &mut self,
        worker: WorkerSlot,
        before: impl Iterator<Item = (&'a Tenant, u64)>,
        now: impl Iterator<Item = (&'a Tenant, u64, u64)>,
    ) {
        for (tenant, fingerprint) in before {
            let key = (tenant.clone(), fingerprint);
            if let Some(count) = self.used.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.used.remove(&key);
                }
            }
            self.holders.remove(&(fingerprint, worker));
        }
        for (tenant, fingerprint, bytes) in now {
            *self.used.entry((tenant.clone(), fingerprint)).or_default() += 1;
            if bytes > 0 {
                let holder = self.holders.entry((fingerprint, worker)).or_default();
                *holder = bytes.max(*holder);
            }
        }
    }

    /// The workers that have things that the tenant uses, from any tenant, and their bytes.
    pub(super) fn shared(&self, tenant: &Tenant) -> BTreeMap<WorkerSlot, u64> {
        let range = (tenant.clone(), 0)..=(tenant.clone(), u64::MAX);
        let mut shared = BTreeMap::<WorkerSlot, u64>::new();
        for ((_, fingerprint), _) in self.used.range(range) {
            let holders = (*fingerprint, WorkerSlot::FIRST)..=(*fingerprint, WorkerSlot::LAST);
            for ((_, worker), bytes) in self.holders.range(holders) {
                let sum = shared.entry(*worker).or_default();
                *sum = sum.saturating_add(*bytes);
            }
        }
        shared
    }
}
