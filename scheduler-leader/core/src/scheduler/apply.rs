//! The state machine: its state, how an input is applied, and how slices are granted.

use std::collections::BTreeMap;

use bus_schemas::{
    ClusterSettings, Epoch, GlobalPosition, Grant, GrantKind, Incarnation, InputNumber, SessionId,
    Tenant, invariant,
};

use super::commons::Commons;
use super::state::{
    DirtySessions, Flow, Granted, IDS, Mark, SessionState, TenantState, WorkerState,
};
use crate::effect::Effect;
use crate::ids::IdMap;
use crate::input::{Input, Takeover};
use crate::policy::{ABSENT, Costs, Entry, Next, ORDER_VERSION, virtual_time};
use crate::slots::{Arena, FlowSlot, SessionSlot, TenantSlot, WorkerSlot};

/// Decides the order of one epoch. The same inputs give the same effects.
#[derive(Debug, Default)]
pub struct Scheduler {
    pub(super) input: InputNumber,
    pub(super) epoch: Epoch,
    pub(super) global: GlobalPosition,
    pub(super) held: bool,
    pub(super) settings: ClusterSettings,
    pub(super) costs: Costs,
    pub(super) tenants: Arena<TenantSlot, TenantState>,
    pub(super) tenant_index: BTreeMap<Tenant, TenantSlot>,
    /// Lost workers keep their places: other tables hold the indices.
    pub(super) workers: Arena<WorkerSlot, WorkerState>,
    pub(super) worker_index: IdMap<Incarnation, WorkerSlot>,
    pub(super) flows: Arena<FlowSlot, Flow>,
    /// Position of each flow in its worker's heap.
    pub(super) flow_places: Arena<FlowSlot, u32>,
    pub(super) sessions: Arena<SessionSlot, Option<SessionState>>,
    /// Position of each session in its flow's heap.
    pub(super) session_places: Arena<SessionSlot, u32>,
    pub(super) session_index: BTreeMap<SessionId, SessionSlot>,
    pub(super) vacant: Vec<SessionSlot>,
    /// Sessions with progress since they were last taken.
    pub(super) dirty_sessions: DirtySessions,
    /// The last session id given out, without the epoch.
    pub(super) opened: u64,
    /// Flows set aside for a target, on all workers.
    pub(super) aside: u32,
    /// Flows of tenants with a target that are active only until some ticks have passed.
    pub(super) leaving: u32,
    /// Images that workers have.
    pub(super) images: Commons,
    /// Weights that workers have.
    pub(super) weights: Commons,
    /// Sessions that wait for their memory.
    pub(super) waiting: u32,
    /// Number of ticks so far.
    pub(super) now: u64,
    /// Ticks of the current second.
    pub(super) ticks: u32,
    /// True if work was granted recently.
    pub(super) recent: bool,
    /// Workers with changes, to be served at the end of the input.
    pub(super) dirty: Vec<WorkerSlot>,
    /// Workers that were served at the end of the last input.
    pub(super) served: Vec<WorkerSlot>,
    /// Global position beyond which nothing is granted, to inspect the order at that point.
    pub(super) stop: Option<GlobalPosition>,
}

