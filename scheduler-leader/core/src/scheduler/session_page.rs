//! The sessions as administrators see them. This view decides nothing.

use std::collections::BTreeMap;
use std::ops::Bound;

use bus_schemas::{
    SessionId, SessionStatus, SessionWait, Sessions, SessionsRequest, WIRE_VERSION, limits,
};

use super::apply::Scheduler;
use super::state::{Life, SessionState};
use crate::slots::{FlowSlot, SessionSlot, WorkerSlot};

/// Values that are computed once for all sessions of a page on one worker.
#[derive(Default)]
pub(super) struct OnWorker {
    /// The flow that is granted next, if any.
    next: Option<FlowSlot>,
    /// Charged nanoseconds granted and not done, by session.
    outstanding: BTreeMap<SessionId, u64>,
}

impl OnWorker {
    /// The values of a worker, without the outstanding work.
    pub(super) fn for_next(next: Option<FlowSlot>) -> Self {
        let outstanding = BTreeMap::new();
        Self { next, outstanding }
    }
}

impl Scheduler {
    /// The requested sessions, by id, as many as fit into an answer.
    #[must_use]
    pub fn session_page(&self, request: &SessionsRequest) -> Sessions {
        let behind = request.after.map_or(Bound::Unbounded, Bound::Excluded);
        let range = match request.session {
            Some(one) => (Bound::Included(one), Bound::Included(one)),
            None => (behind, Bound::Unbounded),
        };
        let found = self.session_index.range(range).filter_map(|(_, slot)| {
            let session = self.sessions[*slot].as_ref()?;
            let wanted = self.is_asked_for(request, session);
            wanted.then_some((*slot, session))
        });
        let mut found: Vec<_> = found.take(limits::SESSION_ROWS + 1).collect();
        let more = found.len() > limits::SESSION_ROWS;
        found.truncate(limits::SESSION_ROWS);
        let mut workers = BTreeMap::<WorkerSlot, OnWorker>::new();
        let row = |(slot, session): (SessionSlot, &SessionState)| {
            let worker = workers.entry(session.worker);
            let worker = worker.or_insert_with(|| self.on_worker(session.worker));
            self.session_status(slot, session, worker)
        };
        Sessions {
            v: WIRE_VERSION,
            sessions: found.into_iter().map(row).collect(),
            more,
            partial: false,
        }
    }

    fn is_asked_for(&self, request: &SessionsRequest, session: &SessionState) -> bool {
        let tenant = &self.tenants[session.tenant].name;
        let gpu = self.workers[session.worker].gpu;
        request.tenant.as_ref().is_none_or(|of| of == tenant)
            && request.gpu.is_none_or(|on| on == gpu)
    }

    fn on_worker(&self, worker: WorkerSlot) -> OnWorker {
        let state = &self.workers[worker];
        let lanes = &state.lanes;
        let next = lanes.first(&self.settings.floors, |flow| self.next_cost(flow));
        let mut outstanding = BTreeMap::<SessionId, u64>::new();
        let granted = state.outstanding.iter().flatten();
        for granted in granted.chain(state.sealed.values()) {
            let sum = outstanding.entry(granted.session).or_default();
            *sum = sum.saturating_add(granted.cost);
        }
        OnWorker {
            next: next.map(|next| next.first.id),
            outstanding,
        }
    }

    fn session_status(
        &self,
        slot: SessionSlot,
        session: &SessionState,
        on: &OnWorker,
    ) -> SessionStatus {
        let worker = &self.workers[session.worker];
        SessionStatus {
            tenant: self.tenants[session.tenant].name.clone(),
            session: session.id,
            ordinal: session.ordinal,
            incarnation: worker.incarnation,
            gpu: worker.gpu,
            queued: session.queue.queued() - session.queue.granted(),
            outstanding_ns: on.outstanding.get(&session.id).copied().unwrap_or(0),
            waits: self.waits(slot, session, on),
        }
    }

    /// The reason why a session's next work is not granted: the first that holds. Reasons of the
    /// session come before those of its tenant, and those before the order.
    pub(super) fn waits(
        &self,
        slot: SessionSlot,
        session: &SessionState,
        on: &OnWorker,
    ) -> SessionWait {
        let standing = self.workers[session.worker].standing == Some(slot);
        let queued = session.queue.queued() > session.queue.granted();
        match () {
            () if matches!(session.life, Life::Closing(_)) => SessionWait::Closing,
            () if session.suspended => SessionWait::Suspended,
            () if !queued && !session.has_granted() => SessionWait::Program,
            () if !queued || standing => SessionWait::Nothing,
            () if self.held => SessionWait::Hold,
            () if session.away => SessionWait::Memory,
            // Behind a standing grant that its worker has not closed, or behind ops that the worker
            // lacks.
            () if !session.is_ready() => SessionWait::Worker,
            () => self.waits_in_line(slot, session, on),
        }
    }

    /// The reason for a session that only waits for its turn.
    fn waits_in_line(
        &self,
        slot: SessionSlot,
        session: &SessionState,
        on: &OnWorker,
    ) -> SessionWait {
        let flow = &self.flows[session.flow];
        let tenant = &self.tenants[flow.tenant].settings;
        let is_first = flow.sessions.first().is_some_and(|first| first.id == slot);
        match () {
            () if flow.blocked && tenant.cap > 0 && flow.budget.is_spent() => SessionWait::Cap,
            () if flow.blocked => SessionWait::Bound,
            () if flow.aside => SessionWait::Target,
            () if on.next == Some(session.flow) && is_first => SessionWait::Window,
            () => SessionWait::Order,
        }
    }
}
