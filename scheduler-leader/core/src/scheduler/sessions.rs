//! Sessions: how they are placed, get work, are doubted, and end.

use bus_schemas::{
    Allowance, CloseReason, Code, CostClass, CostRun, GrantKind, OpNumber, OpenGrant, SessionId,
    Tenant, TenantSettings, Window, invariant, limits,
};

use super::apply::Scheduler;
use super::shares::Denied;
use super::state::{Flow, Granted, IDS, Life, Mark, SessionState};
use crate::effect::{Effect, EndCause, Placed};
use crate::policy::{ABSENT, Balance, Budget, Cut, Peak, Presence, SliceQueue, TagHeap};
use crate::slots::{FlowSlot, SessionSlot, TenantSlot, WorkerSlot};

impl Scheduler {
    pub(super) fn session_open(
        &mut self,
        name: &Tenant,
        nonce: u64,
        wanted: (u32, bool),
        effects: &mut Vec<Effect>,
    ) {
        let placed = self.places(name, wanted);
        let (tenant, places) = match placed {
            Ok(placed) => placed,
            Err(denied) => {
                effects.push(Effect::Refused {
                    nonce,
                    tenant: name.clone(),
                    code: denied.code,
                    share: denied.share,
                });
                return;
            }
        };
        for (device, (worker, window)) in (0..).zip(places) {
            self.open_on(tenant, worker, window, (nonce, device), effects);
        }
    }

    /// Opens a session on a worker.
    fn open_on(
        &mut self,
        tenant: TenantSlot,
        worker: WorkerSlot,
        window: Window,
        (nonce, device): (u64, u32),
        effects: &mut Vec<Effect>,
    ) {
        let (quota, capacity) = (self.quota(tenant, worker), self.workers[worker].capacity);
        invariant!(
            I8,
            quota <= capacity,
            "a quota of {quota} of {capacity} bytes"
        );
        let nonce = nonce.wrapping_add(u64::from(device));
        self.opened += 1;
        let id = SessionId(self.epoch << 24 | self.opened);
        let owner = &mut self.tenants[tenant];
        owner.ordinal += 1;
        let name = owner.name.clone();
        let (ordinal, priority) = (owner.ordinal, owner.settings.priority);
        let suspended = owner.settings.suspended;
        let flow = self.flow(worker, tenant);
        let slot = self.insert_session(SessionState {
            id,
            tenant,
            ordinal,
            worker,
            flow,
            window,
            tag: 0,
            queue: SliceQueue::new(0),
            generation: 0,
            doubted: false,
            received: 0,
            life: Life::Open,
            standing: None,
            request: 0,
            busy: false,
            away: false,
            returning: false,
            ran: 0,
            suspended,
        });
        let limits = self.limits(tenant);
        let open = OpenGrant {
            session: id,
            tenant: name.clone(),
            ordinal,
            window,
            quota,
            nonce,
            priority,
            modules: Allowance::of(limits.modules),
            staged: Allowance::of(limits.staged),
        };
        self.mark(slot, GrantKind::Open, Some(Box::new(open)), effects);
        self.touch(worker);
        let state = &self.workers[worker];
        effects.push(Effect::Opened {
            placed: Placed {
                nonce,
                device,
                tenant: name,
                session: id,
                ordinal,
                incarnation: state.incarnation,
                gpu: state.gpu,
                window,
                quota,
            },
            position: state.position,
        });
    }

    /// The tenant, and the workers and addresses of all sessions of a request, or a refusal. The
    /// sessions have no addresses in common, for one program uses them all.
    fn places(
        &self,
        name: &Tenant,
        (devices, wide): (u32, bool),
    ) -> Result<(TenantSlot, Vec<(WorkerSlot, Window)>), Denied> {
        let tenant = *self.tenant_index.get(name).ok_or(Code::UnknownTenant)?;
        let state = &self.tenants[tenant];
        if !state.known {
            return Err(Code::UnknownTenant.into());
        }
        if state.settings.suspended {
            return Err(Code::Suspended.into());
        }
        let devices = devices.clamp(1, limits::DEVICES);
        let more = u64::from(devices);
        self.within_sessions(tenant, more)?;
        if self.opened + more >= IDS {
            return Err(Code::SessionLimit.into());
        }
        let workers = self.place(tenant, devices as usize, wide);
        let workers = workers.map_err(|code| self.denied(tenant, code, wide))?;
        let mut places: Vec<(WorkerSlot, Window)> = Vec::with_capacity(workers.len());
        for worker in workers {
            let state = &self.workers[worker];
            let size = self.window_size(tenant, worker, wide);
            let beside = places.iter().map(|(_, window)| *window);
            let window = state.space.find(size, beside).ok_or(Code::NoAddresses)?;
            places.push((worker, window));
        }
        Ok((tenant, places))
    }

