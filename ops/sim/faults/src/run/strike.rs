//! Faults as they strike, and as they end.

use sim_cluster::{Input, Observer, Ways};

use super::*;

impl Play {
    /// The fault of this number strikes now.
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

    pub(super) fn target(&self, target: Target) -> Option<NodeId> {
        let wanted = match target {
            Target::Leading => {
                let leading = self.cluster.observer.leading;
                return leading.map(|(_, node)| node);
            }
            Target::Leader(number) => (Role::Leader, number),
            Target::Worker(number) => (Role::Worker, number),
            Target::Client(number) => (Role::Client, number),
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

    pub(super) fn strike(&mut self, fault: Fault) {
        let until = self.cluster.now + fault.time();
        let undo = match fault {
            Fault::Weather(weather) => {
                self.cluster.network.ways = Ways::Lossy(weather);
                None
            }
            Fault::Block { from, to, both, .. } => self.block(from, to, both),
            Fault::Isolate {
                node, says, hears, ..
            } => self.isolate(node, says, hears),
            Fault::Usurp { .. } => self.usurp(until),
            Fault::Next { node, what, time } => {
                if let Some(id) = self.target(node) {
                    self.cluster.mar_next(id, what, time);
                }
                None
            }
            Fault::Stall { node, .. } => {
                if let Some(id) = self.target(node) {
                    self.cluster.stall(id, until);
                }
                None
            }
            Fault::Crash { node, told, .. } => self.target(node).and_then(|id| {
                let mortal = self.cluster.slots[id.0].role != Role::Client;
                mortal.then(|| {
                    self.cluster.kill(id, told);
                    Undo::Start(id)
                })
            }),
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
            Fault::StoreForgets { lost } => {
                self.cluster.store.lose_tail(lost as usize);
                None
            }
            Fault::LeaseDeleted => {
                self.cluster.delete_lease();
                None
            }
            Fault::RecordFull { .. } => {
                self.cluster.store_faults.fill(until);
                None
            }
            Fault::StoreRefuses { .. } => {
                self.cluster.store_faults.refuse(until);
                None
            }
            Fault::WritesLost { .. } => {
                self.cluster.store_faults.lose(until);
                None
            }
            Fault::StoreSlow { by, .. } => {
                self.cluster.store_faults.slow(until, by);
                None
            }
            Fault::StateDeleted => {
                self.cluster.delete_state();
                None
            }
            // The administrator knows.
            Fault::Drain { .. } => None,
            Fault::Leave { node } => {
                if let Some(id) = self.target(node) {
                    self.cluster.tell(id, Input::Terminate);
                }
                None
            }
        };
        if let Some(undo) = undo {
            self.cluster.schedule_undo(until, undo);
        }
    }

    pub(super) fn block(&mut self, from: Target, to: Target, both: bool) -> Option<Undo> {
        let (from, to) = (self.target(from)?, self.target(to)?);
        let mut links = vec![(from, to)];
        links.extend(both.then_some((to, from)));
        self.stop(links)
    }

    pub(super) fn isolate(&mut self, node: Target, says: bool, hears: bool) -> Option<Undo> {
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

    /// Another leads beside whoever leads now: to the candidates it is gone, and the lease too.
    fn usurp(&mut self, until: Nanos) -> Option<Undo> {
        let leading = self.target(Target::Leading)?;
        self.cluster.keep_from_store(leading, until);
        let others = (0..self.cluster.slots.len()).map(NodeId);
        let links = others
            .filter(|id| *id != leading && self.cluster.slots[id.0].role == Role::Leader)
            .flat_map(|other| [(leading, other), (other, leading)])
            .collect();
        self.stop(links)
    }

    pub(super) fn stop(&mut self, links: Vec<(NodeId, NodeId)>) -> Option<Undo> {
        for (from, to) in &links {
            self.cluster.network.block(*from, *to);
        }
        Some(Undo::Unblock(links))
    }
}
