//! Who watches the cluster: it hands what the bus shows and what nodes tell to the checkers.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::subject::{Admin, LeaderSubject, Subjects, ToLeader, WorkerSubject};
use bus_schemas::{
    CloseRequest, ClusterSettings, Done, Drain, Epoch, GrantBatch, Incarnation, LeaderBeat, Leave,
    Lost, SealReply, Status, Tenant, TenantSettings, Usage, decode,
};
use scheduler_leader_core::Placement;

use crate::administrator::inbox;
use crate::check::{
    Accounts, Credits, Drains, Keeping, Memory, Places, Positions, Sessions, Stops, Verdict,
    Violation, Windows,
};
use crate::coverage::{Coverage, Part};
use crate::moments::Moments;
use crate::scene::Machine;
use crate::trace::Trace;
use sim_cluster::{
    ClientFact, Fact, Input, LeaderFact, Nanos, NodeId, Observer, Packet, Role, SECOND, Slot,
    WorkerFact,
};

/// Two beats of one leader that are no further apart belong to one reign without a break.
const RIVAL: Nanos = SECOND / 10;

/// All checkers, and a few facts about the cluster that the simulation steers by.
pub(crate) struct Watch {
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
    /// What happened, in words.
    pub trace: Trace,
    /// Which faults met which states.
    pub coverage: Coverage,
    /// Moments at which something happened to a node, if they are noted.
    pub moments: Option<Moments>,
}

impl Watch {
    /// Checkers that have seen nothing.
    #[must_use]
    pub(crate) fn new(
        cluster: &Tenant,
        settings: ClusterSettings,
        tenants: &[(Tenant, TenantSettings)],
        (machines, capacity): (&[Machine], u64),
        trace: Trace,
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
            trace,
            coverage: Coverage::default(),
            moments: None,
        }
    }

    fn judge(&mut self, verdict: Verdict) {
        if let Err(violation) = verdict
            && self.violation.is_none()
        {
            self.violation = Some(violation);
        }
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
    fn take(&mut self, now: Nanos, from: NodeId, fact: Fact) -> Verdict {
        match fact {
            Fact::Client(fact) => self.client_says(now, from, fact),
            Fact::Worker(worker, fact) => self.worker_says(now, from, worker, fact),
            Fact::Leader(fact) => self.leader_says(from, &fact),
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

    fn leader_says(&mut self, from: NodeId, fact: &LeaderFact) -> Verdict {
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

    fn client_says(&mut self, now: Nanos, from: NodeId, fact: ClientFact) -> Verdict {
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
                let denied = self.memory.denied.contains(&session);
                self.sessions.failed(session, op, &failure, denied)
            }
            ClientFact::Ended { session } => {
                self.places.left(session);
                self.sessions.ended(session)
            }
        }
    }

    fn worker_says(
        &mut self,
        now: Nanos,
        from: NodeId,
        worker: Incarnation,
        fact: WorkerFact,
    ) -> Verdict {
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
            WorkerFact::Ran { session, op, print } => self.sessions.ran(worker, session, op, print),
            WorkerFact::Device { session, open } => {
                self.memory.device(worker, session, open)?;
                self.places.device(now, worker, session, open)?;
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
            WorkerFact::Accounted { block } => {
                self.accounts.take(&block);
                Ok(())
            }
            fact => self.use_of(now, worker, fact),
        }
    }

    /// What a worker says of memory and time that were used.
    fn use_of(&mut self, now: Nanos, worker: Incarnation, fact: WorkerFact) -> Verdict {
        match fact {
            WorkerFact::Touched {
                session,
                op,
                address,
                bytes,
            } => self.memory.touched(session, op, (address, bytes)),
            WorkerFact::Held {
                session,
                most,
                resident,
            } => {
                if let (Some(bytes), Some(tenant)) = (resident, self.memory.tenant(session)) {
                    self.credits.resident(now, worker, (session, tenant), bytes);
                }
                self.places.held(now, worker, session, most);
                self.memory.held(worker, session, most)
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
                    self.accounts.used(worker, tenant, device_ns);
                }
                self.stops.used(worker, session, device_ns)
            }
            WorkerFact::Stopped { session, ran } => {
                self.stops.stopped(worker, session, ran);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The incarnation of a worker's node.
    fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.workers.get(&node).copied()
    }
}

impl Observer for Watch {
    fn note(&mut self, now: Nanos, line: impl FnOnce() -> String) {
        self.trace.note(now, line);
    }

    fn published(&mut self, now: Nanos, from: NodeId, packet: &Packet) {
        self.trace.published(now, from, packet);
        let verdict = self.publish(now, from, packet);
        self.judge(verdict);
    }

    fn arrived(&mut self, now: Nanos, to: NodeId, packet: &Packet) {
        self.trace.packet(now, to, packet);
    }

    fn told(&mut self, now: Nanos, to: NodeId, input: &Input) {
        self.trace.input(now, to, input);
    }

    fn handles(&mut self, now: Nanos, id: NodeId, slot: &Slot, input: &Input) {
        if let Input::Message(packet) = input {
            let verdict = self.deliver(id, packet);
            self.judge(verdict);
        }
        if let (Some(moments), Some(node)) = (&mut self.moments, &slot.node)
            && slot.role != Role::Administrator
        {
            moments.note(now, (slot.role, slot.number), node.state(), input);
        }
    }

    fn fact(&mut self, now: Nanos, from: NodeId, fact: Fact) {
        self.trace.fact(now, from, &fact);
        let verdict = self.take(now, from, fact);
        self.judge(verdict);
    }

    fn stored(&mut self, now: Nanos, placement: &Placement) {
        self.drains.stored(now, &placement.drained);
    }

    fn died(&mut self, now: Nanos, node: NodeId) {
        self.places.client_died(node);
        if let Some(incarnation) = self.workers.remove(&node) {
            self.places.worker_died(now, incarnation);
            self.positions.died(incarnation);
            self.sessions.worker_died(incarnation);
            self.memory.worker_died(incarnation);
            self.credits.worker_died(incarnation);
        }
    }

    /// What state the nodes, and their sessions, are in.
    fn met(&mut self, slots: &[Slot], id: Option<NodeId>, fault: &'static str) {
        for (place, slot) in slots.iter().enumerate() {
            let met = id.is_none_or(|id| id.0 == place);
            let Some(node) = slot.node.as_ref().filter(|_| met) else {
                continue;
            };
            let part = match slot.role {
                Role::Leader => Part::Leader,
                Role::Worker => Part::Worker,
                Role::Client | Role::Administrator => continue,
            };
            self.coverage.met(part, node.state(), fault);
            let worker = self.incarnation(NodeId(place));
            if worker.is_some_and(|worker| self.drains.holds(worker)) {
                self.coverage.met(part, "drained", fault);
            }
        }
        let role = id.map(|id| slots[id.0].role);
        if role == Some(Role::Administrator) {
            return;
        }
        let client = id.filter(|_| role == Some(Role::Client));
        let worker = id.and_then(|id| self.incarnation(id));
        if role == Some(Role::Worker) && worker.is_none() {
            return;
        }
        for state in self.sessions.states(client, worker) {
            self.coverage.met(Part::Session, state, fault);
        }
        for state in self.places.states(client, worker) {
            self.coverage.met(Part::Request, state, fault);
        }
    }
}

/// The worker an order's subject names.
fn target(subject: &str) -> Option<Incarnation> {
    let mut tokens = subject.rsplit('.');
    tokens.next()?;
    tokens.next()?.parse().ok()
}
