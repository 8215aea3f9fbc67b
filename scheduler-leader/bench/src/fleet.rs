//! The leader's protocol core with sessions on modelled GPUs: every message as it comes from the
//! bus. The parts of the others are prepared apart, so that only the leader's part is measured.

use std::time::Duration;

use bus_schemas::subject::{LeaderSubject, Subjects, ToLeader};
use bus_schemas::{
    KernelKey, LeaderId, OpenRequest, SealReply, SessionId, Tenant, TenantSettings, WIRE_VERSION,
    encode,
};

use scheduler_leader_core::{
    Action, Event, KernelQueue, Leader, LeaderConfig, Profile, QueueAction, QueueEvent,
    StateSnapshot,
};

use crate::load::{KERNELS, TENANT, answer, incarnation, tenant};
use crate::models::{CAPACITY, Client, Gpu, Message, beat};

/// One leader, modelled GPUs, and sessions with endless work, ten to a tenant.
#[derive(Debug)]
pub struct Fleet {
    now: u64,
    subjects: Subjects,
    pub(crate) leader: Leader,
    /// By client, each boxed as in a leader's process.
    queues: Vec<Option<Box<KernelQueue>>>,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) clients: Vec<Client>,
    /// Actions of the leader since its last message.
    actions: Vec<Action>,
    /// The actions among them that its queues do not handle.
    pub(crate) sent: Vec<Action>,
    /// The next messages to it.
    pub(crate) prepared: Vec<Message>,
    pub(crate) grants: usize,
    /// Number of all grants that were reported done.
    pub(crate) total: u64,
    turn: usize,
    /// The lowest session id.
    pub(crate) first_id: Option<u64>,
    pub(crate) bytes: u64,
}

impl Fleet {
    /// Time between two messages of a GPU.
    pub const PERIOD: Duration = Duration::from_millis(2);

    /// A leader of this many GPUs and of tenants for this many sessions, none of them open.
    ///
    /// # Panics
    /// If the leader does not lead: a mistake of this model.
    #[must_use]
    pub fn new(sessions: usize, gpus: usize) -> Self {
        let cluster: Tenant = "bench".parse().expect("a name");
        let client = |index| Client {
            tenant: tenant(index),
            id: SessionId(0),
            granted: 0,
            announced: 0,
        };
        let mut fleet = Self {
            now: 1,
            subjects: Subjects::new(&cluster),
            leader: Leader::new(LeaderConfig::new(cluster), LeaderId(1)),
            queues: (0..sessions).map(|_| None).collect(),
            gpus: (0..gpus).map(|_| Gpu::default()).collect(),
            clients: (0..sessions).map(client).collect(),
            actions: Vec::new(),
            sent: Vec::new(),
            prepared: Vec::new(),
            grants: 0,
            total: 0,
            turn: 0,
            first_id: None,
            bytes: 0,
        };
        fleet.begin(sessions);
        assert!(fleet.leader.epoch().is_some(), "nobody else would lead");
        fleet
    }

    /// Elects the leader and seals every GPU's worker.
    fn begin(&mut self, sessions: usize) {
        let tenants = (0..sessions).step_by(TENANT);
        let entries = (0..KERNELS).map(|key| (KernelKey(key), 20_000 + key * 2_000));
        let state = StateSnapshot {
            tenants: tenants
                .map(|index| (tenant(index), TenantSettings::default()))
                .collect(),
            profile: Profile::of(1, entries.collect()),
            ..StateSnapshot::default()
        };
        self.handle(Event::State(&state));
        self.handle(Event::Connected);
        self.handle(Event::LeaseRead {
            lease: None,
            revision: 0,
        });
        while self.leader.epoch().is_none() {
            self.now += 50_000_000;
            self.handle(Event::Timer);
            for action in std::mem::take(&mut self.actions) {
                match action {
                    Action::ReadLease => self.handle(Event::LeaseRead {
                        lease: None,
                        revision: 0,
                    }),
                    Action::WriteLease { .. } => self.handle(Event::LeaseWritten { revision: 1 }),
                    _ => {}
                }
            }
        }
        for gpu in 0..self.gpus.len() {
            let beat = encode(&beat(gpu));
            let subject = LeaderSubject::WorkerBeat(incarnation(gpu));
            self.message(&subject, None, &beat);
            let bytes = encode(&SealReply {
                v: WIRE_VERSION,
                sealed: Some(answer(gpu, Vec::new(), CAPACITY)),
                refused: None,
                page: None,
            });
            self.handle(Event::SealReply {
                incarnation: incarnation(gpu),
                bytes: &bytes,
            });
        }
        // The record of that is acknowledged, as all of it will be.
        self.deliver();
        self.take();
        self.deliver();
    }

