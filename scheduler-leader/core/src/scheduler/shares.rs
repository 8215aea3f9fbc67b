//! Each tenant's share of common resources: sessions, and the addresses of a worker.

use bus_schemas::{Code, TenantLimits};

use super::apply::Scheduler;
use super::space::Space;
use crate::effect::TenantShare;
use crate::slots::{TenantSlot, WorkerSlot};

/// The reason why a request has no place.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) code: Code,
    /// The tenant's use of its limit, if that limit is the reason.
    pub(super) share: Option<TenantShare>,
}

impl From<Code> for Denied {
    fn from(code: Code) -> Self {
        Self { code, share: None }
    }
}

impl TenantShare {
    /// Returns true if the wanted amount is within the limit.
    pub(super) fn has_room(self) -> bool {
        self.used.saturating_add(self.wanted) <= self.limit
    }
}

impl Scheduler {
    pub(super) fn limits(&self, tenant: TenantSlot) -> TenantLimits {
        let settings = &self.tenants[tenant].settings;
        settings.limits(&self.settings)
    }

    /// Checks that the tenant may have this many more sessions.
    pub(super) fn within_sessions(&self, tenant: TenantSlot, wanted: u64) -> Result<(), Denied> {
        let share = TenantShare {
            used: self.tenants[tenant].sessions,
            wanted,
            limit: self.limits(tenant).sessions,
        };
        let (code, share) = match share.has_room() {
            true => return Ok(()),
            false => (Code::SessionLimit, Some(share)),
        };
        Err(Denied { code, share })
    }

    /// Bytes of the window that a tenant's session has on a worker.
    pub(super) fn window_size(&self, tenant: TenantSlot, worker: WorkerSlot, wide: bool) -> u64 {
        let capacity = self.workers[worker].capacity;
        Space::size(capacity, self.quota(tenant, worker), wide)
    }

    /// The tenant's use of a worker's addresses, and the size of one more session's window.
    pub(super) fn addresses(
        &self,
        tenant: TenantSlot,
        worker: WorkerSlot,
        wide: bool,
    ) -> TenantShare {
        let flow = self.workers[worker].flows.get(&tenant);
        TenantShare {
            used: flow.map_or(0, |flow| self.flows[*flow].addresses),
            wanted: self.window_size(tenant, worker, wide),
            limit: self.limits(tenant).addresses,
        }
    }

    /// A refusal of the policy. If the tenant's limit is the reason, it has the use on the worker
    /// with the least.
    pub(super) fn denied(&self, tenant: TenantSlot, code: Code, wide: bool) -> Denied {
        let workers = self.workers.slots();
        let takes = |worker: &WorkerSlot| !self.workers[*worker].lost;
        let shares = workers
            .filter(takes)
            .map(|worker| self.addresses(tenant, worker, wide));
        let over = shares.filter(|share| !share.has_room());
        let share = match code {
            Code::AddressLimit => over.min_by_key(|share| share.used),
            _ => None,
        };
        Denied { code, share }
    }
}
