//! The number of mappings of the process that each tenant's second mappings may take.

use crate::shared::mappings;
use device::TenantNumber;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Maximum number of second mappings of all tenants together. Each may split a mapping of the
/// process in three, and the rest of the process needs mappings too.
pub(crate) fn most() -> usize {
    usize::try_from(mappings() / 8).unwrap_or(usize::MAX)
}

/// True if a tenant that has `own` second mappings may have one more, if the other tenants have
/// `others`. It gets at most half of what the others leave. So a tenant that takes its maximum
/// leaves as many to the next.
pub(crate) fn has_room(own: usize, others: usize, most: usize) -> bool {
    own < most.saturating_sub(others) / 2
}

/// The second mappings of each tenant.
#[derive(Debug, Default)]
pub(super) struct Remapped {
    by_tenant: Mutex<BTreeMap<Option<TenantNumber>, usize>>,
}

impl Remapped {
    /// Counts one more for a tenant; false if it may have no more.
    pub(super) fn begin(&self, tenant: Option<TenantNumber>, most: usize) -> bool {
        let mut by_tenant = self
            .by_tenant
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let own = by_tenant.get(&tenant).copied().unwrap_or(0);
        let all: usize = by_tenant.values().sum();
        let room = has_room(own, all - own, most);
        if room {
            by_tenant.insert(tenant, own + 1);
        }
        room
    }

    /// Removes the ended mappings of a tenant.
    pub(super) fn end(&self, tenant: Option<TenantNumber>, ended: usize) {
        let mut by_tenant = self
            .by_tenant
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let own = by_tenant.get(&tenant).copied().unwrap_or(0);
        match own.saturating_sub(ended) {
            0 => drop(by_tenant.remove(&tenant)),
            left => drop(by_tenant.insert(tenant, left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_takes_all_it_can_leaves_some_to_each_that_comes() {
        let remapped = Remapped::default();
        let taken = |tenant| {
            let tenant = Some(TenantNumber(tenant));
            (0..).take_while(|_| remapped.begin(tenant, 80)).count()
        };
        assert_eq!([taken(1), taken(2), taken(3)], [40, 20, 10]);
        assert_eq!(taken(1), 0, "it has its half");
        remapped.end(Some(TenantNumber(1)), 40);
        assert_eq!(taken(3), 20, "half of what the second leaves");
        assert_eq!(taken(1), 15);
    }
}
