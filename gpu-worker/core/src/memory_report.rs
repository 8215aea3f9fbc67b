//! The report of a device's memory: the memory of each tenant and its sessions, in pages.

use std::collections::BTreeMap;

use bus_schemas::{
    GpuId, Incarnation, MemoryStatus, SessionId, SessionMemoryStatus, SwapStatus, Tenant,
    TenantMemoryStatus, TenantMoves, WIRE_VERSION, limits,
};

use crate::busy::BusyTimes;
use crate::pager::TenantMemory;
use crate::{Meter, Nanos, Pager};

/// The limits of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimits {
    /// Maximum number of tenants.
    pub tenants: usize,
    /// Maximum number of sessions.
    pub sessions: usize,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self {
            tenants: limits::STATUS_TENANTS,
            sessions: limits::STATUS_SESSIONS,
        }
    }
}

/// The sources of a report.
#[derive(Debug, Clone, Copy)]
pub struct MemoryReport<'a> {
    pub(crate) now: Nanos,
    pub(crate) worker: (Incarnation, GpuId),
    pub(crate) pager: &'a Pager,
    pub(crate) meter: &'a Meter,
    pub(crate) busy: &'a BusyTimes,
    /// Sessions with running launches, each with the time at which they began.
    pub(crate) running: &'a BTreeMap<SessionId, Nanos>,
}

impl MemoryReport<'_> {
    /// Returns the page of all tenants that follows `after`.
    #[must_use]
    pub fn page(&self, after: Option<&Tenant>, most: PageLimits) -> MemoryStatus {
        let mut status = self.status(self.pager.device_memory());
        for (tenant, sessions) in self.pager.tenants_after(after) {
            let is_full = status.tenants.len() >= most.tenants
                || status.sessions.len() + sessions.len() > most.sessions;
            if is_full && !status.tenants.is_empty() {
                status.more = true;
                break;
            }
            self.add(tenant, &mut status, most);
        }
        self.add_swap(&mut status);
        status
    }

    /// Returns the report for one tenant, about itself only; all 0 if it has no session on this worker.
    #[must_use]
    pub fn of(&self, tenant: &Tenant) -> MemoryStatus {
        let memory = self.pager.tenant_memory(tenant);
        let mut status = self.status(memory.unwrap_or_default());
        if memory.is_some() {
            self.add(tenant, &mut status, PageLimits::default());
            self.add_swap(&mut status);
        }
        if let Some(swap) = &mut status.swap {
            // A tenant may not know about other tenants.
            *swap = SwapStatus {
                limit: swap.limit,
                sessions: std::mem::take(&mut swap.sessions),
                ..SwapStatus::default()
            };
        }
        status
    }

    fn status(&self, memory: TenantMemory) -> MemoryStatus {
        let (incarnation, gpu) = self.worker;
        MemoryStatus {
            v: WIRE_VERSION,
            incarnation,
            gpu,
            capacity: memory.total,
            held: memory.held,
            free: memory.free,
            tenants: Vec::new(),
            sessions: Vec::new(),
            more: false,
            swap: None,
            moves: Vec::new(),
        }
    }

    fn add_swap(&self, status: &mut MemoryStatus) {
        let sessions = status.sessions.iter().map(|session| &session.session);
        status.swap = self.pager.swap_status(sessions);
    }

    /// Adds a tenant, and as many of its sessions as the page has room for.
    fn add(&self, tenant: &Tenant, status: &mut MemoryStatus, most: PageLimits) {
        let (Some(memory), Some(sessions)) = (
            self.pager.tenant_memory(tenant),
            self.pager.sessions_of(tenant),
        ) else {
            return;
        };
        let (pager, now) = (self.pager, self.now);
        let resident = |session: &SessionId| {
            let residency = pager.residency(*session);
            residency.map_or(0, |it| it.resident)
        };
        let since = sessions.iter().filter_map(|it| self.running.get(it)).min();
        status.tenants.push(TenantMemoryStatus {
            tenant: tenant.clone(),
            total: memory.total,
            held: memory.held,
            free: memory.free,
            committed: sessions.iter().map(|it| pager.committed(*it)).sum(),
            resident: sessions.iter().map(resident).sum(),
            busy_ppm: self.busy.tenant(now, tenant, since.copied()),
            sessions: u32::try_from(sessions.len()).unwrap_or(u32::MAX),
        });
        let moves = self.meter.moves_of(now, pager, tenant);
        if !moves.is_zero() {
            let tenant = tenant.clone();
            status.moves.push(TenantMoves { tenant, moves });
        }
        let room = most.sessions.saturating_sub(status.sessions.len());
        let named = sessions.iter().take(room);
        status.sessions.extend(named.map(|session| {
            SessionMemoryStatus {
                tenant: tenant.clone(),
                session: *session,
                held: pager.held(*session),
                busy_ppm: self
                    .busy
                    .session(now, *session, self.running.get(session).copied()),
                process: pager.process(*session),
            }
        }));
    }
}
