//! A leader candidate: the real leader with its queues, and the thin shell around it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bus_schemas::subject::{Author, ConnectionName, HearsTenants, Subjects};
use bus_schemas::{ClusterSettings, Epoch, LeaderId, Tenant, TenantSettings};
use scheduler_leader_core::{
    Action, Event, LeaderConfig, LeaderNode as Core, Lease, Placement, Profile, StateSnapshot,
    TermEnd,
};

use crate::fact::LeaderFact;
use crate::node::{Io, Node, NodeInput};
use crate::store::{LEASE, LEASE_TTL, PLACEMENT, PROFILE, StoreReply, StoreRequest};
use crate::wire;
use crate::{MILLI, Nanos};

const READ_LEASE: u64 = 0;
const WRITE_LEASE: u64 = 1;
const READ_PLACEMENT: u64 = 2;
const READ_PROFILE: u64 = 3;
const WRITE_PLACEMENT: u64 = 4;
const WRITE_PROFILE: u64 = 5;
const PUT_BACK: u64 = 6;
// First token of appends. An answer to an abandoned append is not mistaken for another's.
const APPEND: u64 = 1 << 32;
const POLL: u64 = 0;
const AGAIN: u64 = 1;
const WRITE_AGAIN: u64 = 2;
/// Time before a write of the state is retried.
const PAUSE: Nanos = 250 * MILLI;
const POLL_EVERY: Nanos = 200 * MILLI;

/// One start of a leader candidate.
pub struct LeaderProcess {
    subjects: Subjects,
    id: LeaderId,
    core: Core,
    state: StateSnapshot,
    placement_read: bool,
    profile_read: bool,
    appends: VecDeque<(Epoch, u64, Vec<u8>)>,
    asked: u64,
    appending: Option<u64>,
    connected: bool,
    campaigning: bool,
    deposed: bool,
    leaving: bool,
    // The latest write of each piece of state, by its token; it is retried until it succeeds.
    unwritten: BTreeMap<u64, StoreRequest>,
    // Last known content of the bucket, in case the bucket has to be created again.
    known: BTreeMap<&'static str, Vec<u8>>,
    // Subjects of seals' answers that are still pending.
    sealing: BTreeSet<String>,
    /// Tenants' messages that it subscribes to; `None` before the first subscription.
    hears: Option<HearsTenants>,
}

impl LeaderProcess {
    /// Makes a candidate that is about to start.
    #[must_use]
    pub fn new(
        config: LeaderConfig,
        id: LeaderId,
        settings: ClusterSettings,
        tenants: Vec<(Tenant, TenantSettings)>,
    ) -> Self {
        Self {
            subjects: Subjects::new(&config.cluster),
            id,
            core: Core::new(config, id),
            state: StateSnapshot {
                settings,
                tenants,
                profile: Profile::default(),
                pinned: None,
                placement: Placement::default(),
            },
            placement_read: false,
            profile_read: false,
            appends: VecDeque::new(),
            asked: 0,
            appending: None,
            connected: true,
            campaigning: false,
            deposed: false,
            leaving: false,
            unwritten: BTreeMap::new(),
            known: BTreeMap::new(),
            sealing: BTreeSet::new(),
            hears: None,
        }
    }

    fn start(&mut self, io: &mut Io) {
        for pattern in self.core.subscriptions() {
            io.subscribe(pattern);
        }
        io.connect(ConnectionName::Leader(self.id).to_string(), Author::Cluster);
        self.event(io, Event::Connected);
        self.poll(io);
    }

    fn poll(&mut self, io: &mut Io) {
        for (token, key) in [(READ_PLACEMENT, PLACEMENT), (READ_PROFILE, PROFILE)] {
            io.store(token, StoreRequest::Get { key });
        }
        io.later(io.now + POLL_EVERY, POLL);
    }

    fn event(&mut self, io: &mut Io, event: Event<'_>) {
        let mut actions = Vec::new();
        self.core.handle(io.now, event, &mut actions);
        self.carry_out(io, actions);
    }

    fn carry_out(&mut self, io: &mut Io, actions: Vec<Action>) {
        for action in actions {
            self.act(io, action);
        }
        self.hear(io);
        io.wake = self.core.next_wakeup();
    }

