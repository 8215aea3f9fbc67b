//! The work of workers: they accept in order, run in order, void what cannot run, and report what
//! they have.

use bus_schemas::{
    ChainEntry, DoneReport, Grant, GrantKind, Incarnation, LeaderId, Outcome, SealAnswer,
    SealedGrant, SealedSession, SessionId, WIRE_VERSION,
};
use scheduler_leader_core::{Input, Rows};

use super::{Model, Session};

impl Model {
    /// A worker's answer to a seal.
    pub(crate) fn seal(&self, incarnation: Incarnation) -> SealAnswer {
        let worker = &self.workers[&incarnation];
        let own = |session: &&Session| session.worker == incarnation && !session.closed;
        let sessions = self.sessions.iter().filter(|(_, session)| own(session));
        let last = worker.queue.back().into_iter();
        let stood = last.filter(|(_, grant)| grant.kind == GrantKind::Standing);
        let stood = stood.map(|(position, grant)| SealedGrant {
            position: *position,
            grant: *grant,
        });
        SealAnswer {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: LeaderId(self.epoch),
            gpu: worker.gpu,
            capacity: 8 << 30,
            position: worker.position,
            chain: worker.chain,
            global: worker.global,
            reports: worker.reports,
            sessions: sessions
                .map(|(id, session)| SealedSession {
                    session: *id,
                    tenant: session.tenant.clone(),
                    ordinal: session.ordinal,
                    window: session.window,
                    quota: 0,
                    nonce: id.0,
                    accepted: self.accepted(*id),
                    done: session.done,
                    received: session.received,
                    closing: session.closing,
                })
                .collect(),
            outstanding: worker
                .queue
                .iter()
                .map(|(position, grant)| SealedGrant {
                    position: *position,
                    grant: *grant,
                })
                .collect(),
            tail_epoch: 0,
            tail_recorded: 0,
            // A standing grant that the seal closed: only the tail has its end.
            tail: stood.collect(),
            ordinals: worker.ordinals.clone().into_iter().collect(),
            faults: Vec::new(),
            named: Vec::new(),
            forgotten: None,
        }
    }

    /// Last op of a session that will have run once all accepted grants ran.
    pub(crate) fn accepted(&self, id: SessionId) -> u64 {
        let session = &self.sessions[&id];
        let queue = self.workers[&session.worker].queue.iter();
        let runs = |grant: &Grant| matches!(grant.kind, GrantKind::Run | GrantKind::Standing);
        let own = queue.filter(|(_, grant)| grant.session == id && runs(grant));
        own.fold(session.done, |next, (_, grant)| {
            let stands = grant.kind == GrantKind::Standing;
            if grant.first == next + 1 || (stands && grant.last > next) {
                grant.last
            } else {
                next
            }
        })
    }

    /// The worker accepts a grant.
    pub(super) fn accept(&mut self, incarnation: Incarnation, position: u64, grant: &Grant) {
        if grant.kind == GrantKind::Standing {
            return self.stand(incarnation, position, grant);
        }
        let worker = self.workers.get_mut(&incarnation).unwrap();
        worker.queue.push_back((position, *grant));
        self.enter(incarnation, position, grant);
    }

    /// A position enters the chain.
    pub(super) fn enter(&mut self, incarnation: Incarnation, position: u64, grant: &Grant) {
        let session = &self.sessions[&grant.session];
        let worker = self.workers.get_mut(&incarnation).unwrap();
        worker.position = position;
        worker.global = worker.global.max(grant.global);
        worker.chain = worker.chain.then(&ChainEntry {
            position,
            tenant: &session.tenant,
            ordinal: session.ordinal,
            kind: grant.kind,
            first: grant.first,
            last: grant.last,
        });
        let ordinal = worker.ordinals.entry(session.tenant.clone()).or_default();
        *ordinal = (*ordinal).max(session.ordinal);
        if grant.kind == GrantKind::Close {
            self.sessions.get_mut(&grant.session).unwrap().closing = true;
        }
    }

    /// Ends the worker's next `count` positions and reports them.
    pub(crate) fn run(&mut self, incarnation: Incarnation, count: usize) -> usize {
        let (mut reports, mut moved) = (Vec::new(), 0);
        for _ in 0..count {
            let next = self.workers[&incarnation].queue.front();
            if next.is_some_and(|(_, grant)| grant.kind == GrantKind::Standing) {
                match self.go_on(incarnation) {
                    Some(true) => {
                        moved += 1;
                        continue;
                    }
                    None => break,
                    // Closed, and all its ops ran.
                    Some(false) => {}
                }
            }
            let worker = self.workers.get_mut(&incarnation).unwrap();
            let Some((position, grant)) = worker.queue.pop_front() else {
                break;
            };
            reports.append(&mut worker.told);
            let session = self.sessions.get_mut(&grant.session).unwrap();
            let outcome = match grant.kind {
                _ if session.closed => Outcome::Gone,
                GrantKind::Open | GrantKind::Standing | GrantKind::Revoke | GrantKind::Return => {
                    Outcome::Ran
                }
                GrantKind::Close => {
                    session.closed = true;
                    Outcome::Ran
                }
                GrantKind::Run
                    if grant.first == session.done + 1 && grant.last <= session.received =>
                {
                    session.done = grant.last;
                    Outcome::Ran
                }
                GrantKind::Run => Outcome::Void,
            };
            reports.push(DoneReport {
                position,
                session: grant.session,
                measured: (self.measure)(&grant),
                received: session.received,
                outcome,
                declared: 0,
            });
        }
        let worker = self.workers.get_mut(&incarnation).unwrap();
        reports.append(&mut worker.told);
        moved += reports.len();
        if !reports.is_empty() {
            let count = reports.len() as u64;
            self.workers.get_mut(&incarnation).unwrap().reports += count;
            self.apply(Input::Done {
                incarnation,
                reports: Rows(reports),
            });
        }
        moved
    }

    /// Tells the leader the received ops of a session, if the leader doubts it.
    pub(crate) fn tell_received(&mut self, id: SessionId) {
        let received = self.sessions[&id].received;
        if self.scheduler.session(id).is_some_and(|view| view.doubted) {
            self.apply(Input::Received {
                session: id,
                received,
            });
        }
    }
}
