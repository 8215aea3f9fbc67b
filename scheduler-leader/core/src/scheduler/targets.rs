//! Tenants with a target: their activity, and the flows that are set aside for them.

use super::apply::Scheduler;
use crate::policy::{Limits, longest_ahead};
use crate::slots::{FlowSlot, SessionSlot, TenantSlot, WorkerSlot};

impl Scheduler {
    /// Decides again if a session has work that is not done.
    pub(super) fn note_work(&mut self, slot: SessionSlot) {
        let Some(session) = &mut self.sessions[slot] else {
            return;
        };
        let busy = session.is_busy();
        if std::mem::replace(&mut session.busy, busy) != busy {
            let flow = session.flow;
            self.count_work(flow, busy);
        }
        self.note_memory(slot);
    }

    /// Counts a session of a flow that has work, or has none any more.
    pub(super) fn count_work(&mut self, id: FlowSlot, begins: bool) {
        let flow = &mut self.flows[id];
        let leaving = flow.presence.is_leaving();
        match begins {
            true => flow.presence.begin(),
            false => flow.presence.end(),
        }
        if self.tenants[flow.tenant].settings.slo_ns == 0 {
            flow.presence.forget();
            return;
        }
        self.leaving -= u32::from(leaving);
        self.leaving += u32::from(flow.presence.is_leaving());
        let worker = flow.worker;
        if begins && !self.workers[worker].targets.contains(&id) {
            self.workers[worker].targets.push(id);
            self.retarget(worker);
        }
    }

    /// Applies a tenant's new target or priority.
    pub(super) fn target_set(&mut self, tenant: TenantSlot) {
        let slo = self.tenants[tenant].settings.slo_ns;
        for id in self.tenants[tenant].flows.clone() {
            let flow = &mut self.flows[id];
            if slo == 0 {
                self.leaving -= u32::from(flow.presence.is_leaving());
                flow.presence.forget();
            }
            let (worker, active) = (flow.worker, slo > 0 && flow.presence.is_active());
            let targets = &mut self.workers[worker].targets;
            targets.retain(|target| *target != id);
            if active {
                targets.push(id);
            }
            self.retarget(worker);
        }
    }

    /// Computes again the longest slices that the active targets of a worker let ahead.
    pub(super) fn retarget(&mut self, worker: WorkerSlot) {
        let mut limits = Limits::default();
        let state = &mut self.workers[worker];
        for id in &state.targets {
            let flow = &self.flows[*id];
            let target = self.tenants[flow.tenant].settings.slo_ns;
            let longest = longest_ahead(target, flow.request.get(), self.settings.quantum_ns);
            limits.add(flow.priority, longest);
        }
        if std::mem::replace(&mut state.limits, limits) != limits {
            self.look_again(worker);
        }
    }

    /// Sets aside a flow with a next slice that is too long for an active target.
    pub(super) fn set_aside(&mut self, worker: WorkerSlot, id: FlowSlot) {
        let flow = &mut self.flows[id];
        flow.aside = true;
        self.aside += 1;
        let state = &mut self.workers[worker];
        state.aside.push(id);
        state.lanes.set_aside(flow.priority);
        let flows = state.lanes.flows(flow.priority);
        flows.remove(id, &mut self.flow_places);
    }

    /// Ends the setting aside of a flow, if it is set aside. The flow is eligible once it was
    /// refreshed.
    pub(super) fn put_back(&mut self, id: FlowSlot) {
        let flow = &mut self.flows[id];
        if std::mem::take(&mut flow.aside) {
            self.aside -= 1;
            let state = &mut self.workers[flow.worker];
            state.aside.retain(|aside| *aside != id);
            state.lanes.put_back(flow.priority);
        }
    }

    /// Puts back all flows that are set aside on a worker, so that they are judged again.
    pub(super) fn look_again(&mut self, worker: WorkerSlot) {
        for id in self.workers[worker].aside.clone() {
            self.put_back(id);
            self.refresh_flow(id);
        }
        self.touch(worker);
    }

    /// Puts back the flows that have earned their floor meanwhile.
    pub(super) fn put_back_owed(&mut self, worker: WorkerSlot) {
        for id in self.workers[worker].aside.clone() {
            let cost = self.next_cost(id);
            let priority = self.flows[id].priority;
            let lanes = &self.workers[worker].lanes;
            if lanes.is_owed(&self.settings.floors, priority, cost) {
                self.put_back(id);
                self.refresh_flow(id);
            }
        }
    }

    /// Counts a tick: flows set aside for long enough go on, and targets idle for long enough
    /// become inactive.
    pub(super) fn tick_targets(&mut self) {
        if self.aside == 0 && self.leaving == 0 {
            return;
        }
        for worker in self.workers.slots() {
            for id in self.workers[worker].aside.clone() {
                let flow = &mut self.flows[id];
                flow.waited = flow.waited.saturating_add(1);
                if flow.waited >= self.settings.slo_wait_ticks {
                    self.put_back(id);
                    self.refresh_flow(id);
                    self.touch(worker);
                }
            }
            let (flows, leaving) = (&mut self.flows, &mut self.leaving);
            let targets = &mut self.workers[worker].targets;
            let before = targets.len();
            targets.retain(|id| {
                let presence = &mut flows[*id].presence;
                *leaving -= u32::from(presence.is_leaving());
                presence.tick();
                *leaving += u32::from(presence.is_leaving());
                presence.is_active()
            });
            if targets.len() < before {
                self.retarget(worker);
            }
        }
    }
}
