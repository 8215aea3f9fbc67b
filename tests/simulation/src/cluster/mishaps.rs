//! What can happen to a node, its connection and the broker.

use super::*;

impl Cluster {
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
            let slot = &self.slots[place];
            let hears = slot.role == Role::Leader && self.network.connected(id);
            if !hears || self.random.chance(self.network.weather.loss) {
                continue;
            }
            let event = Event::Tell {
                node: id,
                life: slot.life,
                input: Input::Closed(name.clone()),
            };
            let delay = self.random.between(100 * MICRO, 2 * MILLI);
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
    pub(crate) fn broker_away(&mut self, lost: usize) {
        if !self.network.broker_up() {
            return;
        }
        let ids: Vec<NodeId> = (0..self.slots.len()).map(NodeId).collect();
        self.network.broker_down(ids.iter().copied());
        self.store.lose_tail(lost);
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
        let delay = self.random.between(MICRO, 20 * MILLI);
        self.agenda.enter(self.now + delay, event);
    }
}
