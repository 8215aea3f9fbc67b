//! Hands what the bus shows and what nodes tell to the checkers.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::subject::{Admin, LeaderSubject, Subjects, ToLeader, WorkerSubject};
use bus_schemas::{
    CloseRequest, ClusterSettings, Done, Drain, Epoch, GrantBatch, Incarnation, LeaderBeat, Leave,
    Lost, SealReply, Status, Tenant, TenantSettings, Usage, decode,
};

use crate::check::{
    Accounts, Credits, Drains, Keeping, Memory, Places, Positions, Sessions, Stops, Verdict,
    Violation, Windows,
};
use crate::fact::Fact;
use crate::network::{NodeId, Packet};
use crate::nodes::inbox;
use crate::scene::Machine;
use sim_time::{Nanos, SECOND};

/// Two beats of one leader that are no further apart belong to one reign without a break.
const RIVAL: Nanos = SECOND / 10;

/// All checkers, and a few facts about the cluster that the simulation steers by.
#[derive(Debug)]
pub(crate) struct Observer {
    subjects: Subjects,
    inbox: String,
    /// Where an administrator is answered.
    asks: String,
    /// The worker's checkers.
    pub positions: Positions,
    /// The sessions' checkers.
    pub sessions: Sessions,
    /// The order's checkers.
    pub windows: Windows,
    /// The devices' memory.
    pub memory: Memory,
    /// Their use.
    pub credits: Credits,
    /// Who is placed where.
    pub places: Places,
    /// Which workers are drained.
    pub drains: Drains,
    /// What their blocks have of it.
    pub accounts: Accounts,
    /// What leaders keep that is not recorded.
    pub keeping: Keeping,
    /// What closed sessions had on their devices.
    pub stops: Stops,
    workers: BTreeMap<NodeId, Incarnation>,
    /// Client nodes with nothing left to do, or nothing but to wait for a place.
    pub finished: BTreeSet<NodeId>,
    /// Who leads, by its heartbeat.
    pub leading: Option<(Epoch, NodeId)>,
    beat_at: Nanos,
    /// Reigns seen.
    pub reigns: BTreeSet<(Epoch, NodeId)>,
    /// When each node beat as a leader.
    beats: BTreeMap<NodeId, Nanos>,
    /// Beats of one leader between two of another: both took themselves for the only one.
    pub rivals: u64,
    /// The first thing that was not as it should be.
    pub violation: Option<Violation>,
}

impl Observer {
    /// Checkers that have seen nothing.
    #[must_use]
    pub(crate) fn new(
        cluster: &Tenant,
        settings: ClusterSettings,
        tenants: &[(Tenant, TenantSettings)],
        (machines, capacity): (&[Machine], u64),
    ) -> Self {
        let subjects = Subjects::new(cluster);
        Self {
            inbox: subjects.cluster_inbox(),
            asks: inbox(&subjects),
            subjects,
            positions: Positions::default(),
            sessions: Sessions::default(),
            stops: Stops::default(),
            keeping: Keeping::new(settings.record_buffer),
            windows: Windows::new(settings, tenants),
            memory: Memory::new(capacity),
            credits: Credits::default(),
            places: Places::new(machines, tenants, capacity),
            drains: Drains::default(),
            accounts: Accounts::default(),
            workers: BTreeMap::new(),
            finished: BTreeSet::new(),
            leading: None,
            beat_at: 0,
            reigns: BTreeSet::new(),
            beats: BTreeMap::new(),
            rivals: 0,
            violation: None,
        }
    }

    fn judge(&mut self, verdict: Verdict) {
        if let Err(violation) = verdict
            && self.violation.is_none()
        {
            self.violation = Some(violation);
        }
    }

    /// A node publishes a message.
    pub(crate) fn published(&mut self, now: Nanos, from: NodeId, packet: &Packet) {
        let verdict = self.publish(now, from, packet);
        self.judge(verdict);
    }

