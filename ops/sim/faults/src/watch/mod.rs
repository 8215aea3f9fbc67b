//! The watch over a cluster: it passes the messages on the bus and the facts of nodes to the checkers.

mod hears;
mod observer;
mod says;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bus_schemas::subject::{Admin, LeaderSubject, Subjects, ToLeader, WorkerSubject};
use bus_schemas::{
    CloseRequest, ClusterSettings, Done, Drain, Epoch, GrantBatch, Incarnation, LeaderBeat, Leave,
    Lost, SealReply, SessionId, Status, Tenant, TenantSettings, Usage, WorkerBeat, decode,
};

use crate::administrator::inbox;
use crate::check::{
    CheckResult, Copies, Credits, Drains, Exports, Keeping, Memory, Moves, Places, Positions,
    Sessions, Steady, Stops, UsageBlocks, Violation, Windows,
};
use crate::coverage::Coverage;
use crate::fault_points::FaultPoints;
use crate::hostile::{Listener, Overheard};
use crate::scene::Machine;
use crate::trace::Trace;
use sim_cluster::{Nanos, NodeFact, NodeId, Packet, SECOND};

/// Maximum time between two beats of a leader in an unbroken term.
const RIVAL: Nanos = SECOND / 10;

/// All checkers, and a few facts about the cluster that guide the simulation.
pub(crate) struct Watch {
    subjects: Subjects,
    inbox: String,
    /// Subject of the answers to the administrator.
    asks: String,
    /// The checker of workers.
    pub positions: Positions,
    /// The checker of sessions.
    pub sessions: Sessions,
    /// The checker of the order.
    pub windows: Windows,
    /// The checker of the devices' memory.
    pub memory: Memory,
    /// The checker of the devices' use.
    pub credits: Credits,
    /// The checker of moves of memory in workers' blocks.
    pub moves: Moves,
    /// The checker of placement.
    pub places: Places,
    /// The checker of drains.
    pub drains: Drains,
    /// The checker of a hostile tenant, if there is one.
    listener: Option<Listener>,
    /// The checker of steadiness.
    pub steady: Steady,
    /// The checker of use in workers' blocks.
    pub usage: UsageBlocks,
    /// The checker of the leaders' unrecorded inputs.
    pub keeping: Keeping,
    /// The checker of closed sessions' slices.
    pub stops: Stops,
    /// The checker of offered copies.
    pub copies: Copies,
    /// The checker of memory that sessions share.
    pub exports: Exports,
    workers: BTreeMap<NodeId, Incarnation>,
    /// Client nodes that have finished, or that only wait for a place.
    pub finished: BTreeSet<NodeId>,
    /// The leader, by its heartbeat.
    pub leading: Option<(Epoch, NodeId)>,
    beat_at: Nanos,
    /// Terms seen.
    pub terms: BTreeSet<(Epoch, NodeId)>,
    /// Time of each leader's last beat.
    beats: BTreeMap<NodeId, Nanos>,
    /// Beats of one leader between two of another: each considered itself the only one.
    pub rivals: u64,
    /// The first violation.
    pub violation: Option<Violation>,
    /// The trace of events.
    pub trace: Trace,
    /// Faults and the states that they met.
    pub coverage: Coverage,
    /// Points at which a node handled an event, if they are noted.
    pub fault_points: Option<FaultPoints>,
}

