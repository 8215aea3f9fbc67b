//! The memory of tenants: the figures for clients, tenants and administrators.

use std::collections::BTreeSet;
use std::ops::Bound;

use bus_schemas::{ClientProcess, SessionId, Tenant};

use super::Pager;
use super::sums::Holding;
use super::waiting::TenantMemory;

impl Pager {
    /// Returns the memory of all sessions together.
    #[must_use]
    pub fn device_memory(&self) -> TenantMemory {
        TenantMemory {
            total: self.capacity,
            held: self.all.held,
            free: self.limit.saturating_sub(self.all.held),
        }
    }

    /// Returns a tenant's memory; `None` if it has no session on this worker.
    #[must_use]
    pub fn tenant_memory(&self, tenant: &Tenant) -> Option<TenantMemory> {
        let holding = self.tenants.get(tenant);
        let holding = holding.filter(|holding| !holding.sessions.is_empty())?;
        Some(self.memory_of(holding, 0, 0))
    }

    /// Returns the memory of a session's tenant, with `held` bytes for the session as its client counts them.
    /// The free bytes are those that the session may take.
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

    /// Returns a tenant's memory with `held` bytes in place of the `counted` ones.
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

    /// Returns the tenants with sessions on this worker, by name, that follow this one.
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

    /// Returns the sessions of a tenant.
    #[must_use]
    pub fn sessions_of(&self, tenant: &Tenant) -> Option<&BTreeSet<SessionId>> {
        self.tenants.get(tenant).map(|holding| &holding.sessions)
    }

    /// Number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Bytes that a session holds: allocations, and variables of modules.
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

    /// Notes the process that a session's client reports.
    pub fn name_process(&mut self, session: SessionId, process: ClientProcess) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.process = Some(Box::new(process));
        }
    }

    /// The client process of a session, if reported.
    #[must_use]
    pub fn process(&self, session: SessionId) -> Option<ClientProcess> {
        self.sessions.get(&session)?.process.as_deref().copied()
    }
}