    fn publish(&mut self, now: Nanos, from: NodeId, packet: &Packet) -> Verdict {
        let subject = &*packet.subject;
        if let Some(incarnation) = self.workers.get(&from).copied() {
            if subject.starts_with(&self.inbox) {
                let reply = decode::<SealReply>(&packet.bytes).ok();
                if let Some(page) = reply.as_ref().and_then(|it| it.page.as_ref()) {
                    let leader = (page.epoch, page.leader);
                    self.positions.begins_to_obey(incarnation, leader)?;
                }
                if let Some(answer) = reply.and_then(|it| it.sealed) {
                    self.places.sealed(now, incarnation);
                    self.positions.sealed(incarnation, &answer)?;
                }
            } else if subject == self.subjects.done(incarnation) {
                if let Ok(done) = decode::<Done<'_>>(&packet.bytes) {
                    self.positions.done(incarnation, &done)?;
                }
            } else if subject == self.subjects.usage(incarnation)
                && let Ok(usage) = decode::<Usage>(&packet.bytes)
            {
                let tenant = |session| self.memory.tenant(session).cloned();
                self.credits.said(now, &usage, &tenant)?;
            }
            return Ok(());
        }
        let to_worker = self.subjects.parse_worker(subject);
        if let Some(WorkerSubject::GrantBatch) = to_worker {
            if let (Some(incarnation), Ok(order)) =
                (target(subject), decode::<GrantBatch<'_>>(&packet.bytes))
            {
                self.ordered(now, from, incarnation, &order)?;
            }
        } else if let Some(WorkerSubject::Lost) = to_worker {
            if let Ok(lost) = decode::<Lost>(&packet.bytes) {
                self.places.lost(lost.incarnation);
            }
        } else if subject == self.asks {
            if let Ok(status) = decode::<Status>(&packet.bytes) {
                self.drains.said(now, from, &status)?;
            }
        } else if subject == self.subjects.leader_beat()
            && let Ok(beat) = decode::<LeaderBeat>(&packet.bytes)
        {
            self.reigns.insert((beat.epoch, from));
            if let Some(before) = self.beats.insert(from, now)
                && now - before < RIVAL
            {
                let mut others = self.beats.iter().filter(|(node, _)| **node != from);
                self.rivals += u64::from(others.any(|(_, at)| *at > before));
            }
            // After a silence, a cluster that forgot everything may begin again from below.
            let silent = now.saturating_sub(self.beat_at) > 2 * SECOND;
            if silent || self.leading.is_none_or(|(epoch, _)| epoch <= beat.epoch) {
                self.leading = Some((beat.epoch, from));
                self.beat_at = now;
            }
        }
        Ok(())
    }

    /// How often a leader was followed by itself.
    #[must_use]
    pub(crate) fn renewed(&self) -> u64 {
        let next = self.reigns.iter().skip(1);
        let pairs = self.reigns.iter().zip(next);
        let itself = pairs.filter(|(before, next)| before.1 == next.1 && before.0 < next.0);
        itself.count() as u64
    }

    /// A leader publishes an order.
    fn ordered(
        &mut self,
        now: Nanos,
        leader: NodeId,
        worker: Incarnation,
        order: &GrantBatch<'_>,
    ) -> Verdict {
        self.positions.ordered(worker, order)?;
        for open in &order.opens {
            self.memory.given(worker, open);
            self.places.granted(worker, open)?;
        }
        self.windows.ordered(now, leader, worker, order)?;
        for (position, grant) in (order.first..).zip(order.grants.iter()) {
            self.keeping.granted(now, worker, position, grant.epoch);
            self.drains.granted((leader, order.epoch), worker, &grant)?;
            self.sessions.granted(&grant)?;
        }
        Ok(())
    }

    /// A node takes a message.
    pub(crate) fn delivered(&mut self, _now: Nanos, to: NodeId, packet: &Packet) {
        let verdict = self.deliver(to, packet);
        self.judge(verdict);
    }

