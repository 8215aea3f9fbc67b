//! The public view of the scheduler.

use bus_schemas::{
    GpuId, GpuPosition, Incarnation, OpNumber, ProfileStatus, SessionId, Tenant, TenantSettings,
};

use super::apply::Scheduler;
use super::state::{Life, WorkerState};
use crate::input::WorkerReport;
use crate::slots::{Arena, TenantSlot};

/// A session as the order sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// Its tenant.
    pub tenant: Tenant,
    /// Its number among the tenant's sessions, from 1.
    pub ordinal: u64,
    /// Its worker.
    pub incarnation: Incarnation,
    /// Ops queued without a gap.
    pub queued: OpNumber,
    /// Ops granted.
    pub granted: OpNumber,
    /// Ops done.
    pub done: OpNumber,
    /// True if it is granted only ops that the worker reports as received.
    pub doubted: bool,
    /// Last op that the worker has, as last reported.
    pub received: OpNumber,
    /// True if its close grant is decided.
    pub closing: bool,
    /// True if its memory is not on the device: it is granted nothing before it has returned.
    pub away: bool,
    /// True if it waits for its memory.
    pub waiting: bool,
    /// True if its tenant is suspended: it is granted nothing more.
    pub suspended: bool,
}

/// A worker as the order sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerView {
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// Last position granted.
    pub granted: GpuPosition,
    /// Sessions placed there.
    pub sessions: u64,
    /// Charged nanoseconds granted and not done, by priority.
    pub outstanding_ns: [u64; 5],
    /// Grants made in this epoch.
    pub grants: u64,
    /// Positions reported void in this epoch.
    pub voids: u64,
    /// True if it announced that it leaves when its accepted work is done.
    pub draining: bool,
    /// True if an administrator wants no new sessions there.
    pub cordoned: bool,
    /// Its last report of itself.
    pub report: WorkerReport,
    /// Bytes that sessions may hold together.
    pub capacity: u64,
    /// Bytes of them that no session holds.
    pub free: u64,
    /// Percent of its time that was granted recently.
    pub busy: u8,
}

/// A tenant as the order sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantView {
    /// The tenant.
    pub tenant: Tenant,
    /// Its settings; `None` once removed.
    pub settings: Option<TenantSettings>,
    /// Open sessions.
    pub sessions: u64,
    /// Ops queued and not granted.
    pub queued: u64,
    /// Ops granted in this epoch.
    pub granted: u64,
    /// Charged nanoseconds granted in this epoch.
    pub granted_ns: u64,
    /// Charged nanoseconds granted and not done.
    pub outstanding_ns: u64,
}

/// A device that sessions of a tenant may be placed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantPlace {
    /// Its worker.
    pub incarnation: Incarnation,
    /// The device.
    pub gpu: GpuId,
    /// Bytes that the tenant may hold there.
    pub quota: u64,
}

/// A tenant on one worker, as the order sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowView {
    /// The tenant.
    pub tenant: Tenant,
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// Estimated cost of a request of the tenant there, nanoseconds; 0 before the first.
    pub request_ns: u64,
    /// Recent peak cost of its slices there, nanoseconds.
    pub slice_ns: u64,
    /// Charged nanoseconds granted there in this epoch.
    pub granted_ns: u64,
}

impl Scheduler {
    /// Every tenant on every worker that is not lost.
    #[must_use]
    pub fn flows(&self) -> Vec<FlowView> {
        let flows = self.flows.iter().filter_map(|flow| {
            let worker = &self.workers[flow.worker];
            let view = || FlowView {
                tenant: self.tenants[flow.tenant].name.clone(),
                incarnation: worker.incarnation,
                gpu: worker.gpu,
                request_ns: flow.request.get(),
                slice_ns: flow.slice.get(),
                granted_ns: flow.granted_ns,
            };
            (!worker.lost).then(view)
        });
        flows.collect()
    }

