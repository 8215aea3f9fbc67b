//! Workers: how they are sealed, report, and are lost.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{
    CloseReason, DoneReport, Grant, GrantKind, Incarnation, Outcome, SealAnswer, SealedSession,
};

use super::apply::Scheduler;
use super::recent::Recent;
use super::space::Space;
use super::state::{Crowd, Granted, Life, Mark, SessionState, WorkerState};
use crate::effect::{Effect, EndCause, Placed};
use crate::input::{HIGHEST, WorkerReport};
use crate::policy::{Cut, FETCHED, Lanes, Limits, SliceQueue};
use crate::slots::{SessionSlot, TenantSlot, WorkerSlot};

impl Scheduler {
    pub(super) fn worker_sealed(
        &mut self,
        incarnation: Incarnation,
        answer: &SealAnswer,
        effects: &mut Vec<Effect>,
    ) {
        if self.worker_index.contains_key(&incarnation) || answer.position > HIGHEST {
            return;
        }
        self.global = self.global.max(answer.global.min(HIGHEST));
        for (tenant, ordinal) in &answer.ordinals {
            let index = self.tenant(tenant);
            let highest = &mut self.tenants[index].ordinal;
            *highest = (*highest).max((*ordinal).min(HIGHEST));
        }
        let worker = self.workers.next();
        self.worker_index.insert(incarnation, worker);
        self.workers.push(WorkerState {
            incarnation,
            gpu: answer.gpu,
            capacity: answer.capacity,
            limit: 0,
            turns: None,
            returned: 0,
            draining: false,
            cordoned: false,
            lost: false,
            position: answer.position,
            base: answer.position + 1,
            outstanding: VecDeque::new(),
            sealed: BTreeMap::new(),
            lanes: Lanes::default(),
            space: Space::default(),
            sessions: 0,
            crowd: Crowd::default(),
            standing: None,
            grants: 0,
            voids: 0,
            flows: BTreeMap::new(),
            targets: Vec::new(),
            limits: Limits::default(),
            aside: Vec::new(),
            report: WorkerReport::default(),
            recent: Recent::default(),
            dirty: false,
        });
        for session in &answer.sessions {
            if session.accepted <= HIGHEST && session.done <= session.accepted {
                self.resume(worker, session, answer, effects);
            }
        }
        for sealed in &answer.outstanding {
            if sealed.position <= answer.position {
                let granted = self.resumed_grant(&sealed.grant, answer);
                self.count_sealed(worker, sealed.position, granted);
            }
        }
        for fault in &answer.faults {
            self.fault(fault.session, effects);
        }
        self.touch(worker);
    }

    /// Takes in a session that its worker already has.
    fn resume(
        &mut self,
        worker: WorkerSlot,
        session: &SealedSession,
        answer: &SealAnswer,
        effects: &mut Vec<Effect>,
    ) {
        // A worker that reports two sessions with an address in common lies: the leader gives out
        // no such windows.
        let free = self.workers[worker].space.is_free(session.window);
        if !free || !session.window.is_valid() || self.session_index.contains_key(&session.session)
        {
            return;
        }
        let tenant = self.tenant(&session.tenant);
        let mut queue = SliceQueue::new(session.done);
        for grant in live_grants(session, answer) {
            // Between live grants lie ops that are done already; no grant will rewind to them.
            queue.push_granted(grant.first - 1, 1, 0);
            queue.push_granted(grant.last, grant.cost, grant.declared);
        }
        queue.push_granted(session.accepted, 1, 0);
        let life = match session.closing {
            true => Life::Closing(CloseReason::Asked),
            false => Life::Open,
        };
        let flow = self.flow(worker, tenant);
        let suspended = self.tenants[tenant].settings.suspended;
        let slot = self.insert_session(SessionState {
            id: session.session,
            tenant,
            ordinal: session.ordinal,
            worker,
            flow,
            window: session.window,
            tag: 0,
            queue,
            generation: 1,
            doubted: false,
            received: session.received,
            life,
            standing: None,
            request: 0,
            busy: false,
            away: false,
            returning: false,
            ran: 0,
            suspended,
        });
        self.note_work(slot);
        let state = &self.workers[worker];
        effects.push(Effect::Resumed {
            placed: Placed {
                nonce: session.nonce,
                device: 0,
                tenant: session.tenant.clone(),
                session: session.session,
                ordinal: session.ordinal,
                incarnation: state.incarnation,
                gpu: state.gpu,
                window: session.window,
                quota: session.quota,
            },
            queued: session.accepted,
        });
    }

