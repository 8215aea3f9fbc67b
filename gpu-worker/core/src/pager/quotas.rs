//! Changes of quotas while sessions hold memory: raises, and reductions below the memory held.

use std::collections::BTreeMap;

use bus_schemas::TenantQuota;

use super::Pager;
use super::waiting::MemoryAction;
use crate::Nanos;

impl Pager {
    /// Sets the quotas that a leader names; other tenants may hold all of the device. Sessions keep memory
    /// that they hold above the new quota, and take no more.
    pub fn set_quotas(
        &mut self,
        now: Nanos,
        quotas: impl IntoIterator<Item = TenantQuota>,
        actions: &mut Vec<MemoryAction>,
    ) {
        let limit = self.limit;
        let named = quotas.into_iter().map(|named| {
            let quota = if named.quota == 0 { limit } else { named.quota };
            (named.tenant, quota)
        });
        self.quotas = named.collect::<BTreeMap<_, _>>();
        for (tenant, holding) in &mut self.tenants {
            let quota = self.quotas.get(tenant).copied().unwrap_or(limit);
            (holding.quota, holding.is_set) = (quota, true);
            if holding.live > quota {
                self.over.insert(tenant.clone());
            }
        }
        self.settle(now, actions);
    }
}