    /// Subscribes to the tenants' messages that the core hears now.
    fn hear(&mut self, io: &mut Io) {
        let hears = Some(self.core.hears_tenants());
        if hears != self.hears {
            let subject = |role| self.subjects.from_tenants(role, None);
            if let Some(role) = hears {
                io.subscribe(subject(role));
            }
            if let Some(role) = self.hears {
                io.unsubscribe(subject(role));
            }
            self.hears = hears;
        }
    }

    fn act(&mut self, io: &mut Io, action: Action) {
        match action {
            Action::Publish {
                subject,
                reply,
                bytes,
            } => match reply {
                Some(reply) => {
                    self.sealing.insert(reply.to_string());
                    io.request(subject.to_string(), reply.to_string(), bytes);
                }
                None => io.publish(subject.to_string(), bytes),
            },
            Action::ReadLease => io.store(READ_LEASE, StoreRequest::Get { key: LEASE }),
            Action::WriteLease { lease, expected } => {
                self.campaigning = true;
                let request = StoreRequest::Swap {
                    key: LEASE,
                    expected,
                    value: wire::pack(&lease),
                    ttl: Some(LEASE_TTL),
                };
                io.store(WRITE_LEASE, request);
            }
            Action::Append {
                epoch,
                number,
                bytes,
            } => {
                io.fact(LeaderFact::Cut {
                    epoch,
                    number,
                    bytes: bytes.len() as u64,
                    gap: wire::names_gap(&bytes),
                });
                self.appends.push_back((epoch, number, bytes));
                self.append(io);
            }
            Action::WritePlacement(placement) => {
                let request = StoreRequest::PutFenced {
                    key: PLACEMENT,
                    epoch: placement.epoch,
                    value: wire::pack(&placement),
                };
                self.write(io, WRITE_PLACEMENT, request);
            }
            Action::WriteProfile { epoch, profile } => {
                let request = StoreRequest::PutFenced {
                    key: PROFILE,
                    epoch,
                    value: wire::pack(&profile),
                };
                self.write(io, WRITE_PROFILE, request);
            }
            Action::TermEnded { why, .. } => {
                self.sealing.clear();
                if why != TermEnd::Renewed {
                    self.deposed = true;
                    self.appends.clear();
                    self.appending = None;
                }
            }
            Action::Left => io.exit(),
            Action::TermBegan { .. }
            | Action::QueueOpen { .. }
            | Action::QueueIntent { .. }
            | Action::QueueProgress { .. }
            | Action::QueueEnd { .. } => {}
        }
    }

    /// Writes a piece of the state. The latest write of each is retried until it succeeds.
    fn write(&mut self, io: &mut Io, token: u64, request: StoreRequest) {
        self.unwritten.insert(token, request.clone());
        io.store(token, request);
    }

    fn written(&mut self, io: &mut Io, token: u64, reply: &StoreReply) {
        match reply {
            StoreReply::Away | StoreReply::Refused => io.later(io.now + PAUSE, WRITE_AGAIN),
            _ => drop(self.unwritten.remove(&token)),
        }
    }

    /// Takes a read entry of the state. Returns the value to use. If the bucket was deleted, its known
    /// content is put back and used.
    fn read(&mut self, io: &mut Io, key: &'static str, reply: StoreReply) -> Option<Vec<u8>> {
        match reply {
            StoreReply::Entry { value, .. } => {
                let value = value.unwrap_or_default();
                self.known.insert(key, value.clone());
                Some(value)
            }
            StoreReply::Anew => {
                let value = self.known.get(key).cloned().unwrap_or_default();
                if !value.is_empty() {
                    let placement: Option<Placement> = wire::unpack(&value);
                    let request = StoreRequest::PutBack {
                        key,
                        epoch: placement.map_or(0, |placement| placement.epoch),
                        value: value.clone(),
                    };
                    io.store(PUT_BACK, request);
                }
                Some(value)
            }
            _ => None,
        }
    }

    /// Appends the first block; appends are made in order, one at a time.
    fn append(&mut self, io: &mut Io) {
        if self.appending.is_some() {
            return;
        }
        let Some((epoch, number, bytes)) = self.appends.front() else {
            return;
        };
        self.asked += 1;
        self.appending = Some(self.asked);
        let request = StoreRequest::Append {
            subject: self.subjects.record(*epoch),
            id: format!("{epoch}.{}.{number}", self.id),
            bytes: bytes.clone(),
        };
        io.store(APPEND + self.asked, request);
    }

