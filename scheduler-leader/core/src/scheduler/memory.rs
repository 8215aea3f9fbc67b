//! Sessions' memory that does not all fit: passes the workers' reports to the policy, and grants
//! the returns that it decides.

use std::collections::BTreeMap;

use bus_schemas::{GrantKind, Incarnation, SessionResidency, invariant};

use super::apply::Scheduler;
use super::state::SessionState;
use crate::effect::Effect;
use crate::policy::{Activity, Rank, TICK_NS, Turns, Work};
use crate::slots::{SessionSlot, WorkerSlot};

impl Scheduler {
    /// Takes in a worker's report: the bytes that its sessions may hold, the time to move them, and
    /// their place.
    pub(super) fn worker_residency(
        &mut self,
        incarnation: Incarnation,
        (limit, ns_per_mib): (u64, u64),
        rows: &[SessionResidency],
    ) {
        let Some(worker) = self.worker_index.get(&incarnation).copied() else {
            return;
        };
        let state = &mut self.workers[worker];
        if state.lost {
            return;
        }
        state.limit = limit;
        if rows.is_empty() && state.turns.is_none() {
            return;
        }
        let (now, capacity) = (self.now, state.capacity);
        let turns = || Box::new(Turns::new(now, capacity));
        state.turns.get_or_insert_with(turns);
        let rows: BTreeMap<_, _> = rows
            .iter()
            .filter_map(|row| self.row(worker, row))
            .collect();
        let before = self.workers[worker].turns.as_ref();
        let mut members = before.map(|turns| turns.members()).unwrap_or_default();
        self.with_turns(worker, |turns, _| {
            turns.report(now, ns_per_mib, &rows);
        });
        members.extend(rows.into_keys());
        members
            .into_iter()
            .for_each(|slot| self.look_for_memory(slot));
        self.drop_turns(worker);
        self.touch(worker);
    }

    /// A worker's report of one of its own sessions.
    fn row(
        &self,
        worker: WorkerSlot,
        row: &SessionResidency,
    ) -> Option<(SessionSlot, (SessionResidency, bool))> {
        let slot = self.slot(row.session)?;
        let session = self.sessions[slot].as_ref()?;
        (session.worker == worker).then_some((slot, (*row, session.returning)))
    }

    /// Runs a function on a worker's turns, if it has any, and counts the waiting sessions
    /// afterwards.
    fn with_turns<R>(
        &mut self,
        worker: WorkerSlot,
        act: impl FnOnce(&mut Turns, &Self) -> R,
    ) -> Option<R> {
        let mut turns = self.workers[worker].turns.take()?;
        self.waiting -= turns.waiting();
        let result = act(&mut turns, self);
        self.waiting += turns.waiting();
        self.workers[worker].turns = Some(turns);
        Some(result)
    }

    /// Ends the turns of a worker on which everything fits.
    fn drop_turns(&mut self, worker: WorkerSlot) {
        let turns = &mut self.workers[worker].turns;
        if turns.as_ref().is_some_and(|turns| turns.is_empty()) {
            *turns = None;
        }
    }

    /// Decides again if a session is in memory, and if it is eligible.
    fn look_for_memory(&mut self, slot: SessionSlot) {
        let Some(session) = &mut self.sessions[slot] else {
            return;
        };
        let turns = self.workers[session.worker].turns.as_ref();
        session.away = turns.is_some_and(|turns| turns.is_away(slot));
        self.refresh(slot);
    }

    /// Notes that a session has work, or none any more. If it is away, its return may be due.
    pub(super) fn note_memory(&mut self, slot: SessionSlot) {
        let Some(session) = &self.sessions[slot] else {
            return;
        };
        let worker = session.worker;
        if self.workers[worker].turns.is_some() {
            let now = self.now;
            let work = Work {
                busy: session.is_busy(),
                ready: session.is_ready(),
                granted: session.has_granted(),
                suspended: session.suspended,
            };
            self.with_turns(worker, |turns, _| turns.note(now, slot, work));
        }
    }

