//! What a process of the cluster is to the simulation.

use std::rc::Rc;

use crate::fact::Fact;
use crate::network::Packet;
use crate::store::{StoreReply, StoreRequest};
use sim_time::Nanos;

/// What a node is told.
#[derive(Debug, Clone)]
pub(crate) enum Input {
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
    /// The broker says: the connection of this name was closed.
    Closed(Rc<str>),
    /// An answer of the store to the request with this token.
    Store(u64, StoreReply),
    /// The lease has changed: its entry as it is now.
    Lease(StoreReply),
    /// A placement was written: its entry as it was then.
    Placement(StoreReply),
    /// Please leave in good order (SIGTERM).
    Terminate,
}

/// A process: a real core in a thin shell that decides nothing.
pub(crate) trait Node {
    /// Takes one input. All it wants done goes through `io`.
    fn handle(&mut self, io: &mut Io, input: Input);

    /// The state that it is in, by its name in [`crate::coverage`]; of a client, a name of its own.
    fn state(&self) -> &'static str;
}

/// What a node wants done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Publish a message.
    Publish {
        /// Subject.
        subject: String,
        /// Where the answer should go, for a request.
        reply: Option<String>,
        /// The encoded message.
        bytes: Vec<u8>,
    },
    /// Hear a subject pattern.
    Subscribe(String),
    /// Ask the store.
    Store(u64, StoreRequest),
    /// Be told [`Input::Later`] at a time.
    Later(Nanos, u64),
    /// Something the checkers should know.
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
pub(crate) struct Io {
    /// Virtual time.
    pub now: Nanos,
    /// What is to be done, in order.
    pub effects: Vec<Effect>,
    /// When the node wants [`Input::Wake`]; a new value replaces the old.
    pub wake: Option<Nanos>,
    /// The name of its connection, as the broker tells it when it closes.
    pub name: Option<Rc<str>>,
}

impl Io {
    /// A call at a time.
    #[must_use]
    pub(crate) fn new(now: Nanos, wake: Option<Nanos>) -> Self {
        Self {
            now,
            effects: Vec::new(),
            wake,
            name: None,
        }
    }

    /// Publishes a message.
    pub(crate) fn publish(&mut self, subject: String, bytes: Vec<u8>) {
        self.effects.push(Effect::Publish {
            subject,
            reply: None,
            bytes,
        });
    }

    /// Publishes a request; the answer comes as a message on `reply`, or never.
    pub(crate) fn request(&mut self, subject: String, reply: String, bytes: Vec<u8>) {
        self.effects.push(Effect::Publish {
            subject,
            reply: Some(reply),
            bytes,
        });
    }

    /// Subscribes to a pattern.
    pub(crate) fn subscribe(&mut self, pattern: String) {
        self.effects.push(Effect::Subscribe(pattern));
    }

    /// Asks the store.
    pub(crate) fn store(&mut self, token: u64, request: StoreRequest) {
        self.effects.push(Effect::Store(token, request));
    }

    /// Asks for [`Input::Later`].
    pub(crate) fn later(&mut self, at: Nanos, token: u64) {
        self.effects.push(Effect::Later(at, token));
    }

    /// Tells the checkers.
    pub(crate) fn fact(&mut self, fact: Fact) {
        self.effects.push(Effect::Fact(fact));
    }

    /// Ends the process; it is started again.
    pub(crate) fn exit(&mut self) {
        self.effects.push(Effect::Exit {
            again: true,
            told: true,
        });
    }

    /// Ends the process for good, its connection's end told to the leaders or not.
    pub(crate) fn die(&mut self, told: bool) {
        self.effects.push(Effect::Exit { again: false, told });
    }
}