    fn stored(&mut self, io: &mut Io, token: u64, reply: StoreReply) {
        match token {
            READ_LEASE => self.lease(io, reply),
            WRITE_LEASE => {
                self.campaigning = false;
                match reply {
                    StoreReply::Written(revision) => {
                        self.event(io, Event::LeaseWritten { revision });
                    }
                    StoreReply::Conflict => self.event(io, Event::LeaseConflict),
                    _ => self.event(io, Event::LeaseUnavailable),
                }
            }
            WRITE_PLACEMENT | WRITE_PROFILE => self.written(io, token, &reply),
            READ_PLACEMENT => {
                if let Some(value) = self.read(io, PLACEMENT, reply) {
                    self.state.placement = wire::unpack(&value).unwrap_or_default();
                    self.placement_read = true;
                    self.tell_state(io);
                }
            }
            READ_PROFILE => {
                if let Some(value) = self.read(io, PROFILE, reply) {
                    self.state.profile = wire::unpack(&value).unwrap_or_default();
                    self.profile_read = true;
                    self.tell_state(io);
                }
            }
            token if Some(token.wrapping_sub(APPEND)) == self.appending => {
                self.appending = None;
                if matches!(reply, StoreReply::Away | StoreReply::Refused) {
                    io.later(io.now + 50 * MILLI, AGAIN);
                } else if let Some((epoch, number, _)) = self.appends.pop_front() {
                    io.fact(LeaderFact::Recorded { epoch, number });
                    self.event(io, Event::Recorded { epoch, number });
                    self.append(io);
                }
            }
            _ => {}
        }
    }

    fn lease(&mut self, io: &mut Io, reply: StoreReply) {
        match reply {
            StoreReply::Entry { revision, value } => {
                let lease: Option<Lease> = value.as_deref().and_then(wire::unpack);
                self.event(io, Event::LeaseRead { lease, revision });
            }
            _ => self.event(io, Event::LeaseUnavailable),
        }
    }

    fn tell_state(&mut self, io: &mut Io) {
        if self.placement_read && self.profile_read {
            let state = self.state.clone();
            self.event(io, Event::State(&state));
        }
    }
}

impl Node for LeaderProcess {
    fn handle(&mut self, io: &mut Io, input: NodeInput) {
        match input {
            NodeInput::Started => self.start(io),
            NodeInput::Message(packet) => {
                self.sealing.remove(&*packet.subject);
                let mut actions = Vec::new();
                let reply = packet.reply.as_deref();
                self.core
                    .message(io.now, &packet.subject, reply, &packet.bytes, &mut actions);
                self.carry_out(io, actions);
            }
            NodeInput::Wake => self.event(io, Event::Timer),
            NodeInput::Later(POLL) => self.poll(io),
            NodeInput::Later(WRITE_AGAIN) => {
                for (token, request) in &self.unwritten {
                    io.store(*token, request.clone());
                }
            }
            NodeInput::Later(_) => self.append(io),
            NodeInput::Connection(true) => {
                self.connected = true;
                self.event(io, Event::Connected);
            }
            NodeInput::Connection(false) => {
                self.connected = false;
                self.event(io, Event::Disconnected);
            }
            NodeInput::Closed(closed) => {
                let (name, author) = (closed.name.as_str(), &closed.author);
                self.event(io, Event::ConnectionClosed { name, author });
            }
            NodeInput::Store(token, reply) => self.stored(io, token, reply),
            NodeInput::Lease(reply) => self.lease(io, reply),
            NodeInput::Placement(reply) => self.stored(io, READ_PLACEMENT, reply),
            NodeInput::Terminate => {
                self.leaving = true;
                self.event(io, Event::Leave);
            }
        }
    }

    fn state(&self) -> &'static str {
        match self.core.leader().epoch() {
            _ if self.leaving => "leaving",
            Some(_) if !self.connected => "cut off",
            Some(_) if !self.sealing.is_empty() => "sealing",
            Some(_) => "leading",
            None if self.campaigning => "campaigning",
            None if self.deposed => "deposed",
            None => "candidate",
        }
    }
}
