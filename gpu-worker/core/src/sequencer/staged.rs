//! Host bytes that are reserved for staged transfers: of all sessions, and of each tenant's.

use std::collections::BTreeMap;

use bus_schemas::Tenant;

use crate::Nanos;

/// One tenant's.
#[derive(Debug, Default)]
struct Share {
    bytes: u64,
    /// When bytes of its transfers were stored last.
    moved: Nanos,
}

/// What is reserved.
#[derive(Debug, Default)]
pub(super) struct Staged {
    bytes: u64,
    tenants: BTreeMap<Tenant, Share>,
}

impl Staged {
    /// Of all sessions, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of a tenant's sessions, bytes.
    pub(super) fn of(&self, tenant: &Tenant) -> u64 {
        self.tenants.get(tenant).map_or(0, |share| share.bytes)
    }

    /// A session of the tenant has so much reserved instead of that much.
    pub(super) fn change(&mut self, tenant: &Tenant, before: u64, after: u64) {
        if before == after {
            return;
        }
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        let share = self.tenants.entry(tenant.clone()).or_default();
        share.bytes = share.bytes.saturating_sub(before).saturating_add(after);
        if share.bytes == 0 {
            self.tenants.remove(tenant);
        }
    }

    /// Bytes of a transfer of the tenant were stored.
    pub(super) fn moved(&mut self, now: Nanos, tenant: &Tenant) {
        if let Some(share) = self.tenants.get_mut(tenant) {
            share.moved = now;
        }
    }

    /// When bytes of the tenant's transfers were stored last, if it has some reserved.
    pub(super) fn moved_at(&self, tenant: &Tenant) -> Option<Nanos> {
        self.tenants.get(tenant).map(|share| share.moved)
    }
}
