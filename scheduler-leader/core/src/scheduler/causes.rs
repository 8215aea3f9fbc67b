//! The cause for which a session's next work is not granted, and the tenant behind it. This view
//! decides nothing.

use bus_schemas::{GpuId, GrantKind, Incarnation, SessionId, SessionWait, Tenant};

use super::apply::{Scheduler, window};
use super::session_page::OnWorker;
use super::state::SessionState;
use crate::policy::{Next, longest_ahead};
use crate::slots::{FlowSlot, SessionSlot, TenantSlot, WorkerSlot};
use crate::why::Cause;

/// The state of a worker at one moment, as needed to find causes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerMoment {
    pub(crate) incarnation: Incarnation,
    pub(crate) gpu: GpuId,
    /// True if work is granted and not reported. Work that runs under a standing grant is not
    /// known, and not counted.
    pub(crate) has_work: bool,
    /// True if the worker has sessions.
    pub(crate) has_sessions: bool,
    slot: WorkerSlot,
    next: Option<Next>,
}

impl Scheduler {
    /// The workers that the last input changed.
    pub(crate) fn served(&self) -> impl Iterator<Item = WorkerMoment> {
        self.served.iter().map(|slot| {
            let worker = &self.workers[*slot];
            let granted = worker.outstanding.iter().flatten();
            let mut granted = granted.chain(worker.sealed.values());
            let lanes = &worker.lanes;
            WorkerMoment {
                incarnation: worker.incarnation,
                gpu: worker.gpu,
                has_work: granted.any(|granted| granted.kind != GrantKind::Standing),
                has_sessions: worker.sessions > 0,
                slot: *slot,
                next: lanes.first(&self.settings.floors, |flow| self.next_cost(flow)),
            }
        })
    }

    /// The tenant and the worker of a session.
    pub(crate) fn owner(&self, session: SessionId) -> Option<(Tenant, Incarnation)> {
        let session = self.sessions[self.slot(session)?].as_ref()?;
        let incarnation = self.workers[session.worker].incarnation;
        Some((self.tenants[session.tenant].name.clone(), incarnation))
    }

    /// The cause that a session's next work waits for on this worker; `None` if no work waits.
    pub(crate) fn cause(
        &self,
        session: SessionId,
        at: &WorkerMoment,
    ) -> Option<(Cause, Option<Tenant>)> {
        let slot = self.slot(session)?;
        let state = self.sessions[slot].as_ref()?;
        if state.worker != at.slot || state.queue.queued() <= state.queue.granted() {
            return None;
        }
        let on = OnWorker::for_next(at.next.map(|next| next.first.id));
        let own = || Some(state.tenant);
        let (cause, of) = match self.waits(slot, state, &on) {
            SessionWait::Nothing
            | SessionWait::Program
            | SessionWait::Closing
            | SessionWait::Unknown => return None,
            SessionWait::Order => self.order(state.flow, at),
            SessionWait::Window => self.window_of(slot, state),
            SessionWait::Cap => (Cause::Cap, own()),
            SessionWait::Bound => (Cause::Bound, own()),
            SessionWait::Target => (Cause::Target, self.target_of(state)),
            SessionWait::Memory => (Cause::Memory, own()),
            SessionWait::Suspended => (Cause::Suspended, own()),
            SessionWait::Hold => (Cause::Hold, None),
            SessionWait::Worker => (Cause::Worker, None),
        };
        Some((cause, of.map(|of| self.tenants[of].name.clone())))
    }

    /// The cause and the tenant of the flow that goes before this one.
    fn order(&self, flow: FlowSlot, at: &WorkerMoment) -> (Cause, Option<TenantSlot>) {
        let Some(next) = at.next else {
            return (Cause::Worker, None);
        };
        let (own, first) = (self.flows[flow].priority, &self.flows[next.first.id]);
        let cause = match next.priority.cmp(&own) {
            std::cmp::Ordering::Less => Cause::Priority,
            std::cmp::Ordering::Equal => Cause::Share,
            std::cmp::Ordering::Greater => Cause::Floor,
        };
        (cause, Some(first.tenant))
    }

    /// The cause and the tenant that delay a session that is next.
    fn window_of(&self, slot: SessionSlot, session: &SessionState) -> (Cause, Option<TenantSlot>) {
        let worker = &self.workers[session.worker];
        let priority = self.flows[session.flow].priority;
        let limit = worker.limits.of(priority);
        let cost = session.queue.next().cost;
        let small = window(&self.settings, limit);
        let all = self.settings.window_ns;
        if small < all && worker.lanes.has_room(all, priority, cost) {
            return (Cause::Target, self.target_of(session));
        }
        let granted = worker.sealed.values();
        let granted = granted.chain(worker.outstanding.iter().flatten());
        let mut granted = granted.filter(|granted| granted.priority <= priority);
        match granted.find(|granted| granted.cost > 0) {
            Some(granted) if granted.slot == slot => (Cause::Own, None),
            Some(granted) => (Cause::Window, Some(granted.tenant)),
            None => (Cause::Worker, None),
        }
    }

    /// The tenant with the tightest target above a session.
    fn target_of(&self, session: &SessionState) -> Option<TenantSlot> {
        let own = self.flows[session.flow].priority;
        let targets = self.workers[session.worker].targets.iter();
        let flows = targets.map(|id| &self.flows[*id]);
        let above = flows.filter(|flow| flow.priority < own);
        let tightest = above.min_by_key(|flow| {
            let target = self.tenants[flow.tenant].settings.slo_ns;
            longest_ahead(target, flow.request.get(), self.settings.quantum_ns)
        });
        tightest.map(|flow| flow.tenant)
    }
}