    /// An earlier leader's grant, as an outstanding grant of this scheduler.
    fn resumed_grant(&self, grant: &Grant, answer: &SealAnswer) -> Granted {
        let slot = self.slot(grant.session);
        let session = slot.and_then(|slot| self.sessions[slot].as_ref());
        let sealed = answer.sessions.iter();
        let mut sealed = sealed.filter(|session| session.session == grant.session);
        let live = sealed.any(|session| {
            live_grants(session, answer)
                .iter()
                .any(|live| live.global == grant.global)
        });
        Granted {
            kind: grant.kind,
            priority: grant.priority.min(4),
            urgency: grant.priority.min(4),
            generation: u32::from(live),
            slot: slot.unwrap_or(SessionSlot::NONE),
            session: grant.session,
            tenant: session.map_or(TenantSlot::NONE, |session| session.tenant),
            first: grant.first,
            last: grant.last,
            cost: grant.cost,
            cut: Cut::default(),
        }
    }

    fn count_sealed(&mut self, worker: WorkerSlot, position: u64, granted: Granted) {
        let state = &mut self.workers[worker];
        state.lanes.charge(granted.priority, granted.cost);
        state.sealed.insert(position, granted);
        if granted.kind == GrantKind::Return
            && let Some(Some(session)) = self.sessions.find_mut(granted.slot)
        {
            session.returning = true;
        }
        if let Some(tenant) = self.tenants.find_mut(granted.tenant) {
            tenant.outstanding = tenant.outstanding.saturating_add(granted.cost);
        }
    }

    pub(super) fn worker_draining(&mut self, incarnation: Incarnation, draining: bool) {
        if let Some(worker) = self.worker_index.get(&incarnation) {
            self.workers[*worker].draining = draining;
        }
    }

    pub(super) fn worker_cordoned(&mut self, incarnation: Incarnation, cordoned: bool) {
        if let Some(worker) = self.worker_index.get(&incarnation) {
            self.workers[*worker].cordoned = cordoned;
        }
    }

    pub(super) fn worker_lost(&mut self, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        let Some(worker) = self.worker_index.get(&incarnation).copied() else {
            return;
        };
        let state = &mut self.workers[worker];
        if std::mem::replace(&mut state.lost, true) {
            return;
        }
        let outstanding = std::mem::take(&mut state.outstanding);
        let sealed = std::mem::take(&mut state.sealed);
        let slots: Vec<SessionSlot> = self.session_index.values().copied().collect();
        for slot in slots {
            let session = self.sessions[slot].as_ref();
            if session.is_some_and(|session| session.worker == worker) {
                self.remove_session(slot, EndCause::Lost, effects);
            }
        }
        let state = &mut self.workers[worker];
        state.lanes.clear(&mut self.flow_places);
        state.space = Space::default();
        self.forget_report(worker);
        let granted = outstanding
            .into_iter()
            .flatten()
            .chain(sealed.into_values());
        for granted in granted {
            self.discharge_tenant(&granted);
        }
    }

    /// Counts a grant of a tenant as done, and unblocks the tenant's flows that its bound held
    /// back.
    fn discharge_tenant(&mut self, granted: &Granted) {
        if let Some(tenant) = self.tenants.find_mut(granted.tenant) {
            tenant.outstanding = tenant.outstanding.saturating_sub(granted.cost);
            self.unblock(granted.tenant);
        }
    }

    pub(super) fn done(
        &mut self,
        incarnation: Incarnation,
        reports: &[DoneReport],
        effects: &mut Vec<Effect>,
    ) {
        let Some(worker) = self.worker_index.get(&incarnation).copied() else {
            return;
        };
        self.fetch(worker, reports);
        for report in reports {
            if matches!(report.outcome, Outcome::Part | Outcome::Closed) {
                self.stood(worker, report, effects);
                continue;
            }
            let state = &mut self.workers[worker];
            let Some(granted) = state.take(report.position) else {
                continue;
            };
            state.lanes.discharge(granted.priority, granted.cost);
            state.voids += u64::from(report.outcome == Outcome::Void);
            self.discharge_tenant(&granted);
            self.settle(worker, &granted, report);
            match granted.kind {
                GrantKind::Standing => self.stood_through(&granted, report.position, effects),
                _ => self.end(&granted, report, effects),
            }
        }
        self.touch(worker);
    }

    /// Reads ahead the fields that the next reports of a worker need first, for [`Self::fetch`].
    pub(crate) fn fetch_worker(&self, incarnation: Incarnation) -> u64 {
        let worker = self.worker_index.get(&incarnation);
        worker.map_or(0, |worker| self.workers[*worker].fetch())
    }

