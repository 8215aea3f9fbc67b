//! The cluster: nodes, network and store on one agenda.

mod mishaps;
mod ways;

use std::collections::VecDeque;
use std::rc::Rc;

use crate::coverage::Coverage;
use crate::device::{fingerprint, mix};
use crate::faults::Mishap;
use crate::hardship::Hardship;
use crate::moments::Moments;
use crate::network::{Network, NodeId, Packet};
use crate::node::{Effect, Input, Io, Node};
use crate::observer::Observer;
use crate::store::{Store, StoreReply, StoreRequest};
use crate::trace::Trace;
use sim_time::Random;
use sim_time::{Agenda, MICRO, MILLI, Nanos, SECOND};

/// Key of the lease.
pub(crate) const LEASE: &str = "leader";
/// Key of the placement.
pub(crate) const PLACEMENT: &str = "placement";
/// Key of the profile that was learned.
pub(crate) const PROFILE: &str = "profile";
/// How long a lease lives.
pub(crate) const LEASE_TTL: Nanos = 2 * SECOND;

/// What a node is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    /// A leader candidate.
    Leader,
    /// A worker.
    Worker,
    /// A client process.
    Client,
    /// An administrator.
    Administrator,
}

/// Makes the process of a role: (role, its number in the role, life, chance).
pub(crate) type Factory = Box<dyn FnMut(Role, u32, u32, Random) -> Box<dyn Node>>;

/// One place for a process.
pub(crate) struct Slot {
    pub(crate) role: Role,
    pub(crate) number: u32,
    pub(crate) node: Option<Box<dyn Node>>,
    pub(crate) life: u32,
    pub(crate) paused: bool,
    pub(crate) name: Option<Rc<str>>,
    wake: Option<Nanos>,
    held: VecDeque<Input>,
    // What it published while its connection was away; sent once it is back, as NATS clients do.
    buffer: Vec<(Packet, bool)>,
    // Chance of its own: what happens to one does not depend on how much happens to another.
    random: Random,
    mishap: Option<(Mishap, Nanos)>,
    stalled: Nanos,
    storeless: Nanos,
    // When it hears of the last placement that was written.
    watched: Nanos,
}

/// What happens at a time.
#[derive(Debug)]
pub(crate) enum Event {
    Deliver {
        to: NodeId,
        connection: u32,
        packet: Packet,
    },
    Tell {
        node: NodeId,
        life: u32,
        input: Input,
    },
    Wake {
        node: NodeId,
        life: u32,
    },
    Store {
        node: NodeId,
        life: u32,
        token: u64,
        request: StoreRequest,
    },
    // The lease was deleted, or may just have expired.
    LeaseChanged,
    Fault(usize),
    Undo(Undo),
}

/// The end of a fault.
#[derive(Debug, Clone)]
pub(crate) enum Undo {
    Unblock(Vec<(NodeId, NodeId)>),
    Resume(NodeId),
    Start(NodeId),
    Restore(NodeId),
    BrokerBack,
    StoreBack,
    /// The weather is fair from now on.
    Clear,
}

/// Everything there is.
pub(crate) struct Cluster {
    pub(crate) now: Nanos,
    pub(crate) agenda: Agenda<Event>,
    pub(crate) network: Network,
    pub(crate) store: Store,
    pub(crate) store_up: bool,
    /// What keeps the store from taking what it is given.
    pub(crate) hardship: Hardship,
    pub(crate) slots: Vec<Slot>,
    pub(crate) observer: Observer,
    pub(crate) trace: Trace,
    pub(crate) steps: u64,
    /// Which faults met which states.
    pub(crate) coverage: Coverage,
    /// Moments at which something happened to a node, if they are noted.
    pub(crate) moments: Option<Moments>,
    /// Fingerprint of the event handled last.
    pub(crate) digest: u64,
    seed: u64,
    factory: Factory,
}

/// What tells one place's chance from another's.
fn key(role: Role, number: u32) -> u64 {
    (role as u64 + 1) << 16 | u64::from(number)
}

impl Cluster {
    /// A cluster with no process started yet.
    #[must_use]
    pub(crate) fn new(seed: u64, observer: Observer, trace: Trace, factory: Factory) -> Self {
        Self {
            now: 0,
            agenda: Agenda::default(),
            network: Network::new(seed),
            store: Store::default(),
            store_up: true,
            hardship: Hardship::default(),
            slots: Vec::new(),
            observer,
            trace,
            steps: 0,
            coverage: Coverage::default(),
            moments: None,
            digest: 0,
            seed,
            factory,
        }
    }

    /// Adds a place for a process, to be started at a time.
    pub(crate) fn add(&mut self, role: Role, number: u32, start: Nanos) -> NodeId {
        let id = NodeId(self.slots.len());
        let key = key(role, number);
        self.network.know(id, key);
        self.slots.push(Slot {
            role,
            number,
            node: None,
            life: 0,
            paused: false,
            name: None,
            wake: None,
            held: VecDeque::new(),
            buffer: Vec::new(),
            random: Random::of(self.seed, key),
            mishap: None,
            stalled: 0,
            storeless: 0,
            watched: 0,
        });
        self.agenda.enter(start, Event::Undo(Undo::Start(id)));
        id
    }

