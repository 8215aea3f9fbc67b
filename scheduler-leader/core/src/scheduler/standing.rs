//! Standing grants: given to the foremost session of a GPU, and accounted by the worker's reports.
//!
//! Any grant behind a standing grant closes it. If that grant is of a lower priority, a second
//! standing grant goes on behind it. One message carries both, and the foremost session's next op
//! still starts as it arrives. The session's accounts treat the two as one.

use bus_schemas::{
    CloseReason, DoneReport, GpuPosition, GrantKind, OpNumber, Outcome, fold, invariant,
};

use super::apply::{Scheduler, window};
use super::standing_grant::Standing;
use super::state::{Granted, Life, Mark, SessionState};
use crate::effect::Effect;
use crate::policy::{ABSENT, Cut, virtual_time};
use crate::slots::{SessionSlot, WorkerSlot};

impl Scheduler {
    /// Returns true if a session has a standing grant, or one that is not fully accounted.
    pub(super) fn stands(&self, slot: SessionSlot) -> bool {
        let session = self.sessions.find(slot).and_then(Option::as_ref);
        session.is_some_and(|session| session.standing.is_some())
    }

    /// The session of a worker that may run its ops as they come. It is the only session, or the
    /// only one of the highest priority while no floor gives turns to others.
    fn foremost(&self, worker: WorkerSlot) -> Option<SessionSlot> {
        let state = &self.workers[worker];
        let shared = state.sessions == 1 || self.settings.floors == [0; 5];
        let there = shared && !state.draining && !state.lost;
        state.crowd.foremost().filter(|_| there)
    }

    /// Gives a worker's foremost session a standing grant, or revokes it, as the rules now require.
    pub(super) fn serve_standing(&mut self, worker: WorkerSlot, effects: &mut Vec<Effect>) {
        let foremost = self.foremost(worker);
        if let Some(slot) = self.workers[worker].standing {
            let draining = self.workers[worker].draining;
            if (foremost != Some(slot) && !draining) || !self.may_stand(slot) {
                self.revoke(worker, slot, effects);
            }
        } else if let Some(slot) = foremost
            && !self.stands(slot)
            && self.may_stand(slot)
            && (self.workers[worker].sessions == 1 || !self.is_announced(slot))
        {
            self.stand(worker, slot, effects);
        }
    }

    /// Continues the foremost session's standing grant behind the grant that closed it.
    pub(super) fn renew_standing(&mut self, worker: WorkerSlot, effects: &mut Vec<Effect>) {
        if self.workers[worker].standing.is_some() {
            return;
        }
        let Some(slot) = self.foremost(worker) else {
            return;
        };
        let may = self.may_stand(slot);
        let Some(session) = &mut self.sessions[slot] else {
            return;
        };
        let (alive, busy) = (
            session.life == Life::Open && !session.doubted,
            session.is_busy(),
        );
        let standing = session.standing.as_mut();
        let standing = standing.filter(|standing| standing.closed.is_none());
        if may && alive && standing.is_some_and(|standing| standing.go_on(busy)) {
            self.stand(worker, slot, effects);
        }
    }

    /// Returns true if a session has announced ops that are not done. Announced ops of other
    /// sessions are granted first: the worker voids those that do not come.
    fn is_announced(&self, slot: SessionSlot) -> bool {
        let session = self.sessions[slot].as_ref();
        session.is_some_and(SessionState::is_busy)
    }

    /// Returns true if a foremost session may run its ops as they come.
    fn may_stand(&self, slot: SessionSlot) -> bool {
        let session = self.sessions.find(slot);
        let Some(session) = session.and_then(Option::as_ref) else {
            return false;
        };
        let tenant = &self.tenants[session.tenant].settings;
        let allowed = self.settings.standing && !self.held && !self.is_stopped();
        let unbounded = tenant.cap == 0 && tenant.outstanding_ns == 0;
        let there = !session.away && !self.workers[session.worker].is_short();
        // While it stands, only conditions that may change count; its end is a grant of its own.
        let ready = match &session.standing {
            Some(standing) => standing.priority == self.flows[session.flow].priority,
            None => {
                let idle = session.queue.granted() == session.queue.done();
                idle && session.life == Life::Open && !session.doubted
            }
        };
        allowed && unbounded && there && ready && !session.suspended
    }

