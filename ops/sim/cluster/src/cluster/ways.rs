//! The ways to other nodes and to the store.

use scheduler_leader_core::Placement;

use super::{Cluster, Event};
use crate::network::{NodeId, Packet};
use crate::node::{NodeInput, NodeRole, Slot};
use crate::observer::ClusterObserver;
use crate::print::mix;
use crate::store::{LEASE, LEASE_TTL, PLACEMENT, PROFILE, StoreReply, StoreRequest};
use crate::{MICRO, Nanos, SECOND, wire};

/// The placement that a request writes to the store.
fn placement(request: &StoreRequest) -> Option<Placement> {
    match request {
        StoreRequest::PutFenced {
            key: PLACEMENT,
            value,
            ..
        }
        | StoreRequest::PutBack {
            key: PLACEMENT,
            value,
            ..
        } => wire::unpack(value),
        _ => None,
    }
}

impl<W: ClusterObserver> Cluster<W> {
    pub(super) fn publish(&mut self, id: NodeId, packet: Packet) {
        if !self.network.connected(id) {
            let slot = &mut self.slots[id.0];
            let kept = slot.random.chance(500);
            if slot.buffer.len() < 256 {
                slot.buffer.push((packet, kept));
            }
            return;
        }
        let route = self.network.route(self.now, id, &packet.subject);
        for (to, mishap) in route.mishaps {
            self.met(Some(to), mishap.name());
        }
        for delivery in route.deliveries {
            let event = Event::Deliver {
                to: delivery.to,
                connection: delivery.connection,
                packet: packet.clone(),
            };
            self.agenda.enter(delivery.at, event);
        }
    }

    pub(super) fn ask_store(&mut self, id: NodeId, life: u32, token: u64, request: StoreRequest) {
        let storeless = self.now < self.slots[id.0].storeless;
        let reachable = self.store_up && self.network.connected(id) && !storeless;
        let lost = reachable && self.store_faults.loses(self.now, &request);
        let carried_out = !lost || self.slots[id.0].random.chance(500);
        let reply = if reachable && self.store_faults.refuses(self.now, &request) {
            StoreReply::Refused
        } else if reachable && carried_out {
            self.observer
                .note(self.now, || format!("{id:?} asks the store {request:?}"));
            let lease = matches!(request, StoreRequest::Swap { key: LEASE, .. });
            let placement = placement(&request);
            let reply = self.store.handle(self.now, request);
            if let (Some(placement), StoreReply::Written(_)) = (placement, &reply) {
                self.observer.stored(self.now, &placement);
                self.tell_placement();
            }
            if lease && matches!(reply, StoreReply::Written(_)) {
                self.agenda.enter(self.now + LEASE_TTL, Event::LeaseChanged);
                self.tell_lease();
            }
            reply
        } else {
            StoreReply::Away
        };
        let reply = if lost { StoreReply::Away } else { reply };
        let wait = match reply {
            StoreReply::Away => SECOND,
            _ => {
                let (least, most) = self.delays.store;
                self.slots[id.0].random.between(least, most)
            }
        };
        let input = NodeInput::Store(token, reply);
        let event = Event::Tell {
            node: id,
            life,
            input,
        };
        self.agenda.enter(self.now + wait, event);
    }

    /// Deletes the bucket with placement and profile, and creates it again.
    pub fn delete_state(&mut self) {
        self.store.renew(PLACEMENT);
        self.store.renew(PROFILE);
        self.tell_placement();
    }

    /// Tells every leader candidate of a written placement, as a watch on its bucket does. Each candidate
    /// gets the placements in order.
    fn tell_placement(&mut self) {
        let reply = self.store.read(self.now, PLACEMENT);
        self.tell_leaders(&NodeInput::Placement(reply), |now, place, slot| {
            let delay = 60 * MICRO + mix(now ^ place as u64) % (740 * MICRO);
            slot.watched = slot.watched.max(now + delay);
            slot.watched
        });
    }

    /// Tells every leader candidate the current lease, as a watch on its bucket does.
    pub(super) fn tell_lease(&mut self) {
        let reply = self.store.read(self.now, LEASE);
        self.tell_leaders(&NodeInput::Lease(reply), |now, _, slot| {
            now + slot.random.between(60 * MICRO, 800 * MICRO)
        });
    }

    fn tell_leaders(&mut self, input: &NodeInput, when: impl Fn(Nanos, usize, &mut Slot) -> Nanos) {
        for (place, slot) in self.slots.iter_mut().enumerate() {
            let hears = slot.role == NodeRole::Leader && self.now >= slot.storeless;
            if hears && self.network.connected(NodeId(place)) {
                let event = Event::Tell {
                    node: NodeId(place),
                    life: slot.life,
                    input: input.clone(),
                };
                self.agenda.enter(when(self.now, place, slot), event);
            }
        }
    }

    /// Deletes the bucket with the lease.
    pub fn delete_lease(&mut self) {
        self.store.delete(LEASE);
        self.agenda.enter(self.now, Event::LeaseChanged);
    }
}
