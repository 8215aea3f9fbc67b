//! Nodes: the processes of the cluster, as the simulation sees them.

use std::collections::VecDeque;
use std::rc::Rc;

use bus_schemas::Tenant;
use bus_schemas::subject::{Author, Subjects};

use crate::fact::NodeFact;
use crate::network::{AllowedSubjects, Mishap, Packet};
use crate::slowness::{Origin, Slowness};
use crate::store::{StoreReply, StoreRequest};
use crate::{Nanos, Random};

/// A connection, as the broker reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Its name, chosen by the client that made it.
    pub name: String,
    /// The owner of the login that it was made with.
    pub author: Author,
}

/// An input of a node.
#[derive(Debug, Clone)]
pub enum NodeInput {
    /// The node has just been started.
    Started,
    /// A message that the node subscribed to.
    Message(Packet),
    /// The time that the node asked for has come.
    Wake,
    /// An input that the node put off with [`Io::later`].
    Later(u64),
    /// The node's connection is back (true) or lost (false).
    Connection(bool),
    /// The broker reports that this connection was closed.
    Closed(Rc<Connection>),
    /// An answer of the store to the request with this token.
    Store(u64, StoreReply),
    /// The lease has changed, to this entry.
    Lease(StoreReply),
    /// A placement was written, as this entry.
    Placement(StoreReply),
    /// A request to leave in good order (SIGTERM).
    Terminate,
}

impl NodeInput {
    /// The origin of the input; `None` for the start.
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
    /// Takes one input. All effects go through `io`.
    fn handle(&mut self, io: &mut Io, input: NodeInput);

    /// The name of its current state.
    fn state(&self) -> &'static str;
}

/// An effect that a node requests.
#[derive(Debug)]
pub enum NodeEffect {
    /// Publish a message.
    Publish {
        /// Subject.
        subject: Rc<str>,
        /// Subject for the answer, for a request.
        reply: Option<Rc<str>>,
        /// The encoded message.
        bytes: Vec<u8>,
    },
    /// Subscribe to a subject pattern.
    Subscribe(String),
    /// Unsubscribe from it.
    Unsubscribe(String),
    /// Send a request to the store, with a token.
    Store(u64, StoreRequest),
    /// Deliver [`NodeInput::Later`] at a time.
    Later(Nanos, u64),
    /// Make one more connection under this name, with its own login, and close it again.
    Visit(String),
    /// A fact for the observer.
    Fact(NodeFact),
    /// End the process.
    Exit {
        /// True if it is started again.
        again: bool,
        /// True if the broker tells the leaders.
        told: bool,
    },
}

/// A node's interface to the world during one call.
#[derive(Debug)]
pub struct Io {
    /// Virtual time.
    pub now: Nanos,
    /// Requested effects, in order.
    pub effects: Vec<NodeEffect>,
    /// Time of the next [`NodeInput::Wake`]; a new value replaces the old.
    pub wake: Option<Nanos>,
    /// Its connection, as the broker reports it when it closes.
    pub connection: Option<Rc<Connection>>,
    /// Permissions of its login, unless it may do everything.
    pub login: Option<AllowedSubjects>,
}

impl Io {
    /// Makes the interface of a call at a time.
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

    /// Connects under a name, with a tenant's login. The broker lets it use the tenant's subjects.
    pub fn connect_tenant(&mut self, subjects: &Subjects, tenant: &Tenant, name: String) {
        self.connect(name, Author::Tenant(tenant.clone()));
        self.login = Some(AllowedSubjects::of(subjects, tenant));
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

    /// Sends a request to the store.
    pub fn store(&mut self, token: u64, request: StoreRequest) {
        self.effects.push(NodeEffect::Store(token, request));
    }

    /// Asks for [`NodeInput::Later`].
    pub fn later(&mut self, at: Nanos, token: u64) {
        self.effects.push(NodeEffect::Later(at, token));
    }

    /// Tells the observer a fact.
    pub fn fact(&mut self, fact: impl Into<NodeFact>) {
        self.effects.push(NodeEffect::Fact(fact.into()));
    }

    /// Ends the process, which is started again.
    pub fn exit(&mut self) {
        self.effects.push(NodeEffect::Exit {
            again: true,
            told: true,
        });
    }

    /// Ends the process for good. `told` is true if the broker tells the leaders of its connection's end.
    pub fn die(&mut self, told: bool) {
        self.effects.push(NodeEffect::Exit { again: false, told });
    }
}

/// Role of a node.
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
    /// A hostile tenant.
    Hostile,
}

/// A slot for a process.
pub struct Slot {
    /// Its role.
    pub role: NodeRole,
    /// Its number in that role.
    pub number: u32,
    /// The process, while it runs.
    pub node: Option<Box<dyn Node>>,
    /// Number of starts and ends of processes in this slot.
    pub life: u32,
    pub(crate) paused: bool,
    pub(crate) connection: Option<Rc<Connection>>,
    pub(crate) wake: Option<Nanos>,
    pub(crate) held: VecDeque<NodeInput>,
    // Messages published while its connection was away; sent once it is back, as NATS clients do.
    pub(crate) buffer: Vec<(Packet, bool)>,
    // A random source of its own: events of one node do not depend on the activity of others.
    pub(crate) random: Random,
    pub(crate) mishap: Option<(Mishap, Nanos)>,
    pub(crate) stalled: Nanos,
    pub(crate) storeless: Nanos,
    pub(crate) slowness: Slowness,
    // Time at which it hears of the last written placement.
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
