//! What can happen to a node, its connection and the broker.

use super::*;
use crate::coverage::Part;

impl Cluster {
    /// From now on the next message, or answer of the store, to a node has a mishap.
    pub(crate) fn mar_next(&mut self, id: NodeId, what: Mishap, late: Nanos) {
        self.slots[id.0].mishap = Some((what, late));
    }

    /// A node's timers stand still until a time.
    pub(crate) fn stall(&mut self, id: NodeId, until: Nanos) {
        let slot = &mut self.slots[id.0];
        slot.stalled = slot.stalled.max(until);
    }

    /// A node does not reach the store until a time.
    pub(crate) fn keep_from_store(&mut self, id: NodeId, until: Nanos) {
        let slot = &mut self.slots[id.0];
        slot.storeless = slot.storeless.max(until);
    }

    /// A fault meets a node, or all: what state they, and their sessions, are in.
    pub(crate) fn met(&mut self, id: Option<NodeId>, fault: &'static str) {
        for (place, slot) in self.slots.iter().enumerate() {
            let met = id.is_none_or(|id| id.0 == place);
            let Some(node) = slot.node.as_ref().filter(|_| met) else {
                continue;
            };
            let part = match slot.role {
                Role::Leader => Part::Leader,
                Role::Worker => Part::Worker,
                Role::Client | Role::Administrator => continue,
            };
            self.coverage.met(part, node.state(), fault);
            let worker = self.observer.incarnation(NodeId(place));
            if worker.is_some_and(|worker| self.observer.drains.holds(worker)) {
                self.coverage.met(part, "drained", fault);
            }
        }
        let role = id.map(|id| self.slots[id.0].role);
        if role == Some(Role::Administrator) {
            return;
        }
        let client = id.filter(|_| role == Some(Role::Client));
        let worker = id.and_then(|id| self.observer.incarnation(id));
        if role == Some(Role::Worker) && worker.is_none() {
            return;
        }
        for state in self.observer.sessions.states(client, worker) {
            self.coverage.met(Part::Session, state, fault);
        }
        for state in self.observer.places.states(client, worker) {
            self.coverage.met(Part::Request, state, fault);
        }
    }

    /// A message has come over the link.
    pub(super) fn deliver(&mut self, to: NodeId, connection: u32, packet: Packet) {
        if let Some((mishap, late)) = self.slots[to.0].mishap.take() {
            self.trace.note(self.now, || {
                format!("{to:?}: the next message is {mishap:?}")
            });
            self.met(Some(to), mishap.name());
            if mishap != Mishap::Lost {
                let packet = packet.clone();
                let event = Event::Deliver {
                    to,
                    connection,
                    packet,
                };
                self.agenda.enter(self.now + late, event);
            }
            if mishap != Mishap::Doubled {
                return;
            }
        }
        self.trace.packet(self.now, to, &packet);
        self.tell(to, Input::Message(packet));
    }

    /// The store, or the broker itself, tells a node something; a node what it put off.
    pub(super) fn inform(&mut self, node: NodeId, life: u32, mut input: Input) {
        let marred = matches!(
            input,
            Input::Store(..) | Input::Lease(_) | Input::Placement(_) | Input::Closed(_)
        );
        if marred && let Some((mishap, mut late)) = self.slots[node.0].mishap.take() {
            self.met(Some(node), mishap.name());
            if mishap == Mishap::Lost {
                let Input::Store(token, _) = input else {
                    return;
                };
                // No answer: the node gives up waiting for it.
                input = Input::Store(token, StoreReply::Away);
                late = SECOND;
            }
            if mishap != Mishap::Doubled {
                let event = Event::Tell { node, life, input };
                return self.agenda.enter(self.now + late, event);
            }
        }
        self.trace.input(self.now, node, &input);
        self.tell(node, input);
    }

    /// Ends a process at once. `told`: the broker tells the leaders.
    pub(crate) fn kill(&mut self, id: NodeId, told: bool) {
        let slot = &mut self.slots[id.0];
        if slot.node.take().is_none() {
            return;
        }
        slot.life += 1;
        let name = slot.name.take();
        self.network.drop_node(id);
        if told {
            self.tell_closed(name);
        }
        self.observer.died(self.now, id);
    }

    /// Tells the leaders that a connection was closed.
    pub(crate) fn tell_closed(&mut self, name: Option<Rc<str>>) {
        let Some(name) = name else {
            return;
        };
        for place in 0..self.slots.len() {
            let id = NodeId(place);
            let slot = &mut self.slots[place];
            let hears = slot.role == Role::Leader && self.network.connected(id);
            if !hears || slot.random.chance(self.network.weather.loss) {
                continue;
            }
            let event = Event::Tell {
                node: id,
                life: slot.life,
                input: Input::Closed(name.clone()),
            };
            let delay = slot.random.between(100 * MICRO, 2 * MILLI);
            self.agenda.enter(self.now + delay, event);
        }
    }

    /// Stops a node's events.
    pub(crate) fn pause(&mut self, id: NodeId) {
        self.slots[id.0].paused = true;
    }

    /// Hands a node all that was held back.
    pub(crate) fn resume(&mut self, id: NodeId) {
        if !std::mem::take(&mut self.slots[id.0].paused) {
            return;
        }
        while let Some(input) = self.slots[id.0].held.pop_front() {
            self.tell(id, input);
        }
    }

    /// Cuts a node's connection.
    pub(crate) fn cut(&mut self, id: NodeId, told: bool) {
        if self.slots[id.0].node.is_none() || !self.network.connected(id) {
            return;
        }
        self.network.cut(id);
        if told {
            let name = self.slots[id.0].name.clone();
            self.tell_closed(name);
        }
        self.tell(id, Input::Connection(false));
    }

    /// Restores a node's connection.
    pub(crate) fn restore(&mut self, id: NodeId) {
        self.network.restore(id);
        self.reconnect(id);
    }

    /// Takes the broker away from everyone.
    pub(crate) fn broker_away(&mut self, lost: u32) {
        if !self.network.broker_up() {
            return;
        }
        let ids: Vec<NodeId> = (0..self.slots.len()).map(NodeId).collect();
        self.network.broker_down(ids.iter().copied());
        self.store.lose_tail(lost as usize);
        for id in ids {
            self.tell(id, Input::Connection(false));
        }
    }

    /// Brings the broker back: connections return one after the other.
    pub(crate) fn broker_back(&mut self) {
        self.network.broker_back();
        for place in 0..self.slots.len() {
            self.reconnect(NodeId(place));
        }
    }

    pub(super) fn reconnect(&mut self, id: NodeId) {
        if !self.network.connected(id) || self.slots[id.0].node.is_none() {
            return;
        }
        for (packet, kept) in std::mem::take(&mut self.slots[id.0].buffer) {
            if kept {
                self.publish(id, packet);
            }
        }
        let event = Event::Tell {
            node: id,
            life: self.slots[id.0].life,
            input: Input::Connection(true),
        };
        let delay = self.slots[id.0].random.between(MICRO, 20 * MILLI);
        self.agenda.enter(self.now + delay, event);
    }
}