    /// One session.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Option<SessionView> {
        let state = self.sessions[self.slot(session)?].as_ref()?;
        Some(SessionView {
            tenant: self.tenants[state.tenant].name.clone(),
            ordinal: state.ordinal,
            incarnation: self.workers[state.worker].incarnation,
            queued: state.queue.queued(),
            granted: state.queue.granted(),
            done: state.queue.done(),
            doubted: state.doubted,
            received: state.received,
            closing: matches!(state.life, Life::Closing(_)),
            away: state.away,
            waiting: self.is_waiting(self.slot(session)?),
            suspended: state.suspended,
        })
    }

    /// Returns true if a session has a standing grant, or had one that is not accounted yet.
    #[must_use]
    pub fn stands_for(&self, session: SessionId) -> bool {
        self.slot(session).is_some_and(|slot| self.stands(slot))
    }

    /// Every session that is not closed, by id.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.session_index.keys().copied()
    }

    /// One worker.
    #[must_use]
    pub fn worker(&self, incarnation: Incarnation) -> Option<WorkerView> {
        let index = *self.worker_index.get(&incarnation)?;
        Some(view(&self.workers[index]))
    }

    /// Every worker that is not lost, by incarnation.
    #[must_use]
    pub fn workers(&self) -> Vec<WorkerView> {
        self.present().into_iter().map(view).collect()
    }

    /// Returns true if some worker is not lost.
    #[must_use]
    pub fn has_workers(&self) -> bool {
        self.workers.iter().any(|worker| !worker.lost)
    }

    /// Returns true if work is granted and not done.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let mut workers = self.workers.iter().filter(|worker| !worker.lost);
        workers.any(|worker| worker.lanes.outstanding() != [0; 5])
    }

    /// Every tenant, by name.
    #[must_use]
    pub fn tenants(&self) -> Vec<TenantView> {
        let mut queued = Arena::<TenantSlot, u64>::default();
        for session in self.sessions.iter().flatten() {
            *queued.grow_to(session.tenant) += session.queue.queued() - session.queue.granted();
        }
        let indices = self.tenant_index.values().copied();
        let view = |index: TenantSlot| {
            let tenant = &self.tenants[index];
            TenantView {
                tenant: tenant.name.clone(),
                settings: tenant.known.then(|| tenant.settings.clone()),
                sessions: tenant.sessions,
                queued: queued.find(index).copied().unwrap_or(0),
                granted: tenant.granted,
                granted_ns: tenant.granted_ns,
                outstanding_ns: tenant.outstanding,
            }
        };
        indices.map(view).collect()
    }

    /// A tenant's quota, bytes; 0 without one.
    #[must_use]
    pub fn quota_of(&self, tenant: &Tenant) -> u64 {
        let index = self.tenant_index.get(tenant);
        index.map_or(0, |index| self.tenants[*index].settings.quota)
    }

    /// The tenants that have a quota, by name, with the quota in bytes.
    pub fn quotas(&self) -> impl Iterator<Item = (&Tenant, u64)> {
        let tenants = self.tenant_index.iter();
        let quotas = tenants.map(|(name, index)| (name, self.tenants[*index].settings.quota));
        quotas.filter(|(_, quota)| *quota > 0)
    }

    /// Returns true if the tenant exists.
    #[must_use]
    pub fn is_known(&self, tenant: &Tenant) -> bool {
        let index = self.tenant_index.get(tenant);
        index.is_some_and(|index| self.tenants[*index].known)
    }

    /// The existing tenants, by name.
    pub fn known(&self) -> impl Iterator<Item = &Tenant> {
        let tenants = self.tenant_index.iter();
        let known = tenants.filter(|(_, index)| self.tenants[**index].known);
        known.map(|(name, _)| name)
    }

    /// Returns true if a tenant's memory must never be swapped out.
    #[must_use]
    pub fn is_pinned(&self, tenant: &Tenant) -> bool {
        let index = self.tenant_index.get(tenant);
        index.is_some_and(|index| self.tenants[*index].is_pinned())
    }

    /// The tenants with memory that must never be swapped out, by name.
    pub fn pinned(&self) -> impl Iterator<Item = &Tenant> {
        let tenants = self.tenant_index.iter();
        let pinned = tenants.filter(|(_, index)| self.tenants[**index].is_pinned());
        pinned.map(|(name, _)| name)
    }

    /// A tenant's target, nanoseconds; 0 without one.
    #[must_use]
    pub fn target(&self, tenant: &Tenant) -> u64 {
        let index = self.tenant_index.get(tenant);
        index.map_or(0, |index| self.tenants[*index].settings.slo_ns)
    }

    /// The profile that the order uses; `pinned` is known to the caller.
    #[must_use]
    pub fn profile(&self, pinned: bool) -> ProfileStatus {
        let (version, hash, kernels) = self.costs.profile();
        ProfileStatus {
            version,
            hash,
            kernels,
            pinned,
        }
    }

    /// Returns true if its estimates are those that the last profile input named by their hash.
    #[must_use]
    pub fn profile_is_as_named(&self) -> bool {
        let (_, named, _) = self.costs.profile();
        named.is_unknown() || named == self.costs.hash()
    }

    /// The highest ordinal of each tenant, by name.
    #[must_use]
    pub fn ordinals(&self) -> Vec<(Tenant, u64)> {
        let tenants = self.tenant_index.iter();
        let ordinals = tenants.map(|(name, index)| {
            let ordinal = self.tenants[*index].ordinal;
            (name.clone(), ordinal)
        });
        ordinals.filter(|(_, ordinal)| *ordinal > 0).collect()
    }
}

fn view(worker: &WorkerState) -> WorkerView {
    WorkerView {
        incarnation: worker.incarnation,
        gpu: worker.gpu,
        granted: worker.position,
        sessions: worker.sessions,
        outstanding_ns: worker.lanes.outstanding(),
        grants: worker.grants,
        voids: worker.voids,
        draining: worker.draining,
        cordoned: worker.cordoned,
        report: worker.report.clone(),
        capacity: worker.memory(),
        free: worker.free(),
        busy: worker.recent.percent(),
    }
}