    fn stand(&mut self, worker: WorkerSlot, slot: SessionSlot, effects: &mut Vec<Effect>) {
        let Some(session) = &self.sessions[slot] else {
            return;
        };
        let priority = self.flows[session.flow].priority;
        let first = match session.standing {
            Some(_) => 0,
            None => session.queue.granted() + 1,
        };
        let limit = self.workers[worker].limits.of(priority);
        let granted = Granted {
            kind: GrantKind::Standing,
            priority,
            urgency: priority,
            generation: session.generation,
            slot,
            session: session.id,
            tenant: session.tenant,
            first,
            last: 0,
            cost: window(&self.settings, limit),
            cut: Cut::default(),
        };
        self.emit(worker, granted, 0, None, effects);
        let state = &mut self.workers[worker];
        let position = state.position;
        state.standing = Some(slot);
        // The work under way of it is unknown until it is closed.
        if let Some(granted) = state.granted(position) {
            granted.cost = 0;
        }
        if let Some(session) = &mut self.sessions[slot] {
            match &mut session.standing {
                Some(standing) => standing.position = position,
                None => session.standing = Some(Box::new(Standing::new(position, first, priority))),
            }
        }
        self.refresh(slot);
    }

    /// Makes a worker close its standing grant although it has no other grant.
    fn revoke(&mut self, worker: WorkerSlot, slot: SessionSlot, effects: &mut Vec<Effect>) {
        if !self.is_stopped() {
            self.mark(slot, GrantKind::Revoke, None, effects);
        }
        self.workers[worker].standing = None;
    }

    /// Takes in a worker's report of a standing grant.
    pub(super) fn stood(
        &mut self,
        worker: WorkerSlot,
        report: &DoneReport,
        effects: &mut Vec<Effect>,
    ) {
        let state = &mut self.workers[worker];
        let granted = state.granted(report.position).copied();
        let Some(granted) = granted.filter(|granted| granted.session == report.session) else {
            return;
        };
        let session = self.sessions.find_mut(granted.slot);
        let session = session.and_then(Option::as_mut);
        let Some(session) = session.filter(|session| session.id == granted.session) else {
            return;
        };
        self.dirty_sessions.note(granted.slot, Mark::Reported);
        let standing = session.standing.as_mut();
        let Some(standing) = standing.filter(|standing| standing.spans(report.position)) else {
            return;
        };
        match report.outcome {
            // It continues at a later position.
            Outcome::Closed if report.position < standing.position => {}
            Outcome::Closed => {
                let closed = report.received.max(standing.through);
                standing.closed.get_or_insert(closed);
                if state.standing == Some(granted.slot) {
                    state.standing = None;
                }
            }
            _ => {
                let most = standing.closed.unwrap_or(OpNumber::MAX);
                if (standing.through..=most).contains(&report.received) {
                    standing.through = report.received;
                    standing.claimed = report.declared;
                }
                standing.measured = standing.measured.saturating_add(report.measured);
            }
        }
        self.account(granted.slot, effects);
        self.close_if_asked(granted.slot, effects);
    }

    /// Notes that a standing grant's position has ended: all its ops ran, or failed.
    pub(super) fn stood_through(
        &mut self,
        granted: &Granted,
        at: GpuPosition,
        effects: &mut Vec<Effect>,
    ) {
        let slot = granted.slot;
        let session = self.sessions.find_mut(slot);
        let session = session.and_then(Option::as_mut);
        let Some(session) = session.filter(|session| session.id == granted.session) else {
            return;
        };
        self.dirty_sessions.note(slot, Mark::Reported);
        let standing = session.standing.as_mut();
        if let Some(standing) = standing.filter(|standing| standing.spans(at)) {
            if standing.position == at {
                standing.ended = true;
                standing.closed.get_or_insert(standing.through);
            }
            self.account(slot, effects);
        } else if session.queue.finish(granted.last) {
            // A standing grant of an earlier leader.
            self.refresh(slot);
        } else {
            self.note_work(slot);
        }
        self.close_if_asked(slot, effects);
    }

