//! What tenants have of the memory: the figures that clients, tenants and administrators are told.

use std::collections::BTreeSet;
use std::ops::Bound;

use bus_schemas::{ClientProcess, SessionId, Tenant};

use super::Pager;
use super::sums::Holding;
use super::waiting::TenantMemory;

impl Pager {
    /// What all sessions together have.
    #[must_use]
    pub fn device_memory(&self) -> TenantMemory {
        TenantMemory {
            total: self.capacity,
            held: self.all.held,
            free: self.limit.saturating_sub(self.all.held),
        }
    }

    /// What a tenant has; `None` where it has no session here.
    #[must_use]
    pub fn tenant_memory(&self, tenant: &Tenant) -> Option<TenantMemory> {
        let holding = self.tenants.get(tenant);
        let holding = holding.filter(|holding| !holding.sessions.is_empty())?;
        Some(self.memory_of(holding, 0, 0))
    }

    /// What the tenant of a session has, as its client counts what the session itself holds; of the free
    /// bytes, those that the session may take.
    #[must_use]
    pub fn memory(&self, session: SessionId, held: u64) -> Option<TenantMemory> {
        let memory = self.sessions.get(&session)?;
        let holding = self.tenants.get(&memory.tenant)?;
        let tenant = self.memory_of(holding, memory.live, held);
        if !self.is_overcommitted() {
            return Some(tenant);
        }
        let most = self.most(session);
        Some(TenantMemory {
            total: tenant.total.min(self.capacity),
            free: tenant.free.min(most.saturating_sub(held + memory.fixed)),
            ..tenant
        })
    }

    /// What a tenant has where `held` takes the place of `counted` bytes.
    fn memory_of(&self, holding: &Holding, counted: u64, held: u64) -> TenantMemory {
        let total = holding.quota.min(self.limit);
        let tenant = (holding.held - counted).saturating_add(held);
        let device = (self.all.held - counted).saturating_add(held);
        let free = total.saturating_sub(tenant);
        TenantMemory {
            total,
            held: tenant,
            free: free.min(self.limit.saturating_sub(device)),
        }
    }

    /// The tenants that have sessions here, by name, behind this one.
    pub fn tenants_after(
        &self,
        after: Option<&Tenant>,
    ) -> impl Iterator<Item = (&Tenant, &BTreeSet<SessionId>)> {
        let first = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let tenants = self.tenants.range((first, Bound::Unbounded));
        tenants
            .filter(|(_, holding)| !holding.sessions.is_empty())
            .map(|(tenant, holding)| (tenant, &holding.sessions))
    }

    /// The sessions of a tenant.
    #[must_use]
    pub fn sessions_of(&self, tenant: &Tenant) -> Option<&BTreeSet<SessionId>> {
        self.tenants.get(tenant).map(|holding| &holding.sessions)
    }

    /// Bytes that a session has: allocations, and variables of modules.
    #[must_use]
    pub fn held(&self, session: SessionId) -> u64 {
        let memory = self.sessions.get(&session);
        memory.map_or(0, |memory| memory.live + memory.fixed)
    }

    /// Bytes that a session may hold without asking.
    #[must_use]
    pub fn committed(&self, session: SessionId) -> u64 {
        let memory = self.sessions.get(&session);
        memory.map_or(0, |memory| memory.committed())
    }

    /// A session's client says which process it is.
    pub fn name_process(&mut self, session: SessionId, process: ClientProcess) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.process = Some(Box::new(process));
        }
    }

    /// The process that has a session, where its client says so.
    #[must_use]
    pub fn process(&self, session: SessionId) -> Option<ClientProcess> {
        self.sessions.get(&session)?.process.as_deref().copied()
    }
}