    /// Opens the sessions; each is answered and none has work.
    pub fn open(&mut self) {
        for index in 0..self.clients.len() {
            let request = encode(&OpenRequest {
                v: WIRE_VERSION,
                nonce: index as u64 + 1,
                connection: format!("client-{index:016x}"),
                devices: 1,
            });
            let tenant = self.clients[index].tenant.clone();
            let reply = format!("{}.{index}", self.subjects.tenant_inbox(&tenant));
            let subject = LeaderSubject::Tenant(tenant, ToLeader::Open);
            self.message(&subject, Some(&reply), &request);
            self.deliver();
            self.take();
        }
        // Every GPU accepts and completes its grants; the rest is reported back.
        for _ in 0..3 {
            for gpu in 0..self.gpus.len() {
                self.report(gpu);
                self.deliver();
                self.take();
            }
        }
        self.deliver();
        (self.actions, self.sent, self.prepared) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// Gives every session work.
    ///
    /// # Panics
    /// If the leader leads no more: a mistake of this model.
    pub fn begin_work(&mut self) {
        // One after the other: with all together, the record would not be acknowledged soon enough.
        for index in 0..self.clients.len() {
            self.announce(index);
            self.deliver();
            self.take();
        }
        assert!(self.leader.epoch().is_some(), "nobody else would lead");
    }

    /// Prepares the next messages of the next GPU and of the clients.
    pub fn prepare(&mut self) {
        for index in self.take() {
            self.announce(index);
        }
        self.report(self.turn);
        self.turn = (self.turn + 1) % self.gpus.len();
        self.now += Self::PERIOD.as_nanos() as u64 / self.gpus.len() as u64;
    }

    /// Delivers the prepared messages to the leader, and its actions to its queues. Returns the
    /// number of grants that were reported done.
    pub fn deliver(&mut self) -> usize {
        let mut prepared = std::mem::take(&mut self.prepared);
        for message in prepared.drain(..) {
            match message {
                Message::Bus(LeaderSubject::Tenant(_, ToLeader::Intent(session)), bytes) => {
                    self.intent(session, &bytes);
                }
                Message::Bus(subject, bytes) => self.message(&subject, None, &bytes),
                Message::Recorded { epoch, number } => {
                    self.handle(Event::Recorded { epoch, number })
                }
            }
        }
        self.prepared = prepared;
        if self.leader.next_wakeup().is_some_and(|due| due <= self.now) {
            self.handle(Event::Timer);
        }
        self.deliver_to_queues();
        std::mem::take(&mut self.grants)
    }

    /// Delivers the leader's actions to the queues; the rest is for others.
    fn deliver_to_queues(&mut self) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::QueueOpen(opening) => {
                    let (cluster, leader) = (self.subjects.cluster(), self.leader.id());
                    let mut queue = KernelQueue::new(cluster, leader, &opening);
                    queue.handle(self.now, QueueEvent::Timer, &mut Vec::new());
                    let index = self.index(opening.session);
                    self.queues[index] = Some(Box::new(queue));
                }
                Action::QueueProgress { session, progress } => {
                    let index = self.index(session);
                    if let Some(queue) = &mut self.queues[index] {
                        let progress = QueueEvent::Progress(progress);
                        queue.handle(self.now, progress, &mut Vec::new());
                    }
                }
                other => self.sent.push(other),
            }
        }
        self.actions = actions;
    }

    /// The client of a session: ids are given out consecutively, in the order of the requests.
    fn index(&mut self, session: SessionId) -> usize {
        (session.0 - *self.first_id.get_or_insert(session.0)) as usize
    }

    /// Number of grants reported done.
    #[must_use]
    pub fn grants(&self) -> u64 {
        self.total
    }

    /// Bytes of record that the leader has written.
    #[must_use]
    pub fn recorded_bytes(&self) -> u64 {
        self.bytes
    }

    fn handle(&mut self, event: Event<'_>) {
        self.leader.handle(self.now, event, &mut self.actions);
    }

    fn message(&mut self, subject: &LeaderSubject, reply: Option<&str>, bytes: &[u8]) {
        self.handle(Event::Message {
            subject,
            reply,
            bytes,
        });
    }

    fn intent(&mut self, session: SessionId, bytes: &[u8]) {
        let index = self.index(session);
        let Some(queue) = &mut self.queues[index] else {
            return;
        };
        let mut out = Vec::new();
        queue.handle(self.now, QueueEvent::Message(bytes), &mut out);
        for action in out {
            if let QueueAction::Ready { first, runs } = action {
                self.handle(Event::Intent {
                    session,
                    first,
                    runs,
                });
            }
        }
    }
}
