//! The cluster: nodes, network and store on one agenda.

mod mishaps;
mod ways;

use crate::network::{Network, NodeId, Packet, Ways};
use crate::node::{Io, Node, NodeEffect, NodeInput, NodeRole, Slot};
use crate::observer::ClusterObserver;
use crate::print::{fingerprint, mix};
use crate::slowness::Slowness;
use crate::store::{Store, StoreRequest};
use crate::store_faults::StoreFaults;
use crate::{Agenda, MILLI, Nanos, Random};

/// Makes the process of a role, from the role, its number in the role, its life, and its random source.
pub type Factory = Box<dyn FnMut(NodeRole, u32, u32, Random) -> Box<dyn Node>>;

/// Delays other than those of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// Maximum delay of a timer. A timer is never early.
    pub timers: Nanos,
    /// Delay of a request to the store, or of its answer: minimum and maximum.
    pub store: (Nanos, Nanos),
}

/// Everything that decides a cluster beside its processes.
#[derive(Debug)]
pub struct ClusterOptions {
    /// Seed of everything that is left to chance.
    pub seed: u64,
    /// Behaviour of messages on the links.
    pub ways: Ways,
    /// All other delays.
    pub delays: Delays,
}

/// An event at a time.
#[derive(Debug)]
enum Event {
    Deliver {
        to: NodeId,
        connection: u32,
        packet: Packet,
    },
    Tell {
        node: NodeId,
        life: u32,
        input: NodeInput,
    },
    Wake {
        node: NodeId,
        life: u32,
    },
    // A slow node handles an earlier input.
    Handle {
        node: NodeId,
        life: u32,
        input: NodeInput,
    },
    Store {
        node: NodeId,
        life: u32,
        token: u64,
        request: StoreRequest,
    },
    // The lease was deleted, or may just have expired.
    LeaseChanged,
    // An event that the cluster's user has scheduled, by its number.
    Scheduled(usize),
    Undo(Undo),
}

/// The end of a fault.
#[derive(Debug, Clone)]
pub enum Undo {
    /// These links work again.
    Unblock(Vec<(NodeId, NodeId)>),
    /// A node gets the events that were held back.
    Resume(NodeId),
    /// A process starts.
    Start(NodeId),
    /// A node's connection is back.
    Restore(NodeId),
    /// The broker is back.
    BrokerBack,
    /// The store answers again.
    StoreBack,
    /// Links are fair from now on.
    Clear,
}

/// The whole cluster.
pub struct Cluster<W> {
    /// Virtual time.
    pub now: Nanos,
    agenda: Agenda<Event>,
    /// The bus.
    pub network: Network,
    /// The stored data of the broker.
    pub store: Store,
    /// True if the store answers.
    pub store_up: bool,
    /// Faults of the store.
    pub store_faults: StoreFaults,
    /// All slots for processes.
    pub slots: Vec<Slot>,
    /// The observer.
    pub observer: W,
    /// Number of events so far.
    pub steps: u64,
    /// Fingerprint of the last handled event.
    pub digest: u64,
    seed: u64,
    delays: Delays,
    factory: Factory,
}

/// Purpose of the random source of slow nodes.
const SLOW: u64 = 0x0000_736c_6f77_2121;

/// Key that distinguishes one slot's random source from another's.
fn key(role: NodeRole, number: u32) -> u64 {
    (role as u64 + 1) << 16 | u64::from(number)
}

impl<W: ClusterObserver> Cluster<W> {
    /// Makes a cluster without started processes.
    #[must_use]
    pub fn new(settings: ClusterOptions, observer: W, factory: Factory) -> Self {
        let ClusterOptions { seed, ways, delays } = settings;
        Self {
            now: 0,
            agenda: Agenda::default(),
            network: Network::new(seed, ways),
            store: Store::default(),
            store_up: true,
            store_faults: StoreFaults::default(),
            slots: Vec::new(),
            observer,
            steps: 0,
            digest: 0,
            seed,
            delays,
            factory,
        }
    }

    /// Schedules a number, which [`Cluster::step`] returns at its time.
    pub fn schedule(&mut self, at: Nanos, number: usize) {
        self.agenda.enter(at, Event::Scheduled(number));
    }

    /// Schedules the end of a fault.
    pub fn schedule_undo(&mut self, at: Nanos, undo: Undo) {
        self.agenda.enter(at, Event::Undo(undo));
    }

