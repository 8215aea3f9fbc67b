//! Points at which faults are tried one by one: an event, a kind of node, and its state.

use std::collections::BTreeMap;

use crate::faults::Target;
use sim_cluster::{Nanos, NodeInput, NodeRole, StoreReply};

/// A class of events that no rule of the protocol distinguishes: of this kind, handled by a node of this
/// role in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Class {
    /// The node's role.
    pub role: NodeRole,
    /// Its state just before.
    pub state: &'static str,
    /// Kind of the input.
    pub step: &'static str,
    /// True if the input came over a link, or from the store or the broker.
    pub came: bool,
}

/// One event of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FaultPoint {
    /// Time of the event.
    pub at: Nanos,
    /// Node of the event.
    pub node: Target,
}

/// The first event of every class in a run, and a later one.
#[derive(Debug, Default)]
pub(crate) struct FaultPoints {
    seen: BTreeMap<Class, (u64, Vec<FaultPoint>)>,
}

impl FaultPoints {
    /// Notes an input that a node is about to handle.
    pub(crate) fn note(
        &mut self,
        at: Nanos,
        (role, number): (NodeRole, u32),
        state: &'static str,
        input: &NodeInput,
    ) {
        let (step, came) = step(input);
        let class = Class {
            role,
            state,
            step,
            came,
        };
        let (count, kept) = self.seen.entry(class).or_default();
        *count += 1;
        let node = match role {
            NodeRole::Leader => Target::Leader(number),
            NodeRole::Worker => Target::Worker(number),
            NodeRole::Client | NodeRole::Administrator | NodeRole::Hostile => {
                Target::Client(number)
            }
        };
        // Kept: the first, and the last with a number that is a power of two.
        if count.is_power_of_two() {
            kept.truncate(1);
            kept.push(FaultPoint { at, node });
        }
    }

    /// All classes and their points.
    pub(crate) fn into_classes(self) -> impl Iterator<Item = (Class, Vec<FaultPoint>)> {
        let classes = self.seen.into_iter();
        classes.map(|(class, (_, kept))| (class, kept))
    }
}

/// Kind of a node's input, and true if it came from elsewhere.
fn step(input: &NodeInput) -> (&'static str, bool) {
    match input {
        NodeInput::Started => ("start", false),
        NodeInput::Message(packet) => (message(&packet.subject), true),
        NodeInput::Wake => ("timer", false),
        NodeInput::Later(_) => ("later", false),
        NodeInput::Connection(true) => ("connected", false),
        NodeInput::Connection(false) => ("disconnected", false),
        NodeInput::Closed(_) => ("closed", true),
        NodeInput::Store(_, reply) => {
            let step = match reply {
                StoreReply::Entry { .. } => "entry",
                StoreReply::Written(_) => "written",
                StoreReply::Conflict => "conflict",
                StoreReply::Appended(_) => "appended",
                StoreReply::Anew => "made anew",
                StoreReply::Refused => "refused",
                StoreReply::Away => "store away",
            };
            (step, true)
        }
        NodeInput::Lease(_) => ("lease", true),
        NodeInput::Placement(_) => ("placement", true),
        NodeInput::Terminate => ("terminate", false),
    }
}

/// The kind of a message, by its subject.
fn message(subject: &str) -> &'static str {
    const LAST: [&str; 15] = [
        "batch", "data", "result", "state", "order", "error", "seal", "lost", "open", "close",
        "alive", "leader", "worker", "beat", "reign",
    ];
    const WITHIN: [(&str, &str); 8] = [
        (".intent.", "intent"),
        (".l.done.", "done"),
        (".l.worker.", "worker beat"),
        (".l.refusal.", "refusal"),
        (".l.measured.", "measured"),
        (".s.usage.", "usage"),
        (".s.inbox.", "seal answer"),
        (".inbox.", "open answer"),
    ];
    let last = subject.rsplit('.').next().unwrap_or_default();
    let by_last = LAST.into_iter().find(|name| *name == last);
    let within = || {
        let mut names = WITHIN.into_iter();
        let found = names.find(|(part, _)| subject.contains(part));
        found.map(|(_, name)| name)
    };
    by_last.or_else(within).unwrap_or("other")
}