    /// Charges the announced ops that a standing grant is known to have run or, once it is closed,
    /// to hold.
    pub(super) fn account(&mut self, slot: SessionSlot, effects: &mut Vec<Effect>) {
        let Some(session) = &mut self.sessions[slot] else {
            return;
        };
        let (worker, before) = (session.worker, session.queue.granted());
        let done_before = session.queue.done();
        let Some(standing) = &mut session.standing else {
            return;
        };
        let last = standing.closed.unwrap_or(standing.through);
        let (ran, of_ran) = session.queue.pass(standing.through);
        let (held, of_held) = session.queue.pass(last);
        standing.declared = standing.declared.wrapping_add(of_ran).wrapping_add(of_held);
        standing.charged = standing.charged.saturating_add(ran).saturating_add(held);
        standing.accounted = session.queue.granted().min(last);
        let done = if standing.ended {
            last
        } else {
            standing.through
        };
        session.queue.finish(done.min(standing.accounted));
        if session.queue.done() > done_before {
            self.dirty_sessions.note(slot, Mark::Reported);
        }
        let lied =
            standing.accounted == standing.through && fold(standing.declared) != standing.claimed;
        let ops = session.queue.granted() - before;
        let (position, over) = (standing.position, standing.is_over() && standing.ended);
        self.charge(slot, ops, ran.saturating_add(held));
        if let Some(granted) = self.workers[worker].granted(position) {
            granted.cost = granted.cost.saturating_add(held);
            let granted = *granted;
            self.count_outstanding(worker, &granted, held);
        }
        self.settle_standing(slot);
        if let Some(session) = self.sessions[slot].as_mut().filter(|_| over) {
            session.standing = None;
        }
        self.refresh(slot);
        if lied {
            let Some(session) = self.sessions[slot].as_ref() else {
                return;
            };
            let session = session.id;
            effects.push(Effect::Lied { session });
            self.close(slot, CloseReason::Fault, effects);
        }
    }

    /// Charges ops that ran without a wait. While their flow is alone, virtual time follows them
    /// except for the last quantum, as with consecutive slices: a newcomer finds no debt and no
    /// credit. For ops that are announced only after others have come, the others are owed nothing.
    fn charge(&mut self, slot: SessionSlot, ops: u64, cost: u64) {
        let Some(session) = self.sessions[slot].as_mut().filter(|_| ops > 0) else {
            return;
        };
        let id = session.flow;
        let flow = &mut self.flows[id];
        self.workers[flow.worker].recent.note(cost);
        self.recent = true;
        let lanes = &mut self.workers[flow.worker].lanes;
        if self.flow_places[id] != ABSENT {
            lanes.flows(flow.priority).remove(id, &mut self.flow_places);
        }
        let tenant = &mut self.tenants[flow.tenant];
        tenant.granted += ops;
        tenant.granted_ns = tenant.granted_ns.saturating_add(cost);
        let excess = flow.balance.excess(self.settings.quantum_ns);
        if tenant.settings.cap > 0 {
            flow.budget.spend(cost.saturating_add(excess));
        }
        let last = cost.min(self.settings.quantum_ns);
        let before = (cost - last).saturating_add(excess);
        let weight = tenant.settings.weight;
        if lanes.flows(flow.priority).is_empty() {
            let (priority, now) = (flow.priority, lanes.now(flow.priority));
            let tag = flow.tag.max(now) + virtual_time(before, weight);
            invariant!(
                I7,
                tag >= now,
                "the virtual time of priority {priority} goes back"
            );
            lanes.granted(&self.settings.floors, flow.priority, tag, cost);
            lanes.discharge(flow.priority, cost);
            flow.tag = tag + virtual_time(last, weight);
        } else {
            flow.tag += virtual_time(excess, weight);
        }
        if flow.sessions.is_empty() {
            flow.now = flow.now.max(session.tag) + virtual_time(cost - last, 1);
            session.tag = flow.now + virtual_time(last, 1);
        }
        self.refresh_flow(id);
    }

    /// Counts the work of a closed standing grant that is still on the device.
    fn count_outstanding(&mut self, worker: WorkerSlot, granted: &Granted, cost: u64) {
        let state = &mut self.workers[worker];
        state.lanes.charge(granted.priority, cost);
        if let Some(tenant) = self.tenants.find_mut(granted.tenant) {
            tenant.outstanding = tenant.outstanding.saturating_add(cost);
        }
    }

    /// Settles the measured time of ops against their charge, once both cover the same ops.
    fn settle_standing(&mut self, slot: SessionSlot) {
        let (settings, flows) = (&self.settings, &mut self.flows);
        let Some(session) = &mut self.sessions[slot] else {
            return;
        };
        let Some(standing) = &mut session.standing else {
            return;
        };
        if standing.accounted != standing.through && !standing.ended {
            return;
        }
        let (charged, measured) = (
            std::mem::take(&mut standing.charged),
            std::mem::take(&mut standing.measured),
        );
        if settings.settle {
            let balance = &mut flows[session.flow].balance;
            balance.note(charged, measured, settings.quantum_ns);
        }
    }
}
