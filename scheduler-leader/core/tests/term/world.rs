//! Leader candidates, workers and one client on a bus, with a lease and a record.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use bus_schemas::subject::{Author, Subjects, ToClient, ToLeader};
use bus_schemas::{
    Alive, ClusterSettings, Column, CostClass, CostRun, GpuTail, Incarnation, Intent, KernelKey,
    LeaderId, LeaderNotice, Leave, OpenAnswer, OpenRequest, Opened, Tenant, TenantSettings,
    WIRE_VERSION, decode, encode,
};
use scheduler_leader_core::replay::{ReplayError, Replayed, replay};
use scheduler_leader_core::{
    Action, Event, LeaderConfig, LeaderNode, Lease, Profile, StateSnapshot, TermEnd,
};

pub(crate) use crate::worker::tenant;

use crate::worker::Worker;

pub(crate) const MS: u64 = 1_000_000;

/// The broker reports that a connection of this name, made by the cluster's own user, was closed.
pub(crate) fn closed(name: &str) -> Event<'_> {
    closed_by(name, &Author::Cluster)
}

/// The same for a connection with any login.
pub(crate) fn closed_by<'a>(name: &'a str, author: &'a Author) -> Event<'a> {
    Event::ConnectionClosed { name, author }
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) subjects: Subjects,
    pub(crate) nodes: Vec<Option<LeaderNode>>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) bus: VecDeque<(String, Option<String>, Vec<u8>)>,
    pub(crate) lease: Option<Lease>,
    pub(crate) revision: u64,
    /// True if the lease can be neither read nor written.
    pub(crate) stored_away: bool,
    /// Set while answers to writes of the lease come late; holds the writes under way.
    pub(crate) lease_late: Option<Vec<(usize, Lease, u64)>>,
    /// Appended blocks: epoch, number, bytes, time.
    pub(crate) blocks: Vec<(u64, u64, Vec<u8>, u64)>,
    pub(crate) acknowledge: bool,
    pub(crate) opened: Option<Opened>,
    pub(crate) queued: u64,
    pub(crate) submitted: u64,
    /// True if the last op announced at a time is a sync.
    pub(crate) syncs: bool,
    pub(crate) terms: Vec<(u64, TermEnd)>,
    pub(crate) ended: Option<LeaderNotice>,
    /// The state bucket: its first content, and the placement as leaders keep it.
    pub(crate) stored: StateSnapshot,
    /// A leader's last answer to an administrator.
    pub(crate) said: Option<Vec<u8>>,
    /// Profiles that leaders wrote.
    pub(crate) written: Vec<Profile>,
    /// Heartbeats that the tenant's clients heard.
    pub(crate) tenant_beats: u64,
    /// Answers to requests for several devices.
    pub(crate) answers: Vec<OpenAnswer>,
}

/// The announcement of this many ops.
pub(crate) fn launches(count: u32) -> CostRun {
    CostRun {
        key: KernelKey(1),
        bytes: 0,
        count,
        class: CostClass::Launch,
    }
}

impl World {
    pub(crate) fn new(nodes: u64, workers: u32) -> Self {
        Self::with(nodes, workers, |_| ())
    }

    pub(crate) fn with(nodes: u64, workers: u32, adjust: impl Fn(&mut LeaderConfig)) -> Self {
        Self::apart(1..=nodes, 0..workers, adjust)
    }