    /// Does the next thing. `None` once nothing is left to do.
    pub(crate) fn step(&mut self) -> Option<Event> {
        let (at, event) = self.agenda.pop()?;
        self.now = self.now.max(at);
        self.steps += 1;
        self.digest = digest(at, &event);
        match event {
            Event::Deliver {
                to,
                connection,
                packet,
            } => {
                if self.network.connection(to) == connection && self.network.connected(to) {
                    self.deliver(to, connection, packet);
                }
            }
            Event::Tell { node, life, input } => {
                if self.slots[node.0].life == life {
                    self.inform(node, life, input);
                }
            }
            Event::Wake { node, life } => self.wake(node, life),
            Event::Store {
                node,
                life,
                token,
                request,
            } => self.ask_store(node, life, token, request),
            Event::LeaseChanged => {
                if self.store_up && self.network.broker_up() {
                    self.tell_lease();
                }
            }
            other => return Some(other),
        }
        None
    }

    /// Hands a node an input, now or once it is no longer paused.
    pub(crate) fn tell(&mut self, id: NodeId, input: Input) {
        let slot = &mut self.slots[id.0];
        if slot.node.is_none() {
            return;
        }
        if slot.paused {
            slot.held.push_back(input);
            return;
        }
        self.run(id, input);
    }

    fn run(&mut self, id: NodeId, input: Input) {
        if let Input::Message(packet) = &input {
            self.observer.delivered(self.now, id, packet);
        }
        let slot = &mut self.slots[id.0];
        let Some(node) = slot.node.as_mut() else {
            return;
        };
        if let Some(moments) = &mut self.moments
            && slot.role != Role::Administrator
        {
            moments.note(self.now, (slot.role, slot.number), node.state(), &input);
        }
        let mut io = Io::new(self.now, slot.wake);
        node.handle(&mut io, input);
        if let Some(name) = io.name {
            slot.name = Some(name);
        }
        self.set_wake(id, io.wake);
        for effect in io.effects {
            self.carry_out(id, effect);
        }
    }

    fn set_wake(&mut self, id: NodeId, wake: Option<Nanos>) {
        let slot = &mut self.slots[id.0];
        if slot.wake == wake {
            return;
        }
        slot.wake = wake;
        if let Some(at) = wake {
            let life = slot.life;
            // A timer never fires early and mostly a little late.
            let late = slot.random.between(0, 200 * MICRO);
            self.agenda
                .enter(at.max(self.now) + late, Event::Wake { node: id, life });
        }
    }

    fn wake(&mut self, id: NodeId, life: u32) {
        let slot = &mut self.slots[id.0];
        let due = slot.wake.is_some_and(|at| at <= self.now);
        if slot.life != life || !due || slot.node.is_none() {
            return;
        }
        if self.now < slot.stalled {
            let at = slot.stalled;
            return self.agenda.enter(at, Event::Wake { node: id, life });
        }
        slot.wake = None;
        self.tell(id, Input::Wake);
    }

    fn carry_out(&mut self, id: NodeId, effect: Effect) {
        let life = self.slots[id.0].life;
        match effect {
            Effect::Publish {
                subject,
                reply,
                bytes,
            } => {
                let packet = Packet {
                    subject: subject.into(),
                    reply: reply.map(Into::into),
                    bytes: bytes.into(),
                    from: id,
                };
                self.trace.published(self.now, id, &packet);
                self.observer.published(self.now, id, &packet);
                self.publish(id, packet);
            }
            Effect::Subscribe(pattern) => self.network.subscribe(id, pattern),
            Effect::Store(token, request) => {
                let random = &mut self.slots[id.0].random;
                let way = random.between(60 * MICRO, 500 * MICRO);
                let at = self.now + way + self.hardship.delay(self.now, &request);
                let event = Event::Store {
                    node: id,
                    life,
                    token,
                    request,
                };
                self.agenda.enter(at, event);
            }
            Effect::Later(at, token) => {
                let input = Input::Later(token);
                let event = Event::Tell {
                    node: id,
                    life,
                    input,
                };
                self.agenda.enter(at.max(self.now), event);
            }
            Effect::Fact(fact) => {
                self.trace.fact(self.now, id, &fact);
                self.observer.fact(self.now, id, fact);
            }
            Effect::Exit { again, told } => {
                self.trace.note(self.now, || format!("{id:?} ends itself"));
                self.kill(id, told);
                if again {
                    let wait = self.slots[id.0].random.between(5, 200) * MILLI;
                    let at = self.now + wait;
                    self.agenda.enter(at, Event::Undo(Undo::Start(id)));
                }
            }
        }
    }

    /// Starts a process in its place.
    pub(crate) fn start(&mut self, id: NodeId) {
        let slot = &mut self.slots[id.0];
        if slot.node.is_some() {
            return;
        }
        slot.life += 1;
        slot.wake = None;
        slot.paused = false;
        slot.stalled = 0;
        slot.held.clear();
        slot.buffer.clear();
        let purpose = u64::from(slot.life) << 32 | key(slot.role, slot.number);
        let random = Random::of(self.seed, purpose);
        slot.node = Some((self.factory)(slot.role, slot.number, slot.life, random));
        self.trace.note(self.now, || format!("{id:?} starts"));
        self.tell(id, Input::Started);
    }
}

/// What tells one event from another, for comparing two histories.
fn digest(at: Nanos, event: &Event) -> u64 {
    let what = match event {
        Event::Deliver { to, packet, .. } => {
            mix(fingerprint(&packet.bytes) ^ mix(to.0 as u64))
                ^ fingerprint(packet.subject.as_bytes())
        }
        Event::Tell { node, .. } => 1 << 8 | node.0 as u64,
        Event::Wake { node, .. } => 2 << 8 | node.0 as u64,
        Event::Store { node, .. } => 3 << 8 | node.0 as u64,
        Event::LeaseChanged => 4 << 8,
        Event::Fault(index) => 5 << 8 | *index as u64,
        Event::Undo(_) => 6 << 8,
    };
    mix(at ^ mix(what))
}
