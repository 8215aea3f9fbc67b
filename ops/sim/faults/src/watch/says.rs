//! Passes the facts of nodes to the checkers.

use bus_schemas::{Code, Incarnation};
use sim_cluster::{ClientFact, LeaderFact, Nanos, NodeId, WorkerFact};

use super::Watch;
use crate::check::{CheckResult, Violation};

impl Watch {
    pub(super) fn leader_says(&mut self, from: NodeId, fact: &LeaderFact) -> CheckResult {
        match *fact {
            LeaderFact::Cut {
                epoch,
                number,
                bytes,
                gap,
            } => self.keeping.cut(from, (epoch, number), (bytes, gap)),
            LeaderFact::Recorded { epoch, number } => {
                self.keeping.acknowledged(from, (epoch, number));
                Ok(())
            }
        }
    }

    pub(super) fn client_says(
        &mut self,
        now: Nanos,
        from: NodeId,
        fact: ClientFact,
    ) -> CheckResult {
        match fact {
            ClientFact::Asked {
                nonce,
                tenant,
                devices,
            } => {
                self.sessions.asked(from, nonce);
                self.places.asked(now, (from, nonce), tenant, devices);
                Ok(())
            }
            ClientFact::Opened {
                nonce,
                tenant,
                devices,
                doomed,
            } => {
                self.places.had(from, nonce, &devices)?;
                let mut doomed = doomed;
                devices.iter().try_for_each(|opened| {
                    let (session, worker) = (opened.session, opened.incarnation);
                    let doomed = std::mem::take(&mut doomed);
                    let request = (from, nonce);
                    self.sessions
                        .opened(request, tenant.clone(), session, worker, doomed)
                })
            }
            ClientFact::Declined { nonce, code } => self.places.declined(now, (from, nonce), code),
            ClientFact::Refused { failure } => Err(Violation::new("honest", failure.to_string())),
            ClientFact::Submitted {
                session,
                op,
                print,
                answered,
                memory,
            } => {
                if let Some(change) = memory {
                    self.memory.pushed(session, op, change);
                }
                self.sessions.submitted(session, op, print, answered)
            }
            ClientFact::Requested { session, wanted } => {
                self.memory.requested(session, wanted);
                Ok(())
            }
            ClientFact::Promised { session, committed } => self.memory.promised(session, committed),
            ClientFact::Closing { session } => {
                self.sessions.closing(session);
                Ok(())
            }
            ClientFact::Answered { session, op, right } => {
                self.sessions.answered(session, op, right)
            }
            ClientFact::Failed {
                session,
                op,
                failure,
            } => {
                self.places.failed(session, failure.code)?;
                let excused = match failure.code {
                    Code::Quota | Code::OutOfMemory => self.memory.denied.contains(&session),
                    Code::IllegalAddress => self.exports.is_bereft(session),
                    _ => false,
                };
                self.sessions.failed(session, op, &failure, excused)
            }
            ClientFact::Ended { session } => {
                self.places.left(session);
                self.sessions.ended(session)
            }
        }
    }

    pub(super) fn worker_says(
        &mut self,
        now: Nanos,
        from: NodeId,
        worker: Incarnation,
        fact: WorkerFact,
    ) -> CheckResult {
        match fact {
            WorkerFact::Began { gpu } => {
                self.workers.insert(from, worker);
                self.positions.began(worker, gpu);
                self.places.began(worker, gpu);
                Ok(())
            }
            WorkerFact::Started {
                position,
                session,
                first,
                last,
            } => self
                .positions
                .started(worker, position, session, (first, last)),
            WorkerFact::Ran { session, op, print } => {
                self.memory.ran(worker, session, op)?;
                self.sessions.ran(worker, session, op, print)
            }
            WorkerFact::Device { session, open } => {
                self.memory.device(worker, session, open)?;
                self.places.device(now, worker, session, open)?;
                if !open {
                    self.moves.closed(now, worker, session);
                }
                self.sessions.device(worker, session, open)
            }
            WorkerFact::Settled {
                position,
                session,
                outcome,
                ..
            } => {
                self.sessions.settled(session, outcome);
                self.positions.settled(worker, position, outcome)
            }
            WorkerFact::UsageCut { block } => {
                self.usage.take(&block);
                let unsent = self.copies.unsent_bytes(worker);
                self.moves.take(now, &block, &unsent)
            }
            fact => self.use_of(now, worker, fact),
        }
    }

    /// Checks a worker's fact about the use of memory and time.
    fn use_of(&mut self, now: Nanos, worker: Incarnation, fact: WorkerFact) -> CheckResult {
        match fact {
            WorkerFact::Touched {
                session,
                op,
                address,
                bytes,
            } => match self.exports.allows(session, (address, bytes)) {
                true => Ok(()),
                false => self.memory.touched(session, op, (address, bytes)),
            },
            WorkerFact::Held {
                session,
                most,
                resident,
            } => {
                if let (Some(bytes), Some(tenant)) = (resident, self.memory.tenant(session)) {
                    self.credits.resident(now, worker, (session, tenant), bytes);
                    self.moves.resident(worker, session, bytes);
                }
                self.places.held(now, worker, session, most);
                self.memory.held(worker, session, most)
            }
            WorkerFact::Left => self.drains.leaves(worker, self.places.on(worker)),
            WorkerFact::Swapped { session, out } => {
                self.exports.swapped(session, out)?;
                self.memory.swapped(worker, session, out)
            }
            WorkerFact::Moved {
                session,
                out,
                bytes,
            } => {
                if let Some(tenant) = self.memory.tenant(session) {
                    let of = (session, tenant);
                    let resident = if out { 0 } else { bytes };
                    self.credits.resident(now, worker, of, resident);
                    self.moves.moved(now, worker, of, (out, bytes));
                }
                Ok(())
            }
            WorkerFact::Denied { session, op } => self.memory.denied(worker, session, op),
            WorkerFact::Used {
                session,
                launches,
                device_ns,
                sm_ns,
            } => {
                if let Some(tenant) = self.memory.tenant(session) {
                    let used = [launches, device_ns, sm_ns];
                    self.credits.used(worker, tenant, used);
                    self.usage.used(worker, tenant, device_ns);
                }
                self.stops.used(worker, session, device_ns)
            }
            WorkerFact::Stopped { session, ran } => {
                self.stops.stopped(worker, session, ran);
                Ok(())
            }
            fact => self.shares(worker, &fact),
        }
    }
}