    /// A world with these leader ids and devices.
    pub(crate) fn apart(
        leaders: RangeInclusive<u64>,
        gpus: Range<u32>,
        adjust: impl Fn(&mut LeaderConfig),
    ) -> Self {
        let cluster: Tenant = "lab".parse().unwrap();
        let state = StateSnapshot {
            settings: ClusterSettings {
                learn: false,
                // The worker here knows only slices.
                standing: false,
                ..ClusterSettings::default()
            },
            tenants: vec![(tenant(), TenantSettings::default())],
            ..StateSnapshot::default()
        };
        let mut world = Self {
            now: MS,
            subjects: Subjects::new(&cluster),
            nodes: Vec::new(),
            workers: gpus.map(Worker::new).collect(),
            bus: VecDeque::new(),
            lease: None,
            revision: 0,
            stored_away: false,
            lease_late: None,
            blocks: Vec::new(),
            acknowledge: true,
            opened: None,
            queued: 0,
            submitted: 0,
            syncs: false,
            terms: Vec::new(),
            ended: None,
            stored: state.clone(),
            said: None,
            written: Vec::new(),
            tenant_beats: 0,
            answers: Vec::new(),
        };
        for id in leaders {
            let mut config = LeaderConfig::new(cluster.clone());
            adjust(&mut config);
            let node = LeaderNode::new(config, LeaderId(id));
            world.nodes.push(Some(node));
            let at = world.nodes.len() - 1;
            world.tell(at, Event::State(&state));
            world.tell(at, Event::Connected);
        }
        world
    }

    /// Changes the settings of the cluster, as all candidates read them.
    pub(crate) fn settings(&mut self, change: impl Fn(&mut ClusterSettings)) {
        change(&mut self.stored.settings);
        let state = self.stored.clone();
        for at in 0..self.nodes.len() {
            self.tell(at, Event::State(&state));
        }
    }

    pub(crate) fn tell(&mut self, at: usize, event: Event<'_>) {
        let mut actions = Vec::new();
        if let Some(node) = &mut self.nodes[at] {
            node.handle(self.now, event, &mut actions);
        }
        self.act(at, actions);
    }