    /// Memory a tenant may hold on a worker's device.
    pub(super) fn quota(&self, tenant: TenantSlot, worker: WorkerSlot) -> u64 {
        let quota = self.tenants[tenant].settings.quota;
        let capacity = self.workers[worker].capacity;
        if quota == 0 {
            capacity
        } else {
            quota.min(capacity)
        }
    }

    /// Adds a session; it joins its tenant's flow on its worker as a newcomer.
    pub(super) fn insert_session(&mut self, mut session: SessionState) -> SessionSlot {
        session.tag = self.flows[session.flow].now;
        self.tenants[session.tenant].sessions += 1;
        let flow = &mut self.flows[session.flow];
        flow.open += 1;
        flow.addresses = flow.addresses.saturating_add(session.window.size);
        let worker = &mut self.workers[session.worker];
        worker.sessions += 1;
        invariant!(
            I9,
            worker.space.is_free(session.window),
            "the addresses from {:#x} on are another session's",
            session.window.base
        );
        worker.space.insert(session.window);
        let (id, on, flow) = (session.id, session.worker, session.flow);
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.sessions[slot] = Some(session);
                slot
            }
            None => {
                let slot = self.sessions.push(Some(session));
                self.session_places.push(ABSENT);
                slot
            }
        };
        self.session_index.insert(id, slot);
        let priority = self.flows[flow].priority;
        self.workers[on].crowd.add(priority, slot);
        slot
    }

    /// The flow of a tenant on a worker, created if it is new.
    pub(super) fn flow(&mut self, worker: WorkerSlot, tenant: TenantSlot) -> FlowSlot {
        let state = &mut self.workers[worker];
        if let Some(flow) = state.flows.get(&tenant) {
            return *flow;
        }
        let id = self.flows.next();
        state.flows.insert(tenant, id);
        let owner = &mut self.tenants[tenant];
        owner.flows.push(id);
        let TenantSettings { priority, cap, .. } = owner.settings;
        self.flows.push(Flow {
            worker,
            tenant,
            priority,
            tag: state.lanes.now(priority),
            open: 0,
            addresses: 0,
            sessions: TagHeap::default(),
            now: 0,
            blocked: false,
            balance: Balance::default(),
            budget: Budget::full(cap),
            presence: Presence::default(),
            request: Peak::default(),
            slice: Peak::default(),
            granted_ns: 0,
            aside: false,
            waited: 0,
        });
        self.flow_places.push(ABSENT);
        id
    }

    /// Emits a grant of a session that runs no op.
    pub(super) fn mark(
        &mut self,
        slot: SessionSlot,
        kind: GrantKind,
        open: Option<Box<OpenGrant>>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(session) = &self.sessions[slot] else {
            return;
        };
        let priority = self.flows[session.flow].priority;
        let granted = Granted {
            kind,
            priority,
            urgency: priority,
            generation: session.generation,
            slot,
            session: session.id,
            tenant: session.tenant,
            first: 0,
            last: 0,
            cost: 0,
            cut: Cut::default(),
        };
        self.emit(session.worker, granted, 0, open, effects);
    }

    pub(super) fn session_close(
        &mut self,
        session: SessionId,
        after: OpNumber,
        reason: CloseReason,
        effects: &mut Vec<Effect>,
    ) {
        let Some(slot) = self.slot(session) else {
            return;
        };
        let Some(state) = &mut self.sessions[slot] else {
            return;
        };
        if reason == CloseReason::Asked {
            if state.life == Life::Open {
                state.life = Life::Asked(after);
            }
            self.close_if_asked(slot, effects);
        } else {
            self.close(slot, reason, effects);
        }
    }

    pub(super) fn fault(&mut self, session: SessionId, effects: &mut Vec<Effect>) {
        if let Some(slot) = self.slot(session) {
            self.close(slot, CloseReason::Fault, effects);
        }
    }

    /// Closes a session at its client's request, once the op that the client named is done.
    pub(super) fn close_if_asked(&mut self, slot: SessionSlot, effects: &mut Vec<Effect>) {
        let Some(session) = &self.sessions[slot] else {
            return;
        };
        if let Life::Asked(after) = session.life
            && session.queue.done() >= after
        {
            self.close(slot, CloseReason::Asked, effects);
        }
    }

    /// Decides a session's close grant.
    pub(super) fn close(
        &mut self,
        slot: SessionSlot,
        reason: CloseReason,
        effects: &mut Vec<Effect>,
    ) {
        let Some(session) = &mut self.sessions[slot] else {
            return;
        };
        if matches!(session.life, Life::Closing(_)) {
            return;
        }
        session.life = Life::Closing(reason);
        let id = session.id;
        self.refresh(slot);
        effects.push(Effect::Closing {
            session: id,
            reason,
        });
        self.mark(slot, GrantKind::Close, None, effects);
    }

    /// Forgets a session that has ended; its addresses are free.
    pub(super) fn remove_session(
        &mut self,
        slot: SessionSlot,
        cause: EndCause,
        effects: &mut Vec<Effect>,
    ) {
        if self.session_places[slot] != ABSENT
            && let Some(session) = &self.sessions[slot]
        {
            let flow = session.flow;
            self.put_back(flow);
            let heap = &mut self.flows[flow].sessions;
            heap.remove(slot, &mut self.session_places);
            self.refresh_flow(flow);
        }
        self.forget_memory(slot);
        let Some(session) = self.sessions[slot].take() else {
            return;
        };
        if session.busy {
            self.count_work(session.flow, false);
        }
        self.vacant.push(slot);
        self.session_index.remove(&session.id);
        let worker = &mut self.workers[session.worker];
        worker.sessions -= 1;
        let priority = self.flows[session.flow].priority;
        worker.crowd.remove(priority, slot);
        let flow = &mut self.flows[session.flow];
        flow.open -= 1;
        flow.addresses = flow.addresses.saturating_sub(session.window.size);
        worker.space.remove(session.window);
        let tenant = &mut self.tenants[session.tenant];
        tenant.sessions -= 1;
        effects.push(Effect::Ended {
            session: session.id,
            tenant: tenant.name.clone(),
            cause,
        });
    }

    pub(super) fn intent(
        &mut self,
        session: SessionId,
        first: OpNumber,
        runs: &[CostRun],
        effects: &mut Vec<Effect>,
    ) {
        let Some(slot) = self.slot(session) else {
            return;
        };
        let Some(state) = &mut self.sessions[slot] else {
            return;
        };
        let next = state.queue.queued().checked_add(1) == Some(first);
        if !next || matches!(state.life, Life::Closing(_)) {
            return;
        }
        for run in runs {
            let cost = state.queue.push(run, &self.costs);
            match run.class {
                // A request is the ops between two syncs: a sync alone is none.
                CostClass::Sync => {
                    if state.request > 0 {
                        let request = state.request.saturating_add(cost);
                        self.flows[state.flow].request.note(request);
                    }
                    state.request = 0;
                }
                _ => {
                    let cost = cost.saturating_mul(u64::from(run.count));
                    state.request = state.request.saturating_add(cost);
                }
            }
        }
        let (tenant, worker) = (state.tenant, state.worker);
        if self.tenants[tenant].settings.slo_ns > 0 {
            self.retarget(worker);
        }
        if self.stands(slot) {
            // They may have run before they were announced: then they give credit.
            self.dirty_sessions.note(slot, Mark::Granted);
            self.account(slot, effects);
            self.close_if_asked(slot, effects);
        } else {
            self.refresh(slot);
        }
    }

    pub(super) fn received(&mut self, session: SessionId, received: OpNumber) {
        if let Some(slot) = self.slot(session) {
            self.note_received(slot, received);
            self.refresh(slot);
        }
    }

    /// Ends the doubt once the worker has all queued ops.
    pub(super) fn note_received(&mut self, slot: SessionSlot, received: OpNumber) {
        if let Some(session) = &mut self.sessions[slot] {
            session.received = session.received.max(received);
            session.doubted &= session.received < session.queue.queued();
        }
    }
}
