//! Mishaps of a node, its connection and the broker.

use std::rc::Rc;

use super::{Cluster, Event, Undo};
use crate::network::{Lossy, Mishap, NodeId, Packet, Ways};
use crate::node::{Connection, NodeInput, NodeRole};
use crate::observer::ClusterObserver;
use crate::store::StoreReply;
use crate::{MICRO, MILLI, Nanos, SECOND};

impl<W: ClusterObserver> Cluster<W> {
    /// Makes the next message, or answer of the store, to a node have a mishap.
    pub fn mar_next(&mut self, id: NodeId, what: Mishap, late: Nanos) {
        self.slots[id.0].mishap = Some((what, late));
    }

    /// Stops a node's timers until a time.
    pub fn stall(&mut self, id: NodeId, until: Nanos) {
        let slot = &mut self.slots[id.0];
        slot.stalled = slot.stalled.max(until);
    }

    /// Makes a node handle each input late by at most `by`, until a time.
    pub fn slow(&mut self, id: NodeId, until: Nanos, by: Nanos) {
        self.slots[id.0].slowness.begin(until, by);
    }

    /// Keeps a node from the store until a time.
    pub fn keep_from_store(&mut self, id: NodeId, until: Nanos) {
        let slot = &mut self.slots[id.0];
        slot.storeless = slot.storeless.max(until);
    }

    /// Reports to the observer that a fault meets a node, or all nodes.
    pub fn met(&mut self, id: Option<NodeId>, fault: &'static str) {
        self.observer.met(&self.slots, id, fault);
    }

    /// Delivers a message that has come over the link.
    pub(super) fn deliver(&mut self, to: NodeId, connection: u32, packet: Packet) {
        if let Some((mishap, late)) = self.slots[to.0].mishap.take() {
            self.observer.note(self.now, || {
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
        self.observer.arrived(self.now, to, &packet);
        self.tell(to, NodeInput::Message(packet));
    }

    /// Tells a node news of the store or the broker, or an input that the node itself had put off.
    pub(super) fn inform(&mut self, node: NodeId, life: u32, mut input: NodeInput) {
        let marred = matches!(
            input,
            NodeInput::Store(..)
                | NodeInput::Lease(_)
                | NodeInput::Placement(_)
                | NodeInput::Closed(_)
        );
        if marred && let Some((mishap, mut late)) = self.slots[node.0].mishap.take() {
            self.met(Some(node), mishap.name());
            if mishap == Mishap::Lost {
                let NodeInput::Store(token, _) = input else {
                    return;
                };
                // Without an answer, the node gives up waiting for it.
                input = NodeInput::Store(token, StoreReply::Away);
                late = SECOND;
            }
            if mishap != Mishap::Doubled {
                let event = Event::Tell { node, life, input };
                return self.agenda.enter(self.now + late, event);
            }
        }
        self.observer.told(self.now, node, &input);
        self.tell(node, input);
    }

    /// Ends a process at once. If `told`, the broker tells the leaders.
    pub fn kill(&mut self, id: NodeId, told: bool) {
        let slot = &mut self.slots[id.0];
        if slot.node.take().is_none() {
            return;
        }
        slot.life += 1;
        let connection = slot.connection.take();
        self.network.drop_node(id);
        if told {
            self.tell_closed(connection);
        }
        self.observer.died(self.now, id);
    }

    /// Makes one more connection of a node for a moment, under any name and with the node's own login.
    pub(super) fn visit(&mut self, id: NodeId, name: String) {
        let own = self.slots[id.0].connection.clone();
        if let Some(author) = own.map(|own| own.author.clone())
            && self.network.connected(id)
        {
            let visit = Connection { name, author };
            self.observer
                .note(self.now, || format!("{id:?} visits as {visit:?}"));
            self.tell_closed(Some(Rc::new(visit)));
        }
    }

    /// Tells the leaders that a connection was closed.
    fn tell_closed(&mut self, connection: Option<Rc<Connection>>) {
        let Some(connection) = connection else {
            return;
        };
        for place in 0..self.slots.len() {
            let id = NodeId(place);
            let slot = &mut self.slots[place];
            let hears = slot.role == NodeRole::Leader && self.network.connected(id);
            if !hears || slot.random.chance(self.network.loss()) {
                continue;
            }
            let event = Event::Tell {
                node: id,
                life: slot.life,
                input: NodeInput::Closed(connection.clone()),
            };
            let delay = slot.random.between(100 * MICRO, 2 * MILLI);
            self.agenda.enter(self.now + delay, event);
        }
    }

    /// Holds back a node's events.
    pub fn pause(&mut self, id: NodeId) {
        self.slots[id.0].paused = true;
    }

    /// Hands a node all events that were held back.
    fn resume(&mut self, id: NodeId) {
        if !std::mem::take(&mut self.slots[id.0].paused) {
            return;
        }
        while let Some(input) = self.slots[id.0].held.pop_front() {
            self.tell(id, input);
        }
    }

    /// Cuts a node's connection.
    pub fn cut(&mut self, id: NodeId, told: bool) {
        if self.slots[id.0].node.is_none() || !self.network.connected(id) {
            return;
        }
        self.network.cut(id);
        if told {
            let connection = self.slots[id.0].connection.clone();
            self.tell_closed(connection);
        }
        self.tell(id, NodeInput::Connection(false));
    }

    /// Restores a node's connection.
    fn restore(&mut self, id: NodeId) {
        self.network.restore(id);
        self.reconnect(id);
    }

    /// Takes the broker away from all nodes.
    pub fn broker_away(&mut self, lost: u32) {
        if !self.network.broker_up() {
            return;
        }
        let ids: Vec<NodeId> = (0..self.slots.len()).map(NodeId).collect();
        self.network.broker_down(ids.iter().copied());
        self.store.lose_tail(lost as usize);
        for id in ids {
            self.tell(id, NodeInput::Connection(false));
        }
    }

    /// Brings the broker back; connections return one after the other.
    fn broker_back(&mut self) {
        self.network.broker_back();
        for place in 0..self.slots.len() {
            self.reconnect(NodeId(place));
        }
    }

    fn reconnect(&mut self, id: NodeId) {
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
            input: NodeInput::Connection(true),
        };
        let delay = self.slots[id.0].random.between(MICRO, 20 * MILLI);
        self.agenda.enter(self.now + delay, event);
    }

    /// Ends a fault.
    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Unblock(links) => {
                for (from, to) in links {
                    self.network.unblock(from, to);
                }
            }
            Undo::Resume(id) => self.resume(id),
            Undo::Start(id) => self.start(id),
            Undo::Restore(id) => self.restore(id),
            Undo::BrokerBack => self.broker_back(),
            Undo::StoreBack => self.store_up = true,
            Undo::Clear => self.network.ways = Ways::Lossy(Lossy::FAIR),
        }
    }
}