    /// Reads ahead the state that the reports, and the grants that they make room for, need. With
    /// many sessions, each lies far from the others in memory. Read here in a row, without
    /// dependences, they are waited for once and not one after the other.
    fn fetch(&self, worker: WorkerSlot, reports: &[DoneReport]) {
        let state = &self.workers[worker];
        let mut seen = 0;
        for report in reports {
            if let Some(granted) = state.peek(report.position)
                && let Some(Some(session)) = self.sessions.find(granted.slot)
            {
                let flow = &self.flows[session.flow];
                seen ^= session.fetch() ^ session.queue.fetch() ^ flow.fetch();
            }
        }
        let mut next = [SessionSlot::NONE; FETCHED];
        // About as many slices get room, and the flows are not quite in order.
        let most = (2 * reports.len()).min(FETCHED);
        let entries = state.lanes.entries().take(most);
        for (entry, next) in entries.zip(&mut next) {
            let flow = &self.flows[entry.id];
            seen ^= flow.fetch();
            if let Some(first) = flow.sessions.first() {
                *next = first.id;
            }
        }
        for slot in next {
            if let Some(Some(session)) = self.sessions.find(slot) {
                let tenant = &self.tenants[session.tenant];
                seen ^= session.fetch() ^ session.queue.fetch() ^ tenant.fetch();
            }
        }
        std::hint::black_box(seen);
    }

    /// Settles the measured time of a slice against its flow's charge.
    fn settle(&mut self, worker: WorkerSlot, granted: &Granted, report: &DoneReport) {
        let ran = granted.kind == GrantKind::Run && report.outcome == Outcome::Ran;
        if !ran || !self.settings.settle {
            return;
        }
        // Mostly the session is still there and knows its flow.
        let session = self.sessions.find(granted.slot);
        let session = session.and_then(Option::as_ref);
        let flow = match session.filter(|session| session.id == granted.session) {
            Some(session) => Some(session.flow),
            None => self.workers[worker].flows.get(&granted.tenant).copied(),
        };
        if let Some(flow) = flow {
            let balance = &mut self.flows[flow].balance;
            balance.note(granted.cost, report.measured, self.settings.quantum_ns);
        }
    }

    /// Applies the end of a grant to its session.
    fn end(&mut self, granted: &Granted, report: &DoneReport, effects: &mut Vec<Effect>) {
        let slot = granted.slot;
        let state = self.sessions.find_mut(slot);
        let Some(session) = state.and_then(Option::as_mut) else {
            return;
        };
        if session.id != granted.session {
            return;
        }
        self.dirty_sessions.note(slot, Mark::Reported);
        match (granted.kind, report.outcome) {
            (GrantKind::Open, _) => {}
            (GrantKind::Return, outcome) => self.returned(slot, outcome == Outcome::Ran),
            (GrantKind::Close, _) => {
                let reason = match session.life {
                    Life::Closing(reason) => reason,
                    Life::Open | Life::Asked(_) => CloseReason::Asked,
                };
                self.remove_session(slot, EndCause::Closed(reason), effects);
            }
            (GrantKind::Run, Outcome::Ran) => {
                let asked = matches!(session.life, Life::Asked(_));
                session.ran = self.input;
                match session.queue.finish(granted.last) {
                    true => self.refresh(slot),
                    false => self.note_work(slot),
                }
                if asked {
                    self.close_if_asked(slot, effects);
                }
            }
            (GrantKind::Run, Outcome::Void) => {
                if granted.generation == session.generation {
                    session.generation += 1;
                    session.queue.rewind(granted.first, granted.cut);
                    session.doubted = true;
                }
                self.note_received(slot, report.received);
                self.refresh(slot);
            }
            _ => {}
        }
    }
}

/// The session's outstanding grants that will not be void, in op order. Seen from the last
/// backwards, each ends before the next one begins.
fn live_grants(session: &SealedSession, answer: &SealAnswer) -> Vec<Grant> {
    let mut need = session.accepted;
    let mut live = Vec::new();
    for sealed in answer.outstanding.iter().rev() {
        let mut grant = sealed.grant;
        let runs = matches!(grant.kind, GrantKind::Run | GrantKind::Standing);
        let own = grant.session == session.session && runs;
        if grant.kind == GrantKind::Standing {
            // Ops that it ran already are done.
            grant.first = grant.first.max(session.done.saturating_add(1));
        }
        let range = grant.first > session.done && grant.first <= grant.last;
        if own && range && grant.last <= need && sealed.position <= answer.position {
            need = grant.first - 1;
            live.push(grant);
        }
    }
    live.reverse();
    live
}