impl Scheduler {
    /// A scheduler without any input. The first input must be a takeover; before it, inputs have no
    /// effect.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies the next input and appends its effects. An input that contradicts the state (an
    /// unknown session, a gap) changes nothing.
    pub fn apply(&mut self, input: &Input, effects: &mut Vec<Effect>) {
        self.input += 1;
        self.served.clear();
        if self.epoch == 0 {
            if let Input::Takeover(takeover) = input {
                self.take_over(takeover);
            }
            return;
        }
        match input {
            Input::Takeover(_) | Input::WorkerTail { .. } => {}
            Input::Tick => self.tick(),
            Input::WorkerSealed {
                incarnation,
                answer,
            } => self.worker_sealed(*incarnation, answer, effects),
            Input::WorkerLost { incarnation, .. } => self.worker_lost(*incarnation, effects),
            Input::Draining {
                incarnation,
                draining,
            } => self.worker_draining(*incarnation, *draining),
            Input::Cordon {
                incarnation,
                cordoned,
            } => self.worker_cordoned(*incarnation, *cordoned),
            Input::Report {
                incarnation,
                report,
            } => self.worker_report(*incarnation, report),
            Input::Residency {
                incarnation,
                limit,
                ns_per_mib,
                sessions,
            } => self.worker_residency(*incarnation, (*limit, *ns_per_mib), &sessions.0),
            Input::SessionOpen {
                tenant,
                nonce,
                devices,
                wide,
            } => self.session_open(tenant, *nonce, (*devices, *wide), effects),
            Input::SessionClose {
                session,
                after,
                reason,
            } => self.session_close(*session, *after, *reason, effects),
            Input::Intent {
                session,
                first,
                runs,
            } => self.intent(*session, *first, &runs.0, effects),
            Input::Done {
                incarnation,
                reports,
            } => self.done(*incarnation, &reports.0, effects),
            Input::Received { session, received } => self.received(*session, *received),
            Input::Fault { session, .. } => self.fault(*session, effects),
            Input::Settings(settings) => self.set_settings(settings),
            Input::TenantSet { tenant, settings } => self.set_tenant(tenant, settings.as_ref()),
            Input::Profile(profile) => self.costs.take(profile),
            Input::Hold { held } => self.hold(*held),
        }
        self.serve(effects);
    }

    /// Number of the last input.
    #[must_use]
    pub fn input(&self) -> InputNumber {
        self.input
    }

    /// The epoch, 0 before the takeover.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The last global position.
    #[must_use]
    pub fn global(&self) -> GlobalPosition {
        self.global
    }

    /// Returns true if grants are held.
    #[must_use]
    pub fn held(&self) -> bool {
        self.held
    }

    /// The settings of the order.
    #[must_use]
    pub fn settings(&self) -> &ClusterSettings {
        &self.settings
    }

