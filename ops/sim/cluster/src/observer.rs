//! The observer of a cluster.

use scheduler_leader_core::Placement;

use crate::Nanos;
use crate::fact::NodeFact;
use crate::network::{NodeId, Packet};
use crate::node::{NodeInput, Slot};

/// Receives all events in a cluster. The default methods ignore theirs.
pub trait ClusterObserver {
    /// Takes a line for a trace, which is made only if it is wanted.
    fn note(&mut self, _now: Nanos, _line: impl FnOnce() -> String)
    where
        Self: Sized,
    {
    }
    /// A node publishes a message.
    fn published(&mut self, _now: Nanos, _from: NodeId, _packet: &Packet) {}
    /// A message has come over its link.
    fn arrived(&mut self, _now: Nanos, _to: NodeId, _packet: &Packet) {}
    /// The store, the broker, or the node itself some time ago, tells a node something.
    fn told(&mut self, _now: Nanos, _to: NodeId, _input: &NodeInput) {}
    /// A node is about to handle an input.
    fn handles(&mut self, _now: Nanos, _node: NodeId, _slot: &Slot, _input: &NodeInput) {}
    /// A node tells a fact.
    fn fact(&mut self, now: Nanos, from: NodeId, fact: NodeFact);
    /// The store has written a placement.
    fn stored(&mut self, _now: Nanos, _placement: &Placement) {}
    /// A node died.
    fn died(&mut self, _now: Nanos, _node: NodeId) {}
    /// A fault meets a node, or all.
    fn met(&mut self, _slots: &[Slot], _node: Option<NodeId>, _fault: &'static str) {}
}
