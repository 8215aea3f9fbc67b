//! Nodes: what a process of the cluster is to the simulation.

use std::collections::VecDeque;
use std::rc::Rc;

use bus_schemas::Tenant;
use bus_schemas::subject::{Author, Subjects};

use crate::fact::Fact;
use crate::network::{Login, Mishap, Packet};
use crate::slowness::{Origin, Slowness};
use crate::store::{StoreReply, StoreRequest};
use crate::{Nanos, Random};

/// A connection, as the broker tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Its name, which its maker chose.
    pub name: String,
    /// The owner of the login that it was made with.
    pub author: Author,
}

/// What a node is told.
#[derive(Debug, Clone)]
pub enum NodeInput {
    /// It has just been started.
    Started,
    /// A message it subscribed to.
    Message(Packet),
    /// The time it asked for has come.
    Wake,
    /// Something it put off with [`Io::later`].
    Later(u64),
    /// Its connection was lost, or is back.
    Connection(bool),
    /// The broker says: this connection was closed.
    Closed(Rc<Connection>),
    /// An answer of the store to the request with this token.
    Store(u64, StoreReply),
    /// The lease has changed: its entry as it is now.
    Lease(StoreReply),
    /// A placement was written: its entry as it was then.
    Placement(StoreReply),
    /// Please leave in good order (SIGTERM).
    Terminate,
}

impl NodeInput {
    /// Where it comes from; none for the start.
    pub(crate) fn origin(&self) -> Option<Origin> {
        Some(match self {
            Self::Started => return None,
            Self::Message(packet) => Origin::Node(packet.from),
            Self::Wake => Origin::Timer,
            Self::Later(_) | Self::Terminate => Origin::Own,
            Self::Connection(_) | Self::Closed(_) => Origin::Connection,
            Self::Store(..) | Self::Lease(_) | Self::Placement(_) => Origin::Store,
        })
    }
}

/// A process: a real core in a thin shell that decides nothing.
pub trait Node {
    /// Takes one input. All it wants done goes through `io`.
    fn handle(&mut self, io: &mut Io, input: NodeInput);

    /// The name of the state that it is in.
    fn state(&self) -> &'static str;
}

/// What a node wants done.
#[derive(Debug)]
pub enum NodeEffect {
    /// Publish a message.
    Publish {
        /// Subject.
        subject: Rc<str>,
        /// Where the answer should go, for a request.
        reply: Option<Rc<str>>,
        /// The encoded message.
        bytes: Vec<u8>,
    },
    /// Hear a subject pattern.
    Subscribe(String),
    /// Hear it no more.
    Unsubscribe(String),
    /// Ask the store.
    Store(u64, StoreRequest),
    /// Be told [`NodeInput::Later`] at a time.
    Later(Nanos, u64),
    /// Make one more connection under this name, with its own login, and close it again.
    Visit(String),
    /// Something that those who watch should know.
    Fact(Fact),
    /// The process ends; `again`: it is started again.
    Exit {
        /// Whether it is started again.
        again: bool,
        /// Whether the broker tells the leaders.
        told: bool,
    },
}

/// A node's way to the world during one call.
#[derive(Debug)]
pub struct Io {
    /// Virtual time.
    pub now: Nanos,
    /// What is to be done, in order.
    pub effects: Vec<NodeEffect>,
    /// When the node wants [`NodeInput::Wake`]; a new value replaces the old.
    pub wake: Option<Nanos>,
    /// Its connection, as the broker tells it when it closes.
    pub connection: Option<Rc<Connection>>,
    /// What its login allows, where that is not all.
    pub login: Option<Login>,
}

impl Io {
    /// A call at a time.
    #[must_use]
    pub fn new(now: Nanos, wake: Option<Nanos>) -> Self {
        Self {
            now,
            effects: Vec::new(),
            wake,
            connection: None,
            login: None,
        }
    }

    /// Connects under a name, with a login.
    pub fn connect(&mut self, name: String, author: Author) {
        self.connection = Some(Rc::new(Connection { name, author }));
    }