    pub(crate) fn act(&mut self, at: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Publish {
                    subject,
                    reply,
                    bytes,
                } => {
                    let reply = reply.map(|reply| reply.to_string());
                    self.bus.push_back((subject.to_string(), reply, bytes));
                }
                Action::ReadLease | Action::WriteLease { .. } if self.stored_away => {
                    self.tell(at, Event::LeaseUnavailable);
                }
                Action::ReadLease => {
                    let (lease, revision) = (self.lease, self.revision);
                    self.tell(at, Event::LeaseRead { lease, revision });
                }
                Action::WriteLease { lease, expected } if self.lease_late.is_some() => {
                    let late = self.lease_late.iter_mut();
                    late.for_each(|late| late.push((at, lease, expected)));
                }
                Action::WriteLease { lease, expected } => {
                    if expected == self.revision {
                        self.revision += 1;
                        self.lease = Some(lease);
                        let revision = self.revision;
                        self.tell(at, Event::LeaseWritten { revision });
                    } else {
                        self.tell(at, Event::LeaseConflict);
                    }
                }
                Action::Append {
                    epoch,
                    number,
                    bytes,
                } => {
                    self.blocks.push((epoch, number, bytes, self.now));
                    if self.acknowledge {
                        self.tell(at, Event::Recorded { epoch, number });
                    }
                }
                Action::TermEnded { epoch, why } => self.terms.push((epoch, why)),
                Action::WritePlacement(placement) => self.stored.placement = placement,
                Action::WriteProfile { profile, .. } => self.written.push(profile),
                _ => {}
            }
        }
    }

    /// Carries out the late writes of the lease; answers come at once again.
    pub(crate) fn write_lease(&mut self) {
        for (at, lease, expected) in self.lease_late.take().unwrap_or_default() {
            self.act(at, vec![Action::WriteLease { lease, expected }]);
        }
    }

    pub(crate) fn leading(&self) -> Option<usize> {
        let leads = |node: &Option<LeaderNode>| {
            let node = node.as_ref();
            node.is_some_and(|node| node.leader().epoch().is_some())
        };
        self.nodes.iter().position(leads)
    }

    pub(crate) fn deliver(&mut self) {
        while !self.bus.is_empty() {
            self.exchange();
        }
    }

    /// Delivers all messages under way; the resulting ones are under way then.
    pub(crate) fn exchange(&mut self) {
        for (subject, reply, bytes) in std::mem::take(&mut self.bus) {
            self.tenant_beats += u64::from(subject == self.subjects.term(&tenant()));
            for at in 0..self.nodes.len() {
                let mut actions = Vec::new();
                if let Some(node) = &mut self.nodes[at] {
                    node.message(self.now, &subject, reply.as_deref(), &bytes, &mut actions);
                }
                self.act(at, actions);
            }
            for worker in &mut self.workers {
                let incarnation = worker.incarnation;
                if subject == self.subjects.seal(incarnation) {
                    let answer = worker.seal(&decode(&bytes).unwrap());
                    self.bus.push_back((reply.clone().unwrap(), None, answer));
                }
                if subject == self.subjects.leave(incarnation) {
                    let leave: Leave = decode(&bytes).unwrap();
                    let obeyed = (leave.epoch, leave.leader) == (worker.epoch, worker.leader);
                    worker.dismissed |= obeyed && !leave.noted && !leave.taken;
                    worker.refused |= leave.taken;
                    worker.noted |= obeyed && leave.noted;
                }
                if subject == self.subjects.quotas(incarnation) {
                    worker.lists.push(decode(&bytes).unwrap());
                }
                if subject == self.subjects.grants(incarnation)
                    && let Some(refusal) = worker.order(&decode(&bytes).unwrap())
                {
                    let subject = self.subjects.refusal(incarnation);
                    self.bus.push_back((subject, None, encode(&refusal)));
                }
            }
            self.client(&subject, &bytes);
        }
    }

    /// Handles a message to the client.
    pub(crate) fn client(&mut self, subject: &str, bytes: &[u8]) {
        if subject == "asked.drain" || subject.ends_with(".dn.inbox.named") {
            self.said = Some(bytes.to_vec());
        }
        if subject.ends_with(".dn.inbox.devices") {
            self.answers.push(decode(bytes).unwrap());
        }
        if subject.ends_with(".dn.inbox.open") {
            let answer: OpenAnswer = decode(bytes).unwrap();
            self.opened = Some(answer.opened.expect("opened"));
        }
        if let Some(opened) = &self.opened
            && subject
                == self
                    .subjects
                    .to_client(&tenant(), opened.session, ToClient::Leader)
        {
            let notice: LeaderNotice = decode(bytes).unwrap();
            self.queued = notice.queued;
            if notice.ended.is_some() {
                self.ended = Some(notice);
            }
        }
    }

    pub(crate) fn open(&mut self) {
        let request = OpenRequest {
            v: WIRE_VERSION,
            nonce: 7,
            connection: "client-1".into(),
            devices: 1,
        };
        let reply = format!("{}.open", self.subjects.tenant_inbox(&tenant()));
        let subject = self.subjects.to_leader(&tenant(), ToLeader::Open);
        self.bus.push_back((subject, Some(reply), encode(&request)));
    }

    /// The client submits this many launches; the worker has them at once.
    pub(crate) fn submit(&mut self, ops: u64) {
        self.submitted += ops;
        let opened = self.opened.clone().unwrap();
        for worker in &mut self.workers {
            if let Some(session) = worker.sessions.get_mut(&opened.session) {
                session.received = self.submitted;
            }
        }
        self.announce();
    }

    /// Announces the ops that the leader does not have.
    pub(crate) fn announce(&mut self) {
        let Some(opened) = self.opened.clone() else {
            return;
        };
        let count = (self.submitted - self.queued).min(1024) as u32;
        if count == 0 {
            return;
        }
        let mut runs = vec![launches(count)];
        if self.syncs && count > 1 {
            runs[0].count -= 1;
            runs.push(CostRun {
                class: CostClass::Sync,
                ..launches(1)
            });
        }
        let mut packed = Vec::new();
        let intent = Intent {
            v: WIRE_VERSION,
            first: self.queued + 1,
            count,
            runs: Column::pack(&runs, &mut packed),
        };
        let what = ToLeader::Intent(opened.session);
        let subject = self.subjects.to_leader(&tenant(), what);
        self.bus.push_back((subject, None, encode(&intent)));
    }

    /// The client reports that its session lives, and its worker.
    pub(crate) fn alive(&mut self) {
        let opened = self.opened.clone().expect("a session");
        let alive = Alive::of("client-1", [&opened]);
        let subject = self.subjects.to_leader(&tenant(), ToLeader::Alive);
        self.bus.push_back((subject, None, encode(&alive)));
    }

    /// Lets this many milliseconds pass.
    pub(crate) fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.wake();
            self.go_on();
        }
    }

    /// Lets a millisecond pass; the leaders' resulting messages are under way then.
    pub(crate) fn wake(&mut self) {
        self.now += MS;
        self.deliver();
        for at in 0..self.nodes.len() {
            let due = self.nodes[at].as_ref().and_then(LeaderNode::next_wakeup);
            if due.is_some_and(|due| due <= self.now) {
                self.tell(at, Event::Timer);
            }
        }
    }

    /// Delivers all messages under way, and lets clients and workers do their part.
    pub(crate) fn go_on(&mut self) {
        self.deliver();
        if self.now.is_multiple_of(5 * MS) {
            self.announce();
        }
        for index in 0..self.workers.len() {
            let worker = &mut self.workers[index];
            worker.run();
            let subject = self.subjects.done(worker.incarnation);
            let done = worker.done(self.now);
            if self.now.is_multiple_of(100 * MS) {
                let beat = encode(&worker.beat());
                let subject = self.subjects.worker_beat(worker.incarnation);
                self.bus.push_back((subject, None, beat));
            }
            self.bus.push_back((subject, None, done));
        }
        self.deliver();
    }

    /// Ends the leader's process, and drops its blocks younger than `lost`.
    pub(crate) fn kill_leader(&mut self, lost: u64) {
        let at = self.leading().expect("a leader");
        let id = self.nodes[at].as_ref().unwrap().leader().id();
        self.nodes[at] = None;
        let since = self.now.saturating_sub(lost);
        self.blocks.retain(|(_, _, _, when)| *when <= since);
        let name = format!("leader-{id}");
        for at in 0..self.nodes.len() {
            self.tell(at, closed(&name));
        }
    }

    pub(crate) fn finals(&self) -> Vec<(Incarnation, GpuTail)> {
        let finals = self.workers.iter().map(|worker| {
            let tail = GpuTail {
                gpu: worker.gpu,
                position: worker.position,
                chain: worker.chain,
            };
            (worker.incarnation, tail)
        });
        finals.collect()
    }

    /// Waits for a leader and lets it open a session.
    pub(crate) fn begin(&mut self) {
        self.pass(250);
        self.open();
        self.pass(20);
        assert!(self.opened.is_some(), "an open request is answered");
    }

    /// The record in the form for replay.
    pub(crate) fn record(&self) -> Vec<(u64, u64, Vec<u8>)> {
        let blocks = self.blocks.iter();
        blocks
            .map(|(epoch, number, bytes, _)| (*epoch, *number, bytes.clone()))
            .collect()
    }

    pub(crate) fn replay(&self) -> Result<Replayed, ReplayError> {
        replay(&self.record(), &self.finals())
    }

    /// Checks that all submitted ops ran once, in order.
    pub(crate) fn check(&self) {
        let session = self.opened.as_ref().unwrap().session;
        let mut next = 1;
        for worker in &self.workers {
            for (of, first, last) in &worker.started {
                assert_eq!((*of, *first), (session, next), "once, in order");
                next = last + 1;
            }
        }
        assert_eq!(next, self.submitted + 1, "all of them");
        let digest: Vec<_> = self.finals().iter().map(|(_, tail)| *tail).collect();
        let replayed = self.replay().unwrap();
        assert_eq!(replayed.digest, bus_schemas::digest(&digest));
        assert_eq!((replayed.skipped, replayed.gaps), (0, 0));
        let positions: u64 = digest.iter().map(|tail| tail.position).sum();
        assert_eq!(replayed.positions.len() as u64, positions);
    }
}

pub(crate) fn opened(nodes: u64) -> World {
    let mut world = World::new(nodes, 2);
    world.begin();
    world
}