    /// Time of the next event.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        self.agenda.next_at()
    }

    /// Adds a slot for a process that starts at a time.
    pub fn add(&mut self, role: NodeRole, number: u32, start: Nanos) -> NodeId {
        let id = NodeId(self.slots.len());
        let key = key(role, number);
        self.network.know(id, key);
        let random = Random::of(self.seed, key);
        let slowness = Slowness::new(Random::of(self.seed ^ SLOW, key));
        self.slots.push(Slot::new(role, number, random, slowness));
        self.agenda.enter(start, Event::Undo(Undo::Start(id)));
        id
    }

    /// Handles the next event. Returns the number of a scheduled event.
    pub fn step(&mut self) -> Option<usize> {
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
            Event::Handle { node, life, input } => {
                if self.slots[node.0].life == life {
                    self.slots[node.0].slowness.handled(input.origin());
                    self.hand(node, input);
                }
            }
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
            Event::Undo(undo) => {
                self.observer.note(self.now, || format!("undo {undo:?}"));
                self.undo(undo);
            }
            Event::Scheduled(number) => return Some(number),
        }
        None
    }

    /// Hands a node an input: now, later if the node is slow, or once it is no longer paused.
    pub fn tell(&mut self, id: NodeId, input: NodeInput) {
        let slot = &mut self.slots[id.0];
        if slot.node.is_none() {
            return;
        }
        let origin = input.origin();
        let late = origin.and_then(|origin| slot.slowness.late(self.now, origin));
        let Some(at) = late else {
            return self.hand(id, input);
        };
        if !matches!(input, NodeInput::Wake) || slot.slowness.wakes() {
            let (node, life) = (id, slot.life);
            self.agenda.enter(at, Event::Handle { node, life, input });
        }
    }

    fn hand(&mut self, id: NodeId, input: NodeInput) {
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

    fn run(&mut self, id: NodeId, input: NodeInput) {
        let slot = &self.slots[id.0];
        self.observer.handles(self.now, id, slot, &input);
        let slot = &mut self.slots[id.0];
        let Some(node) = slot.node.as_mut() else {
            return;
        };
        let mut io = Io::new(self.now, slot.wake);
        node.handle(&mut io, input);
        if let Some(connection) = io.connection {
            slot.connection = Some(connection);
        }
        if let Some(login) = io.login {
            self.network.log_in(id, login);
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
            let late = slot.random.between(0, self.delays.timers);
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
        self.tell(id, NodeInput::Wake);
    }

    fn carry_out(&mut self, id: NodeId, effect: NodeEffect) {
        let life = self.slots[id.0].life;
        match effect {
            NodeEffect::Publish {
                subject,
                reply,
                bytes,
            } => {
                let packet = Packet {
                    subject,
                    reply,
                    bytes: bytes.into(),
                    from: id,
                };
                self.observer.published(self.now, id, &packet);
                self.publish(id, packet);
            }
            NodeEffect::Subscribe(pattern) => self.network.subscribe(id, pattern),
            NodeEffect::Unsubscribe(pattern) => self.network.unsubscribe(id, &pattern),
            NodeEffect::Store(token, request) => {
                let random = &mut self.slots[id.0].random;
                let (least, most) = self.delays.store;
                let way = random.between(least, most);
                let at = self.now + way + self.store_faults.delay(self.now, &request);
                let event = Event::Store {
                    node: id,
                    life,
                    token,
                    request,
                };
                self.agenda.enter(at, event);
            }
            NodeEffect::Later(at, token) => {
                let input = NodeInput::Later(token);
                let event = Event::Tell {
                    node: id,
                    life,
                    input,
                };
                self.agenda.enter(at.max(self.now), event);
            }
            NodeEffect::Visit(name) => self.visit(id, name),
            NodeEffect::Fact(fact) => self.observer.fact(self.now, id, fact),
            NodeEffect::Exit { again, told } => {
                self.observer
                    .note(self.now, || format!("{id:?} ends itself"));
                self.kill(id, told);
                if again {
                    let wait = self.slots[id.0].random.between(5, 200) * MILLI;
                    let at = self.now + wait;
                    self.agenda.enter(at, Event::Undo(Undo::Start(id)));
                }
            }
        }
    }

    /// Starts a process in its slot.
    fn start(&mut self, id: NodeId) {
        let slot = &mut self.slots[id.0];
        if slot.node.is_some() {
            return;
        }
        slot.life += 1;
        slot.wake = None;
        slot.paused = false;
        slot.stalled = 0;
        slot.slowness.restart();
        slot.held.clear();
        slot.buffer.clear();
        let purpose = u64::from(slot.life) << 32 | key(slot.role, slot.number);
        let random = Random::of(self.seed, purpose);
        slot.node = Some((self.factory)(slot.role, slot.number, slot.life, random));
        self.observer.note(self.now, || format!("{id:?} starts"));
        self.tell(id, NodeInput::Started);
    }
}

/// Fingerprint of an event, for comparing two histories.
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
        Event::Scheduled(number) => 5 << 8 | *number as u64,
        Event::Undo(_) => 6 << 8,
        Event::Handle { node, .. } => 7 << 8 | node.0 as u64,
    };
    mix(at ^ mix(what))
}
