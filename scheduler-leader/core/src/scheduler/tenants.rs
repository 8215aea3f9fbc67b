//! Settings of the cluster and of tenants.

use bus_schemas::{ClusterSettings, Tenant, TenantSettings};

use super::apply::Scheduler;
use super::state::TenantState;
use crate::policy::{ABSENT, Budget};
use crate::slots::{FlowSlot, TenantSlot};

impl Scheduler {
    /// The slot of a tenant, created if it is new.
    pub(super) fn tenant(&mut self, name: &Tenant) -> TenantSlot {
        if let Some(index) = self.tenant_index.get(name) {
            return *index;
        }
        let index = self.tenants.next();
        self.tenant_index.insert(name.clone(), index);
        self.tenants.push(TenantState {
            name: name.clone(),
            settings: TenantSettings::default(),
            known: false,
            rank: 0,
            ordinal: 0,
            sessions: 0,
            granted: 0,
            granted_ns: 0,
            outstanding: 0,
            flows: Vec::new(),
            blocked: 0,
        });
        self.rank_tenants();
        index
    }

    /// Numbers the tenants by name. Their relative order does not change, so heaps keep their
    /// shape.
    fn rank_tenants(&mut self) {
        for (rank, index) in self.tenant_index.values().enumerate() {
            self.tenants[*index].rank = rank as u64;
        }
        for worker in self.workers.iter_mut() {
            for priority in 0..5 {
                for entry in worker.lanes.flows(priority).entries_mut() {
                    let tenant = self.flows[entry.id].tenant;
                    entry.tie = self.tenants[tenant].rank;
                }
            }
        }
    }

    pub(super) fn set_tenant(&mut self, name: &Tenant, settings: Option<&TenantSettings>) {
        let index = self.tenant(name);
        let tenant = &mut self.tenants[index];
        tenant.known = settings.is_some();
        let (cap, suspended) = (tenant.settings.cap, tenant.settings.suspended);
        if let Some(settings) = settings {
            tenant.settings = settings.clone();
            tenant.settings.priority = settings.priority.min(4);
            tenant.settings.weight = settings.weight.max(1);
            tenant.settings.cap = settings.cap.min(100);
        }
        let TenantSettings {
            priority, cap: new, ..
        } = tenant.settings;
        for flow in tenant.flows.clone() {
            if new != cap {
                self.flows[flow].budget = Budget::full(new);
            }
            self.move_flow(flow, priority);
            let worker = self.flows[flow].worker;
            self.touch(worker);
            self.look_at_line(worker);
        }
        self.target_set(index);
        self.unblock(index);
        if self.tenants[index].settings.suspended != suspended {
            self.suspend(index, !suspended);
        }
    }

    /// Stops the grants of a tenant's sessions, or resumes them. Granted work goes on; a standing
    /// grant is closed when its worker is served.
    fn suspend(&mut self, tenant: TenantSlot, suspended: bool) {
        for slot in self.sessions.slots() {
            if let Some(session) = &mut self.sessions[slot]
                && session.tenant == tenant
            {
                session.suspended = suspended;
                self.refresh(slot);
            }
        }
    }

    /// Moves a flow to another priority, where it is a newcomer.
    fn move_flow(&mut self, id: FlowSlot, priority: u8) {
        let flow = &mut self.flows[id];
        if flow.priority == priority {
            return;
        }
        self.put_back(id);
        let flow = &mut self.flows[id];
        let lanes = &mut self.workers[flow.worker].lanes;
        if self.flow_places[id] != ABSENT {
            lanes.flows(flow.priority).remove(id, &mut self.flow_places);
        }
        let before = std::mem::replace(&mut flow.priority, priority);
        flow.tag = lanes.now(priority);
        let crowd = &mut self.workers[flow.worker].crowd;
        for (slot, session) in self.sessions.slots().zip(self.sessions.iter()) {
            if session.as_ref().is_some_and(|session| session.flow == id) {
                crowd.remove(before, slot);
                crowd.add(priority, slot);
            }
        }
        self.refresh_flow(id);
        let worker = self.flows[id].worker;
        self.touch(worker);
    }

    /// Counts a tick. Tenants with a cap get budget, flows may wait no longer for a target, and
    /// turns may end.
    pub(super) fn tick(&mut self) {
        for index in self.tenants.slots() {
            let tenant = &self.tenants[index];
            let cap = tenant.settings.cap;
            if cap == 0 {
                continue;
            }
            for flow in &tenant.flows {
                self.flows[*flow].budget.refill(cap);
            }
            self.unblock(index);
        }
        self.tick_targets();
        self.tick_memory();
        self.tick_recent();
    }

    /// Returns true if work waits for a tick.
    #[must_use]
    pub fn awaits_tick(&self) -> bool {
        let mut tenants = self.tenants.iter();
        self.aside > 0
            || self.leaving > 0
            || self.waiting > 0
            || tenants.any(|tenant| tenant.blocked > 0 && tenant.settings.cap > 0)
    }

    /// Puts back a tenant's flows that its bound or its cap held back, so that they are judged
    /// again.
    pub(super) fn unblock(&mut self, tenant: TenantSlot) {
        let state = &mut self.tenants[tenant];
        if state.blocked == 0 {
            return;
        }
        state.blocked = 0;
        for id in state.flows.clone() {
            let flow = &mut self.flows[id];
            if std::mem::take(&mut flow.blocked) {
                let worker = flow.worker;
                self.refresh_flow(id);
                self.touch(worker);
            }
        }
    }

    pub(super) fn set_settings(&mut self, settings: &ClusterSettings) {
        self.settings = settings.clone();
        self.settings.quantum_ns = settings.quantum_ns.max(1);
        self.costs.unknown_ns = settings.unknown_ns;
        for slot in self.sessions.slots() {
            if let Some(session) = &mut self.sessions[slot] {
                session.queue.relearn();
                self.refresh(slot);
            }
        }
        for worker in self.workers.slots() {
            self.retarget(worker);
            self.look_again(worker);
        }
    }
}
