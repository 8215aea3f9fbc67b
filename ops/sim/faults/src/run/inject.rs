//! The start and the end of faults.

use sim_cluster::{ClusterObserver, Nanos, NodeId, NodeInput, NodeRole, Undo, Ways};

use super::Play;
use crate::faults::{Fault, Target};

impl Play {
    /// Starts the fault of this number.
    pub(super) fn strike_now(&mut self, number: usize) {
        let fault = self.scene.faults[number].fault;
        let now = self.cluster.now;
        self.cluster
            .observer
            .note(now, || format!("fault {fault:?}"));
        self.faults += 1;
        self.meet(fault);
        self.strike(fault);
    }

    fn target(&self, target: Target) -> Option<NodeId> {
        let wanted = match target {
            Target::Leading => {
                let leading = self.cluster.observer.leading;
                return leading.map(|(_, node)| node);
            }
            Target::Leader(number) => (NodeRole::Leader, number),
            Target::Worker(number) => (NodeRole::Worker, number),
            Target::Client(number) => (NodeRole::Client, number),
        };
        let mut slots = self.cluster.slots.iter();
        let place = slots.position(|slot| (slot.role, slot.number) == wanted);
        place.map(NodeId)
    }

    /// Counts the states that a fault meets.
    fn meet(&mut self, fault: Fault) {
        let (names, everybody) = fault.names();
        for name in names {
            if everybody {
                self.cluster.met(None, name);
                continue;
            }
            for target in fault.targets() {
                if let Some(id) = self.target(target) {
                    self.cluster.met(Some(id), name);
                }
            }
        }
    }

    fn strike(&mut self, fault: Fault) {
        let until = self.cluster.now + fault.time();
        let undo = match fault {
            Fault::Block { from, to, both, .. } => self.block(from, to, both),
            Fault::Isolate {
                node, says, hears, ..
            } => self.isolate(node, says, hears),
            Fault::Usurp { .. } => self.usurp(until),
            Fault::Crash { node, told, .. } => self.crash(node, told),
            Fault::Pause { node, .. } => self.target(node).map(|id| {
                self.cluster.pause(id);
                Undo::Resume(id)
            }),
            Fault::Cut { node, told, .. } => self.target(node).map(|id| {
                self.cluster.cut(id, told);
                Undo::Restore(id)
            }),
            Fault::BrokerAway { lost, .. } => {
                self.cluster.broker_away(lost);
                Some(Undo::BrokerBack)
            }
            Fault::StoreAway { .. } => {
                self.cluster.store_up = false;
                Some(Undo::StoreBack)
            }
            fault => {
                self.strike_without_end(fault, until);
                None
            }
        };
        if let Some(undo) = undo {
            self.cluster.schedule_undo(until, undo);
        }
    }

    /// Starts faults that end by themselves, or never.
    fn strike_without_end(&mut self, fault: Fault, until: Nanos) {
        let target = fault.targets().first().and_then(|it| self.target(*it));
        let cluster = &mut self.cluster;
        match (fault, target) {
            (Fault::Weather(lossy), _) => cluster.network.ways = Ways::Lossy(lossy),
            (Fault::Next { what, time, .. }, Some(id)) => cluster.mar_next(id, what, time),
            (Fault::Stall { .. }, Some(id)) => cluster.stall(id, until),
            (Fault::Leave { .. }, Some(id)) => cluster.tell(id, NodeInput::Terminate),
            (Fault::StoreForgets { lost }, _) => cluster.store.lose_tail(lost as usize),
            (Fault::LeaseDeleted, _) => cluster.delete_lease(),
            (Fault::StateDeleted, _) => cluster.delete_state(),
            (Fault::RecordFull { .. }, _) => cluster.store_faults.fill(until),
            (Fault::StoreRefuses { .. }, _) => cluster.store_faults.refuse(until),
            (Fault::WritesLost { .. }, _) => cluster.store_faults.lose(until),
            (Fault::StoreSlow { by, .. }, _) => cluster.store_faults.slow(until, by),
            (Fault::SlowNode { by, .. }, Some(id)) => cluster.slow(id, until, by),
            // The administrator knows of drains, and the hostile tenant of its own times.
            _ => {}
        }
    }

    /// Kills a node. A client dies for good, and only when its scene says so.
    fn crash(&mut self, node: Target, told: bool) -> Option<Undo> {
        let id = self.target(node)?;
        let mortal = self.cluster.slots[id.0].role != NodeRole::Client;
        mortal.then(|| {
            self.cluster.kill(id, told);
            Undo::Start(id)
        })
    }

    fn block(&mut self, from: Target, to: Target, both: bool) -> Option<Undo> {
        let (from, to) = (self.target(from)?, self.target(to)?);
        let mut links = vec![(from, to)];
        links.extend(both.then_some((to, from)));
        self.stop(links)
    }

    fn isolate(&mut self, node: Target, says: bool, hears: bool) -> Option<Undo> {
        let node = self.target(node)?;
        let others = (0..self.cluster.slots.len()).map(NodeId);
        let links = others
            .filter(|other| *other != node)
            .flat_map(|other| {
                let out = says.then_some((node, other));
                let back = hears.then_some((other, node));
                out.into_iter().chain(back)
            })
            .collect();
        self.stop(links)
    }

    /// Makes another node lead beside the leader, by cutting the leader off from the candidates and the
    /// lease.
    fn usurp(&mut self, until: Nanos) -> Option<Undo> {
        let leading = self.target(Target::Leading)?;
        self.cluster.keep_from_store(leading, until);
        let others = (0..self.cluster.slots.len()).map(NodeId);
        let links = others
            .filter(|id| *id != leading && self.cluster.slots[id.0].role == NodeRole::Leader)
            .flat_map(|other| [(leading, other), (other, leading)])
            .collect();
        self.stop(links)
    }

    fn stop(&mut self, links: Vec<(NodeId, NodeId)>) -> Option<Undo> {
        for (from, to) in &links {
            self.cluster.network.block(*from, *to);
        }
        Some(Undo::Unblock(links))
    }
}
