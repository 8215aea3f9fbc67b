//! The cluster's side of the watch: it reports messages, inputs and deaths.

use scheduler_leader_core::Placement;
use sim_cluster::{ClusterObserver, Nanos, NodeFact, NodeId, NodeInput, NodeRole, Packet, Slot};

use super::Watch;
use crate::coverage::Part;

impl ClusterObserver for Watch {
    fn note(&mut self, now: Nanos, line: impl FnOnce() -> String) {
        self.trace.note(now, line);
    }

    fn published(&mut self, now: Nanos, from: NodeId, packet: &Packet) {
        self.trace.published(now, from, packet);
        let result = self.publish(now, from, packet);
        self.judge(result);
    }

    fn arrived(&mut self, now: Nanos, to: NodeId, packet: &Packet) {
        self.trace.packet(now, to, packet);
    }

    fn told(&mut self, now: Nanos, to: NodeId, input: &NodeInput) {
        self.trace.input(now, to, input);
    }

    fn handles(&mut self, now: Nanos, id: NodeId, slot: &Slot, input: &NodeInput) {
        if let NodeInput::Message(packet) = input {
            let result = self.deliver(id, packet);
            self.judge(result);
        }
        if let (Some(points), Some(node)) = (&mut self.fault_points, &slot.node)
            && !matches!(slot.role, NodeRole::Administrator | NodeRole::Hostile)
        {
            points.note(now, (slot.role, slot.number), node.state(), input);
        }
    }

    fn fact(&mut self, now: Nanos, from: NodeId, fact: NodeFact) {
        self.trace.fact(now, from, &fact);
        let result = self.take(now, from, fact);
        self.judge(result);
    }

    fn stored(&mut self, now: Nanos, placement: &Placement) {
        self.drains.stored(now, &placement.drained);
    }

    fn died(&mut self, now: Nanos, node: NodeId) {
        self.places.client_died(node);
        if let Some(incarnation) = self.workers.remove(&node) {
            self.places.worker_died(now, incarnation);
            self.positions.died(incarnation);
            self.sessions.worker_died(incarnation);
            self.memory.worker_died(incarnation);
            self.credits.worker_died(incarnation);
            self.moves.worker_died(incarnation);
        }
    }

    /// Counts the states of the nodes, and of their sessions, that a fault meets.
    fn met(&mut self, slots: &[Slot], id: Option<NodeId>, fault: &'static str) {
        for (place, slot) in slots.iter().enumerate() {
            let met = id.is_none_or(|id| id.0 == place);
            let Some(node) = slot.node.as_ref().filter(|_| met) else {
                continue;
            };
            let part = match slot.role {
                NodeRole::Leader => Part::Leader,
                NodeRole::Worker => Part::Worker,
                NodeRole::Client | NodeRole::Administrator | NodeRole::Hostile => continue,
            };
            self.coverage.met(part, node.state(), fault);
            let worker = self.incarnation(NodeId(place));
            if worker.is_some_and(|worker| self.drains.holds(worker)) {
                self.coverage.met(part, "drained", fault);
            }
        }
        let role = id.map(|id| slots[id.0].role);
        if role == Some(NodeRole::Administrator) {
            return;
        }
        let client = id.filter(|_| role == Some(NodeRole::Client));
        let worker = id.and_then(|id| self.incarnation(id));
        if role == Some(NodeRole::Worker) && worker.is_none() {
            return;
        }
        for state in self.sessions.states(client, worker) {
            self.coverage.met(Part::Session, state, fault);
        }
        for state in self.places.states(client, worker) {
            self.coverage.met(Part::Request, state, fault);
        }
    }
}