    fn deliver(&mut self, to: NodeId, packet: &Packet) -> Verdict {
        let subject = &*packet.subject;
        if let Some(incarnation) = self.workers.get(&to).copied() {
            return self.work(incarnation, packet);
        }
        if subject.starts_with(&self.inbox) {
            // The worker may be dead by now: the inbox names it.
            let incarnation = subject
                .rsplit('.')
                .next()
                .and_then(|name| name.parse().ok());
            if let Some(incarnation) = incarnation
                && let Ok(reply) = decode::<SealReply>(&packet.bytes)
                && let Some(answer) = reply.sealed
            {
                self.windows.sealed(to, incarnation, &answer);
            }
            return Ok(());
        }
        match self.subjects.parse_leader(subject) {
            Some(LeaderSubject::Done(incarnation)) => {
                if let Ok(done) = decode::<Done<'_>>(&packet.bytes) {
                    self.windows.done(to, incarnation, &done);
                }
            }
            Some(LeaderSubject::Tenant(_, ToLeader::Intent(session))) => {
                if let Ok(intent) = decode(&packet.bytes) {
                    self.windows.intent(to, session, &intent);
                }
            }
            Some(LeaderSubject::Admin(Admin::Drain)) => {
                if let Ok(drain) = decode::<Drain>(&packet.bytes) {
                    self.drains.asked(&drain);
                }
            }
            Some(LeaderSubject::Tenant(_, ToLeader::Close)) => {
                if let Ok(close) = decode::<CloseRequest>(&packet.bytes) {
                    self.windows.closing(to, close.session);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A worker takes a message.
    fn work(&mut self, incarnation: Incarnation, packet: &Packet) -> Verdict {
        match self.subjects.parse_worker(&packet.subject) {
            Some(WorkerSubject::GrantBatch) => match decode::<GrantBatch<'_>>(&packet.bytes) {
                Ok(order) => self.positions.heard(incarnation, &order),
                Err(_) => Ok(()),
            },
            Some(WorkerSubject::Leave) => match decode::<Leave>(&packet.bytes) {
                Ok(leave)
                    if !leave.noted
                        && self
                            .positions
                            .obeys(incarnation, (leave.epoch, leave.leader)) =>
                {
                    let sessions = self.places.on(incarnation);
                    self.drains.dismissed(incarnation, sessions)
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// A node tells something.
    pub(crate) fn fact(&mut self, now: Nanos, from: NodeId, fact: Fact) {
        let verdict = self.take(now, from, fact);
        self.judge(verdict);
    }

    fn take(&mut self, now: Nanos, from: NodeId, fact: Fact) -> Verdict {
        match fact {
            Fact::WorkerStarted { incarnation, gpu } => {
                self.workers.insert(from, incarnation);
                self.positions.began(incarnation, gpu);
                self.places.began(incarnation, gpu);
                Ok(())
            }
            Fact::Asked {
                nonce,
                tenant,
                devices,
            } => {
                self.sessions.asked(from, nonce);
                self.places.asked(now, (from, nonce), tenant, devices);
                Ok(())
            }
            Fact::Opened {
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
            Fact::Declined { nonce, code } => self.places.declined(now, (from, nonce), code),
            Fact::Submitted {
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
            Fact::Touched {
                session,
                op,
                address,
                bytes,
                ..
            } => self.memory.touched(session, op, (address, bytes)),
            Fact::Held {
                incarnation,
                session,
                most,
                resident,
            } => {
                if let (Some(bytes), Some(tenant)) = (resident, self.memory.tenant(session)) {
                    self.credits
                        .resident(now, incarnation, (session, tenant), bytes);
                }
                self.places.held(now, incarnation, session, most);
                self.memory.held(incarnation, session, most)
            }
            Fact::Denied {
                incarnation,
                session,
                op,
            } => self.memory.denied(incarnation, session, op),
            Fact::Used {
                incarnation,
                session,
                launches,
                device_ns,
                sm_ns,
            } => {
                if let Some(tenant) = self.memory.tenant(session) {
                    let used = [launches, device_ns, sm_ns];
                    self.credits.used(incarnation, tenant, used);
                    self.accounts.used(incarnation, tenant, device_ns);
                }
                self.stops.used(incarnation, session, device_ns)
            }
            Fact::Stopped {
                incarnation,
                session,
                ran,
            } => {
                self.stops.stopped(incarnation, session, ran);
                Ok(())
            }
            Fact::Accounted { block } => {
                self.accounts.take(&block);
                Ok(())
            }
            Fact::Cut {
                epoch,
                number,
                bytes,
                gap,
            } => self.keeping.cut(from, (epoch, number), (bytes, gap)),
            Fact::Recorded { epoch, number } => {
                self.keeping.acknowledged(from, (epoch, number));
                Ok(())
            }
            Fact::Closing { session } => {
                self.sessions.closing(session);
                Ok(())
            }
            Fact::Started {
                incarnation,
                position,
                session,
                first,
                last,
            } => self
                .positions
                .started(incarnation, position, session, (first, last)),
            Fact::Ran {
                incarnation,
                session,
                op,
                print,
            } => self.sessions.ran(incarnation, session, op, print),
            Fact::Device {
                incarnation,
                session,
                open,
            } => {
                self.memory.device(incarnation, session, open)?;
                self.places.device(now, incarnation, session, open)?;
                self.sessions.device(incarnation, session, open)
            }
            Fact::Settled {
                incarnation,
                position,
                session,
                outcome,
                ..
            } => {
                self.sessions.settled(session, outcome);
                self.positions.settled(incarnation, position, outcome)
            }
            Fact::Answered { session, op, right } => self.sessions.answered(session, op, right),
            Fact::Failed {
                session,
                op,
                failure,
            } => {
                self.places.failed(session, failure.code)?;
                let denied = self.memory.denied.contains(&session);
                self.sessions.failed(session, op, &failure, denied)
            }
            Fact::Ended { session } => {
                self.places.left(session);
                self.sessions.ended(session)
            }
            Fact::Refused { failure } => Err(Violation::new("honest", failure.to_string())),
            Fact::Broken { why } => Err(Violation::new("shell", why)),
            Fact::Finished => {
                self.finished.insert(from);
                Ok(())
            }
            Fact::WentOn => {
                self.finished.remove(&from);
                Ok(())
            }
        }
    }

    /// The incarnation of a worker's node.
    #[must_use]
    pub(crate) fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.workers.get(&node).copied()
    }

    /// A node died.
    pub(crate) fn died(&mut self, now: Nanos, node: NodeId) {
        self.places.client_died(node);
        if let Some(incarnation) = self.workers.remove(&node) {
            self.places.worker_died(now, incarnation);
            self.positions.died(incarnation);
            self.sessions.worker_died(incarnation);
            self.memory.worker_died(incarnation);
            self.credits.worker_died(incarnation);
        }
    }
}

/// The worker an order's subject names.
fn target(subject: &str) -> Option<Incarnation> {
    let mut tokens = subject.rsplit('.');
    tokens.next()?;
    tokens.next()?.parse().ok()
}
