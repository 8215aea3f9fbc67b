//! Host bytes reserved for staged transfers: of all sessions, and of each tenant's.

use std::collections::BTreeMap;

use bus_schemas::Tenant;

use crate::Nanos;

/// The share of one tenant.
#[derive(Debug, Default)]
struct Share {
    bytes: u64,
    /// Time at which bytes of its transfers were last stored.
    moved: Nanos,
}

/// The reserved bytes.
#[derive(Debug, Default)]
pub(super) struct Staged {
    bytes: u64,
    tenants: BTreeMap<Tenant, Share>,
}

impl Staged {
    /// Bytes of all sessions.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of a tenant's sessions.
    pub(super) fn of(&self, tenant: &Tenant) -> u64 {
        self.tenants.get(tenant).map_or(0, |share| share.bytes)
    }

    /// Replaces the reserved bytes of one of the tenant's sessions.
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

    /// Notes that bytes of a transfer of the tenant were stored.
    pub(super) fn moved(&mut self, now: Nanos, tenant: &Tenant) {
        if let Some(share) = self.tenants.get_mut(tenant) {
            share.moved = now;
        }
    }

    /// Time at which bytes of the tenant's transfers were last stored, if it has bytes reserved.
    pub(super) fn moved_at(&self, tenant: &Tenant) -> Option<Nanos> {
        self.tenants.get(tenant).map(|share| share.moved)
    }
}
