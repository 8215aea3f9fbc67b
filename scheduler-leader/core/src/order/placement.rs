//! Where sessions go: what is known of the workers, put before the policy.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Code, Incarnation, Tenant};

use super::Order;
use super::space::Space;
use crate::input::WorkerReport;
use crate::policy::{Candidate, TICK_NS, choose};

/// Ticks over which granted work counts as recent: a second.
const RECENT_TICKS: u32 = 100;
/// Nanoseconds of that.
const RECENT_NS: u64 = RECENT_TICKS as u64 * TICK_NS;

/// Work granted on a worker of late; of standing grants, work that is known to have run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recent {
    /// In the second that goes on.
    now: u64,
    /// In the one before.
    before: u64,
}

impl Recent {
    pub(super) fn note(&mut self, cost: u64) {
        self.now = self.now.saturating_add(cost);
    }

    /// A second is over.
    fn turn(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// Percent of the device's time, by the busier of the two seconds.
    pub(super) fn percent(self) -> u8 {
        let percent = self.now.max(self.before) / (RECENT_NS / 100);
        percent.min(100) as u8
    }

    fn is_none(self) -> bool {
        self.now == 0 && self.before == 0
    }
}

/// Which images workers have, and whose they are.
#[derive(Debug, Default)]
pub(super) struct Images {
    /// By tenant and image: how many workers have it of the tenant.
    used: BTreeMap<(Tenant, u64), u32>,
    /// The workers that have an image, whoever gave it.
    holders: BTreeSet<(u64, u32)>,
}

impl Images {
    /// A worker has these instead of those.
    fn set(&mut self, worker: u32, before: &[(Tenant, u64)], now: &[(Tenant, u64)]) {
        for (tenant, image) in before {
            let key = (tenant.clone(), *image);
            if let Some(count) = self.used.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.used.remove(&key);
                }
            }
            self.holders.remove(&(*image, worker));
        }
        for (tenant, image) in now {
            *self.used.entry((tenant.clone(), *image)).or_default() += 1;
            self.holders.insert((*image, worker));
        }
    }

    /// The workers that have an image of the tenant's, of whomever.
    fn shared(&self, tenant: &Tenant) -> BTreeSet<u32> {
        let range = (tenant.clone(), 0)..=(tenant.clone(), u64::MAX);
        let images = self.used.range(range).map(|((_, image), _)| *image);
        let holders = images.flat_map(|image| self.holders.range((image, 0)..=(image, u32::MAX)));
        holders.map(|(_, worker)| *worker).collect()
    }
}

impl Order {
    /// A worker said what it is and holds.
    pub(super) fn worker_report(&mut self, incarnation: Incarnation, report: &WorkerReport) {
        let Some(worker) = self.worker_index.get(&incarnation).copied() else {
            return;
        };
        let state = &mut self.workers[worker as usize];
        if state.lost {
            return;
        }
        let mut report = report.clone();
        // One that names an image twice must not be counted twice.
        report.images.0.sort_unstable();
        report.images.0.dedup();
        let before = std::mem::replace(&mut state.report, report);
        self.images
            .set(worker, &before.images.0, &state.report.images.0);
    }

    /// A worker is gone, and with it what it has.
    pub(super) fn forget_report(&mut self, worker: u32) {
        let before = std::mem::take(&mut self.workers[worker as usize].report);
        self.images.set(worker, &before.images.0, &[]);
    }

    /// The workers that a tenant's new sessions go to, one on each.
    pub(super) fn place(&self, tenant: u32, devices: usize) -> Result<Vec<u32>, Code> {
        let shared = self.images.shared(&self.tenants[tenant as usize].name);
        let workers = 0..self.workers.len() as u32;
        let candidates = workers.map(|worker| self.candidate(tenant, worker, &shared));
        choose(candidates.collect(), devices)
    }

    fn candidate(&self, tenant: u32, worker: u32, shared: &BTreeSet<u32>) -> Candidate {
        let owner = &self.tenants[tenant as usize];
        let state = &self.workers[worker as usize];
        let report = &state.report;
        let groups = &owner.settings.groups;
        let in_group = match groups.is_empty() {
            true => !report.exclusive,
            false => groups.contains(&report.group),
        };
        let mut flows = state.flows.iter();
        let vacant = !report.exclusive
            || flows.all(|(of, flow)| *of == tenant || self.flows[*flow as usize].open == 0);
        let here = state.flows.get(&tenant);
        let holds = here.is_some_and(|flow| self.flows[*flow as usize].open > 0);
        Candidate {
            worker,
            takes: !state.lost && !state.draining && !state.cordoned,
            in_group,
            vacant,
            addresses: state
                .space
                .has_room(Space::size(state.capacity, self.quota(tenant, worker))),
            capacity: state.capacity,
            free: state.free(),
            // What a tenant has here already is part of what is held.
            wanted: if holds { 0 } else { owner.settings.quota },
            sessions: state.sessions,
            busy: state.recent.percent(),
            shares: shared.contains(&worker),
            gpu: state.gpu,
            incarnation: state.incarnation,
        }
    }

    /// Whether work counts as recent that ticks will make old.
    #[must_use]
    pub fn has_recent(&self) -> bool {
        self.recent
    }

    /// A tick has passed: what was recent may be so no more.
    pub(super) fn tick_recent(&mut self) {
        self.ticks += 1;
        if self.ticks < RECENT_TICKS {
            return;
        }
        self.ticks = 0;
        self.recent = false;
        for worker in &mut self.workers {
            worker.recent.turn();
            self.recent |= !worker.recent.is_none();
        }
    }
}