impl Watch {
    /// Makes checkers without observations.
    #[must_use]
    pub(crate) fn new(
        cluster: &Tenant,
        settings: ClusterSettings,
        tenants: &[(Tenant, TenantSettings)],
        (machines, capacity, limit): (&[Machine], u64, u64),
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
            copies: Copies::default(),
            exports: Exports::default(),
            keeping: Keeping::new(settings.record_buffer),
            windows: Windows::new(settings, tenants),
            memory: Memory::new(capacity, limit),
            credits: Credits::default(),
            moves: Moves::default(),
            places: Places::new(machines, tenants, limit),
            drains: Drains::default(),
            listener: None,
            steady: Steady::default(),
            usage: UsageBlocks::default(),
            workers: BTreeMap::new(),
            finished: BTreeSet::new(),
            leading: None,
            beat_at: 0,
            terms: BTreeSet::new(),
            beats: BTreeMap::new(),
            rivals: 0,
            violation: None,
            trace,
            coverage: Coverage::default(),
            fault_points: None,
        }
    }

    /// Starts to check the node of a hostile tenant.
    pub(crate) fn listens(&mut self, node: NodeId, overheard: Rc<RefCell<Overheard>>) {
        self.listener = Some(Listener::new(node, &self.subjects, overheard));
    }

    /// Number of a hostile tenant's messages.
    #[must_use]
    pub(crate) fn harm(&self) -> u64 {
        self.listener.as_ref().map_or(0, Listener::harm)
    }

    /// True if a tenant's message about a session is about its own.
    fn own(&self, tenant: &Tenant, session: SessionId) -> bool {
        self.memory.tenant(session).is_none_or(|own| own == tenant)
    }

    fn judge(&mut self, result: CheckResult) {
        if let Err(violation) = result
            && self.violation.is_none()
        {
            self.violation = Some(violation);
        }
    }

    fn publish(&mut self, now: Nanos, from: NodeId, packet: &Packet) -> CheckResult {
        if let Some(listener) = &mut self.listener {
            listener.published(&self.subjects, packet)?;
            if listener.sent(packet) {
                return Ok(());
            }
        }
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
            } else if let Some((session, what)) = self.subjects.parse_client(subject) {
                self.answers(incarnation, session, what, &packet.bytes)?;
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
                let there = self.workers.values().any(|it| *it == lost.incarnation);
                self.steady.lost(lost.incarnation, there)?;
            }
        } else if subject == self.asks {
            if let Ok(status) = decode::<Status>(&packet.bytes) {
                self.drains.said(now, from, &status)?;
            }
        } else if subject == self.subjects.leader_beat()
            && let Ok(beat) = decode::<LeaderBeat>(&packet.bytes)
        {
            self.terms.insert((beat.epoch, from));
            self.steady.leads(beat.epoch, from)?;
            if let Some(before) = self.beats.insert(from, now)
                && now - before < RIVAL
            {
                let mut others = self.beats.iter().filter(|(node, _)| **node != from);
                self.rivals += u64::from(others.any(|(_, at)| *at > before));
            }
            // After a silence, a cluster that forgot everything may restart with lower epochs.
            let silent = now.saturating_sub(self.beat_at) > 2 * SECOND;
            if silent || self.leading.is_none_or(|(epoch, _)| epoch <= beat.epoch) {
                self.leading = Some((beat.epoch, from));
                self.beat_at = now;
            }
        }
        Ok(())
    }

    /// Number of times that a leader took over from itself.
    #[must_use]
    pub(crate) fn renewed(&self) -> u64 {
        let next = self.terms.iter().skip(1);
        let pairs = self.terms.iter().zip(next);
        let itself = pairs.filter(|(before, next)| before.1 == next.1 && before.0 < next.0);
        itself.count() as u64
    }

    /// Checks an order that a leader publishes.
    fn ordered(
        &mut self,
        now: Nanos,
        leader: NodeId,
        worker: Incarnation,
        batch: &GrantBatch<'_>,
    ) -> CheckResult {
        self.positions.ordered(worker, batch)?;
        for open in &batch.opens {
            self.memory.given(worker, open);
            self.places.granted(worker, open)?;
            if let Some(listener) = &self.listener {
                listener.opened(open.session, worker);
                self.sessions.given(open);
            }
        }
        self.windows.ordered(now, leader, worker, batch)?;
        for (position, grant) in (batch.first..).zip(batch.grants.iter()) {
            self.keeping.granted(now, worker, position, grant.epoch);
            self.drains.granted((leader, batch.epoch), worker, &grant)?;
            self.sessions.granted(&grant)?;
        }
        Ok(())
    }

    /// Checks a message that a node receives.
    fn deliver(&mut self, to: NodeId, packet: &Packet) -> CheckResult {
        if let Some(listener) = &self.listener {
            listener.heard(to, packet)?;
        }
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
            {
                let sealed = reply.sealed.as_ref().map(|answer| answer.epoch);
                let epoch = sealed.or(reply.page.as_ref().map(|page| page.epoch));
                if let Some(epoch) = epoch {
                    let bytes = packet.bytes.len() as u64;
                    self.keeping.handed_over(to, epoch, bytes);
                }
                if let Some(answer) = &reply.sealed {
                    self.windows.sealed(to, incarnation, answer);
                }
            }
            return Ok(());
        }
        match self.subjects.parse_leader(subject) {
            Some(LeaderSubject::Done(incarnation)) => {
                if let Ok(done) = decode::<Done<'_>>(&packet.bytes) {
                    self.windows.done(to, incarnation, &done);
                }
            }
            Some(LeaderSubject::WorkerBeat(incarnation)) => {
                if let Ok(beat) = decode::<WorkerBeat>(&packet.bytes) {
                    self.windows.resides(to, incarnation, &beat);
                }
            }
            Some(LeaderSubject::Tenant(tenant, ToLeader::Intent(session))) => {
                if let Ok(intent) = decode(&packet.bytes)
                    && self.own(&tenant, session)
                {
                    self.windows.intent(to, session, &intent);
                }
            }
            Some(LeaderSubject::Admin(Admin::Drain)) => {
                if let Ok(drain) = decode::<Drain>(&packet.bytes) {
                    self.drains.asked(&drain);
                }
            }
            Some(LeaderSubject::Tenant(tenant, ToLeader::Close)) => {
                if let Ok(close) = decode::<CloseRequest>(&packet.bytes)
                    && self.own(&tenant, close.session)
                {
                    self.windows.closing(to, close.session);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks a message that a worker receives.
    fn work(&mut self, incarnation: Incarnation, packet: &Packet) -> CheckResult {
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
            Some(WorkerSubject::Tenant(tenant, session, what)) => {
                self.hears(incarnation, (&tenant, session), what, &packet.bytes);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks a fact that a node tells.
    fn take(&mut self, now: Nanos, from: NodeId, fact: NodeFact) -> CheckResult {
        match fact {
            NodeFact::Client(fact) => self.client_says(now, from, fact),
            NodeFact::Worker(worker, fact) => self.worker_says(now, from, worker, fact),
            NodeFact::Leader(fact) => self.leader_says(from, &fact),
            NodeFact::Broken { why } => Err(Violation::new("shell", why)),
            NodeFact::Finished => {
                self.finished.insert(from);
                Ok(())
            }
            NodeFact::WentOn => {
                self.finished.remove(&from);
                Ok(())
            }
        }
    }

    /// The incarnation of a worker's node.
    fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.workers.get(&node).copied()
    }
}

/// The worker that an order's subject names.
fn target(subject: &str) -> Option<Incarnation> {
    let mut tokens = subject.rsplit('.');
    tokens.next()?;
    tokens.next()?.parse().ok()
}
