//! The placement of sessions: passes the known facts of the workers to the policy.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bus_schemas::{Code, Incarnation, Tenant, WeightSample};

use super::apply::Scheduler;
use super::recent::RECENT_TICKS;
use super::view::TenantPlace;
use crate::input::WorkerReport;
use crate::policy::{Candidate, allowed, choose};
use crate::slots::{TenantSlot, WorkerSlot};

/// Things on the workers that a tenant's sessions could share.
#[derive(Default)]
struct Shared {
    images: BTreeMap<WorkerSlot, u64>,
    weights: BTreeMap<WorkerSlot, u64>,
    /// True if the windows are wide.
    wide: bool,
}

impl Scheduler {
    /// Takes in a worker's report of itself.
    pub(super) fn worker_report(&mut self, incarnation: Incarnation, report: &WorkerReport) {
        let Some(worker) = self.worker_index.get(&incarnation).copied() else {
            return;
        };
        let state = &mut self.workers[worker];
        if state.lost {
            return;
        }
        let mut report = report.clone();
        // An entry that is listed twice must not count twice.
        report.images.0.sort_unstable();
        report.images.0.dedup();
        let whose = |it: &WeightSample| (it.tenant.clone(), it.fingerprint);
        report
            .weights
            .0
            .sort_unstable_by_key(|it| (whose(it), Reverse(it.bytes)));
        report.weights.0.dedup_by_key(|it| whose(it));
        let before = std::mem::replace(&mut state.report, report);
        self.has_in_common(worker, &before);
    }

    /// Forgets the report of a worker that is gone.
    pub(super) fn forget_report(&mut self, worker: WorkerSlot) {
        let before = std::mem::take(&mut self.workers[worker].report);
        self.has_in_common(worker, &before);
    }

    /// Updates the common images and weights after a worker's report changed.
    fn has_in_common(&mut self, worker: WorkerSlot, before: &WorkerReport) {
        let now = &self.workers[worker].report;
        self.images.set(
            worker,
            before
                .images
                .0
                .iter()
                .map(|(tenant, image)| (tenant, *image)),
            // An image counts as 1.
            now.images
                .0
                .iter()
                .map(|(tenant, image)| (tenant, *image, 1)),
        );
        let before = before.weights.0.iter();
        let now = now.weights.0.iter();
        self.weights.set(
            worker,
            before.map(|it| (&it.tenant, it.fingerprint)),
            now.map(|it| (&it.tenant, it.fingerprint, it.bytes)),
        );
    }

    /// Chooses the workers for a tenant's new sessions, one session on each.
    pub(super) fn place(
        &self,
        tenant: TenantSlot,
        devices: usize,
        wide: bool,
    ) -> Result<Vec<WorkerSlot>, Code> {
        let name = &self.tenants[tenant].name;
        let shared = Shared {
            images: self.images.shared(name),
            weights: self.weights.shared(name),
            wide,
        };
        let workers = self.workers.slots();
        let candidates = workers.map(|worker| self.candidate(tenant, worker, &shared));
        choose(candidates.collect(), devices)
    }

    /// The devices on which sessions of a tenant may be placed, full or not, by number; or the
    /// reason why there are none.
    ///
    /// # Errors
    /// [`Code::UnknownTenant`], or the code of the condition that the last worker did not meet.
    pub fn devices(&self, tenant: &Tenant) -> Result<Vec<TenantPlace>, Code> {
        let tenant = self.tenant_index.get(tenant).copied();
        let known = tenant.filter(|tenant| self.tenants[*tenant].known);
        let tenant = known.ok_or(Code::UnknownTenant)?;
        let shared = Shared {
            wide: true,
            ..Shared::default()
        };
        let workers = self.workers.slots();
        let candidates = workers.map(|worker| self.candidate(tenant, worker, &shared));
        let place = |worker: WorkerSlot| TenantPlace {
            incarnation: self.workers[worker].incarnation,
            gpu: self.workers[worker].gpu,
            quota: self.quota(tenant, worker),
        };
        Ok(allowed(candidates.collect())?
            .into_iter()
            .map(place)
            .collect())
    }

    fn candidate(&self, tenant: TenantSlot, worker: WorkerSlot, shared: &Shared) -> Candidate {
        let owner = &self.tenants[tenant];
        let state = &self.workers[worker];
        let report = &state.report;
        let groups = &owner.settings.groups;
        let in_group = match groups.is_empty() {
            true => !report.exclusive,
            false => groups.contains(&report.group),
        };
        let mut flows = state.flows.iter();
        let vacant = !report.exclusive
            || flows.all(|(of, flow)| *of == tenant || self.flows[*flow].open == 0);
        let share = self.addresses(tenant, worker, shared.wide);
        let here = state.flows.get(&tenant);
        let holds = here.is_some_and(|flow| self.flows[*flow].open > 0);
        Candidate {
            worker,
            takes: !state.lost && !state.draining && !state.cordoned,
            in_group,
            vacant,
            within: share.has_room(),
            addresses: state.space.has_room(share.wanted),
            capacity: state.memory(),
            free: state.free(),
            // A tenant's present memory here is part of the held memory.
            wanted: if holds { 0 } else { owner.settings.quota },
            sessions: state.sessions,
            busy: state.recent.percent(),
            weights: shared.weights.get(&worker).copied().unwrap_or(0),
            shares: shared.images.contains_key(&worker),
            gpu: state.gpu,
            incarnation: state.incarnation,
        }
    }

    /// Returns true if some work counts as recent; further ticks will change that.
    #[must_use]
    pub fn has_recent(&self) -> bool {
        self.recent
    }

    /// Counts a tick: recent work may become old.
    pub(super) fn tick_recent(&mut self) {
        self.ticks += 1;
        if self.ticks < RECENT_TICKS {
            return;
        }
        self.ticks = 0;
        self.recent = false;
        for worker in self.workers.iter_mut() {
            worker.recent.turn();
            self.recent |= !worker.recent.is_none();
        }
    }
}