    /// Makes sessions leave memory for those that return next.
    pub(super) fn serve_turns(&mut self, worker: WorkerSlot) {
        if self.workers[worker].turns.is_none() || self.held {
            return;
        }
        while let Some(leaving) = self.leave(worker) {
            leaving
                .into_iter()
                .for_each(|slot| self.look_for_memory(slot));
        }
    }

    /// Grants the returns that are due. They follow the slices of the staying sessions, so that
    /// these have work to run.
    pub(super) fn serve_returns(&mut self, worker: WorkerSlot, effects: &mut Vec<Effect>) {
        if self.workers[worker].turns.is_none() || self.held {
            return;
        }
        while !self.is_stopped()
            && let Some(slot) = self.next_return(worker)
        {
            if let Some(session) = &mut self.sessions[slot] {
                invariant!(
                    I6,
                    session.away && !session.returning,
                    "{} returns twice",
                    session.id
                );
                session.returning = true;
            }
            self.mark(slot, GrantKind::Return, None, effects);
        }
    }

    /// The sessions that leave memory now for one that returns.
    fn leave(&mut self, worker: WorkerSlot) -> Option<Vec<SessionSlot>> {
        self.with_turns(worker, |turns, this| {
            turns.next(this.now, |slot| this.rank(slot))
        })?
    }

    fn next_return(&mut self, worker: WorkerSlot) -> Option<SessionSlot> {
        self.with_turns(worker, |turns, this| {
            turns.ready(this.now, |slot| {
                let session = this.sessions[slot].as_ref();
                Activity {
                    granted: session.is_some_and(SessionState::has_granted),
                    ran: session.map_or(0, |session| session.ran),
                }
            })
        })?
    }

    /// The rank of a session in the choice of turns, beside its memory.
    fn rank(&self, slot: SessionSlot) -> Rank {
        let session = self.sessions[slot].as_ref();
        let target = session.map_or(0, |session| self.tenants[session.tenant].settings.slo_ns);
        Rank {
            priority: session.map_or(0, |session| self.flows[session.flow].priority),
            patience: (target > 0).then_some(target / 2 / TICK_NS),
        }
    }

    /// Notes that the return of a session has ended.
    pub(super) fn returned(&mut self, slot: SessionSlot, there: bool) {
        let Some(session) = &mut self.sessions[slot] else {
            return;
        };
        session.returning = false;
        let (worker, now) = (session.worker, self.now);
        self.workers[worker].returned += 1;
        self.with_turns(worker, |turns, _| turns.returned(now, slot, there));
        self.drop_turns(worker);
        self.look_for_memory(slot);
    }

    /// Frees the memory of a session that ends.
    pub(super) fn forget_memory(&mut self, slot: SessionSlot) {
        let Some(session) = &self.sessions[slot] else {
            return;
        };
        let (worker, now) = (session.worker, self.now);
        self.with_turns(worker, |turns, _| turns.remove(now, slot));
        self.drop_turns(worker);
    }

    /// Notes that the ranks of a worker's sessions may have changed.
    pub(super) fn look_at_line(&mut self, worker: WorkerSlot) {
        self.with_turns(worker, |turns, _| turns.look_again());
    }

    /// Counts a tick.
    pub(super) fn tick_memory(&mut self) {
        self.now += 1;
        if self.waiting == 0 {
            return;
        }
        for worker in self.workers.slots() {
            if self.workers[worker].is_short() {
                self.look_at_line(worker);
                self.touch(worker);
            }
        }
    }

    /// Number of returns that have ended on a worker.
    pub(crate) fn returned_on(&self, incarnation: Incarnation) -> u64 {
        let worker = self.worker_index.get(&incarnation);
        worker.map_or(0, |worker| self.workers[*worker].returned)
    }

    /// Returns true if a session waits for its memory.
    pub(super) fn is_waiting(&self, slot: SessionSlot) -> bool {
        let session = self.sessions[slot].as_ref();
        let turns = session.and_then(|session| self.workers[session.worker].turns.as_ref());
        turns.is_some_and(|turns| turns.is_waiting(slot))
    }
}