    /// Connects under a name, with a tenant's login: the broker lets it say and hear what is the
    /// tenant's.
    pub fn connect_tenant(&mut self, subjects: &Subjects, tenant: &Tenant, name: String) {
        self.connect(name, Author::Tenant(tenant.clone()));
        self.login = Some(Login::of(subjects, tenant));
    }

    /// Makes one more connection under a name, with its login, and closes it again.
    pub fn visit(&mut self, name: String) {
        self.effects.push(NodeEffect::Visit(name));
    }

    /// Publishes a message.
    pub fn publish(&mut self, subject: impl Into<Rc<str>>, bytes: Vec<u8>) {
        self.effects.push(NodeEffect::Publish {
            subject: subject.into(),
            reply: None,
            bytes,
        });
    }

    /// Publishes a request; the answer comes as a message on `reply`, or never.
    pub fn request(
        &mut self,
        subject: impl Into<Rc<str>>,
        reply: impl Into<Rc<str>>,
        bytes: Vec<u8>,
    ) {
        self.effects.push(NodeEffect::Publish {
            subject: subject.into(),
            reply: Some(reply.into()),
            bytes,
        });
    }

    /// Subscribes to a pattern.
    pub fn subscribe(&mut self, pattern: String) {
        self.effects.push(NodeEffect::Subscribe(pattern));
    }

    /// Ends the subscription to a pattern.
    pub fn unsubscribe(&mut self, pattern: String) {
        self.effects.push(NodeEffect::Unsubscribe(pattern));
    }

    /// Asks the store.
    pub fn store(&mut self, token: u64, request: StoreRequest) {
        self.effects.push(NodeEffect::Store(token, request));
    }

    /// Asks for [`NodeInput::Later`].
    pub fn later(&mut self, at: Nanos, token: u64) {
        self.effects.push(NodeEffect::Later(at, token));
    }

    /// Tells those who watch.
    pub fn fact(&mut self, fact: impl Into<Fact>) {
        self.effects.push(NodeEffect::Fact(fact.into()));
    }

    /// Ends the process; it is started again.
    pub fn exit(&mut self) {
        self.effects.push(NodeEffect::Exit {
            again: true,
            told: true,
        });
    }

    /// Ends the process for good, its connection's end told to the leaders or not.
    pub fn die(&mut self, told: bool) {
        self.effects.push(NodeEffect::Exit { again: false, told });
    }
}

/// What a node is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeRole {
    /// A leader candidate.
    Leader,
    /// A worker.
    Worker,
    /// A client process.
    Client,
    /// An administrator.
    Administrator,
    /// A tenant that means harm.
    Hostile,
}

/// One place for a process.
pub struct Slot {
    /// What it is for.
    pub role: NodeRole,
    /// Its number in that role.
    pub number: u32,
    /// The process, while it runs.
    pub node: Option<Box<dyn Node>>,
    /// How often a process was started or ended here.
    pub life: u32,
    pub(crate) paused: bool,
    pub(crate) connection: Option<Rc<Connection>>,
    pub(crate) wake: Option<Nanos>,
    pub(crate) held: VecDeque<NodeInput>,
    // What it published while its connection was away; sent once it is back, as NATS clients do.
    pub(crate) buffer: Vec<(Packet, bool)>,
    // Chance of its own: what happens to one does not depend on how much happens to another.
    pub(crate) random: Random,
    pub(crate) mishap: Option<(Mishap, Nanos)>,
    pub(crate) stalled: Nanos,
    pub(crate) storeless: Nanos,
    pub(crate) slowness: Slowness,
    // When it hears of the last placement that was written.
    pub(crate) watched: Nanos,
}

impl Slot {
    pub(crate) fn new(role: NodeRole, number: u32, random: Random, slowness: Slowness) -> Self {
        Self {
            role,
            number,
            node: None,
            life: 0,
            paused: false,
            connection: None,
            wake: None,
            held: VecDeque::new(),
            buffer: Vec::new(),
            random,
            mishap: None,
            stalled: 0,
            storeless: 0,
            slowness,
            watched: 0,
        }
    }
}