    pub(super) fn take_over(&mut self, takeover: &Takeover) {
        if takeover.order_version != ORDER_VERSION {
            return;
        }
        self.epoch = takeover.epoch;
        // A store that lost its tail can repeat an epoch under another leader; session ids must not
        // repeat even then.
        self.opened = takeover.leader.0 & (IDS / 2 - 1);
        self.held = takeover.held;
        self.costs.take(&takeover.profile);
        self.set_settings(&takeover.settings);
        for (tenant, ordinal) in &takeover.ordinals {
            let index = self.tenant(tenant);
            self.tenants[index].ordinal = *ordinal;
        }
        for (tenant, settings) in &takeover.tenants {
            self.set_tenant(tenant, Some(settings));
        }
    }

    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
        self.workers.slots().for_each(|worker| self.touch(worker));
    }

    /// Notes that a worker may have something to grant.
    pub(super) fn touch(&mut self, worker: WorkerSlot) {
        let state = &mut self.workers[worker];
        if !state.dirty && !state.lost {
            state.dirty = true;
            self.dirty.push(worker);
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| self.global >= stop)
    }

    /// Grants the slices that can be granted now on every worker that was touched.
    pub(super) fn serve(&mut self, effects: &mut Vec<Effect>) {
        while let Some(worker) = self.dirty.pop() {
            self.workers[worker].dirty = false;
            self.served.push(worker);
            self.serve_turns(worker);
            self.serve_standing(worker, effects);
            while !self.held && !self.is_stopped() && self.grant_next(worker, effects) {}
            self.serve_returns(worker, effects);
            self.renew_standing(worker, effects);
        }
    }

    /// Grants one worker's next slice, if it has one and the window has room for it.
    #[expect(clippy::too_many_lines, reason = "one grant, with all that it changes")]
    pub(super) fn grant_next(&mut self, worker: WorkerSlot, effects: &mut Vec<Effect>) -> bool {
        if self.settings.floors != [0; 5] {
            self.put_back_owed(worker);
        }
        let lanes = &self.workers[worker].lanes;
        let Some(Next {
            priority,
            urgency,
            owed,
            first,
        }) = lanes.first(&self.settings.floors, |flow| self.next_cost(flow))
        else {
            return false;
        };
        let cost = self.next_cost(first.id);
        let limit = self.workers[worker].limits.of(priority);
        let limit = limit.filter(|_| !owed);
        let lanes = &mut self.workers[worker].lanes;
        let flow = &mut self.flows[first.id];
        let tenant = &mut self.tenants[flow.tenant];
        if tenant.is_bounded(cost) || (tenant.settings.cap > 0 && flow.budget.is_spent()) {
            flow.blocked = true;
            tenant.blocked += 1;
            lanes
                .flows(priority)
                .remove(first.id, &mut self.flow_places);
            return true;
        }
        if limit.is_some_and(|limit| cost > limit) && flow.waited < self.settings.slo_wait_ticks {
            self.set_aside(worker, first.id);
            return true;
        }
        let window = window(&self.settings, limit);
        if !lanes.has_room(window, priority, cost) {
            return false;
        }
        invariant!(
            I7,
            first.tag >= lanes.now(priority),
            "a flow of priority {priority} starts before the virtual time"
        );
        lanes.granted(&self.settings.floors, priority, first.tag, cost);
        invariant!(
            I6,
            lanes.is_within(window, priority, cost),
            "more than the window of {window} ns is granted at priority {priority}"
        );
        invariant!(
            I6,
            owed || priority == urgency,
            "priority {priority} is granted before {urgency}"
        );
        flow.waited = 0;
        flow.slice.note(cost);
        flow.granted_ns = flow.granted_ns.saturating_add(cost);
        tenant.outstanding = tenant.outstanding.saturating_add(cost);
        self.workers[worker].recent.note(cost);
        self.recent = true;
        let charge = cost.saturating_add(flow.balance.excess(self.settings.quantum_ns));
        if tenant.settings.cap > 0 {
            flow.budget.spend(charge);
        }
        // These tags give the flows of a priority their shares: I7.
        flow.tag = first.tag + virtual_time(charge, tenant.settings.weight);
        let Some(turn) = flow.sessions.first().copied() else {
            return false;
        };
        flow.now = turn.tag;
        if let Some(session) = &mut self.sessions[turn.id] {
            session.tag = turn.tag + virtual_time(cost, 1);
        }
        self.grant_slice(worker, turn.id, (priority, urgency), effects);
        self.requeue(worker, first.id, turn.id);
        true
    }

    /// Cost of a flow's next slice.
    pub(super) fn next_cost(&self, flow: FlowSlot) -> u64 {
        let first = self.flows[flow].sessions.first();
        let session = first.and_then(|first| self.sessions[first.id].as_ref());
        session.map_or(0, |session| session.queue.next().cost)
    }

    /// Grants a session's next slice.
    pub(super) fn grant_slice(
        &mut self,
        worker: WorkerSlot,
        slot: SessionSlot,
        (priority, urgency): (u8, u8),
        effects: &mut Vec<Effect>,
    ) {
        let Some(session) = &mut self.sessions[slot] else {
            return;
        };
        let (first, next) = (session.queue.granted() + 1, *session.queue.next());
        let granted = Granted {
            kind: GrantKind::Run,
            priority,
            urgency,
            generation: session.generation,
            slot,
            session: session.id,
            tenant: session.tenant,
            first,
            last: next.last,
            cost: next.cost,
            cut: session.queue.cut(),
        };
        invariant!(
            I4,
            (first..=session.limit()).contains(&next.last),
            "ops {first} to {} of {} are granted",
            next.last,
            session.id
        );
        session.queue.grant();
        invariant!(
            I1,
            session.queue.granted() == next.last,
            "{} goes on behind op {}, not {}",
            session.id,
            session.queue.granted(),
            next.last
        );
        let limit = session.limit();
        session.queue.extend(self.settings.quantum_ns, limit);
        let tenant = &mut self.tenants[granted.tenant];
        tenant.granted += next.last + 1 - first;
        tenant.granted_ns = tenant.granted_ns.saturating_add(next.cost);
        self.emit(worker, granted, next.declared, None, effects);
    }

    /// Puts a grant at a worker's next position.
    pub(super) fn emit(
        &mut self,
        worker: WorkerSlot,
        granted: Granted,
        declared: u64,
        open: Option<Box<bus_schemas::OpenGrant>>,
        effects: &mut Vec<Effect>,
    ) {
        self.global += 1;
        self.dirty_sessions.note(granted.slot, Mark::Granted);
        let worker = &mut self.workers[worker];
        let position = worker.put(granted);
        effects.push(Effect::Grant {
            incarnation: worker.incarnation,
            position,
            grant: Grant {
                kind: granted.kind,
                priority: granted.urgency,
                global: self.global,
                session: granted.session,
                first: granted.first,
                last: granted.last,
                cost: granted.cost,
                declared,
                input: self.input,
                epoch: self.epoch,
            },
            open,
        });
    }

    /// Moves the session that had its turn, and its flow, to their new positions.
    pub(super) fn requeue(&mut self, worker: WorkerSlot, flow: FlowSlot, slot: SessionSlot) {
        let state = &mut self.flows[flow];
        let places = &mut self.session_places;
        match &self.sessions[slot] {
            Some(session) if session.is_eligible() => {
                state.sessions.raise_first(session.tag, places);
            }
            _ => state.sessions.remove(slot, places),
        }
        let flows = self.workers[worker].lanes.flows(state.priority);
        if state.sessions.is_empty() {
            flows.remove(flow, &mut self.flow_places);
        } else {
            flows.raise_first(state.tag, &mut self.flow_places);
        }
    }

    /// Decides again if a changed session, and its flow, are eligible.
    pub(super) fn refresh(&mut self, slot: SessionSlot) {
        let Some(session) = &mut self.sessions[slot] else {
            return;
        };
        let limit = session.limit();
        session.queue.extend(self.settings.quantum_ns, limit);
        let (eligible, flow_id, worker) = (session.is_eligible(), session.flow, session.worker);
        let flow = &mut self.flows[flow_id];
        let inside = self.session_places[slot] != ABSENT;
        if eligible && !inside {
            session.tag = session.tag.max(flow.now);
            let entry = Entry {
                tag: session.tag,
                tie: session.ordinal,
                id: slot,
            };
            flow.sessions.push(entry, &mut self.session_places);
        } else if !eligible && inside {
            flow.sessions.remove(slot, &mut self.session_places);
        }
        self.put_back(flow_id);
        self.refresh_flow(flow_id);
        self.note_work(slot);
        self.touch(worker);
    }

    /// Moves a flow into its worker's heap or out of it, depending on its sessions.
    pub(super) fn refresh_flow(&mut self, id: FlowSlot) {
        let flow = &mut self.flows[id];
        let lanes = &mut self.workers[flow.worker].lanes;
        let inside = self.flow_places[id] != ABSENT;
        let eligible = !flow.sessions.is_empty() && !flow.blocked && !flow.aside;
        if eligible && !inside {
            flow.tag = flow.tag.max(lanes.now(flow.priority));
            let entry = Entry {
                tag: flow.tag,
                tie: self.tenants[flow.tenant].rank,
                id,
            };
            lanes
                .flows(flow.priority)
                .push(entry, &mut self.flow_places);
        } else if !eligible && inside {
            lanes.flows(flow.priority).remove(id, &mut self.flow_places);
        }
    }

    /// The workers that are not lost, in order.
    pub(super) fn present(&self) -> Vec<&WorkerState> {
        let workers = self.workers.iter().filter(|worker| !worker.lost);
        let mut workers: Vec<_> = workers.collect();
        workers.sort_unstable_by_key(|worker| worker.incarnation);
        workers
    }

    /// A session's slot, if the session exists.
    pub(crate) fn slot(&self, session: SessionId) -> Option<SessionSlot> {
        self.session_index.get(&session).copied()
    }
}

/// The window of a priority; it is small while targets above it are active.
pub(super) fn window(settings: &ClusterSettings, limit: Option<u64>) -> u64 {
    match (limit, settings.slo_window_ns) {
        (None, _) | (_, 0) => settings.window_ns,
        (Some(_), small) => small.min(settings.window_ns),
    }
}
