//! What a worker says to others.

use bus_schemas::subject::ToClient;
use bus_schemas::{WIRE_VERSION, WorkerBeat, encode};
use gpu_worker_core::sequencer::Action;

use super::bus::{Bus, Message, Party};
use super::place::{CAPACITY, GPU, Place, WORKER};
use sim_cluster::Nanos;

/// Publishes what the sequencer says to others.
pub(super) fn send(now: Nanos, reply: Option<&str>, action: Action, place: &Place, bus: &mut Bus) {
    let subjects = &place.subjects;
    let mut bytes = Vec::new();
    match action {
        Action::SendDone(done) => {
            done.encode_into(&mut bytes);
            say(now, Party::Leader, subjects.done(WORKER), bytes, bus);
        }
        Action::SendAck(ack) => {
            ack.encode_into(&mut bytes);
            let subject = subjects.to_client(&ack.tenant, ack.session, ToClient::Worker);
            if let Some(client) = place.index(&ack.tenant) {
                say(now, Party::Client(client), subject, bytes, bus);
            }
        }
        Action::SealReply(answer) => {
            if let Some(reply) = reply {
                say(now, Party::Leader, reply.to_owned(), encode(&*answer), bus);
            }
        }
        Action::Beat(beat) => {
            let message = WorkerBeat {
                v: WIRE_VERSION,
                incarnation: WORKER,
                gpu: GPU,
                epoch: beat.epoch,
                leader: beat.leader,
                device: "model".into(),
                capacity: CAPACITY,
                draining: beat.draining,
                properties: None,
                group: None,
                exclusive: false,
                held: 0,
                images: None,
                weights: None,
            };
            say(
                now,
                Party::Leader,
                subjects.worker_beat(WORKER),
                encode(&message),
                bus,
            );
        }
        _ => {}
    }
}

pub(super) fn say(now: Nanos, to: Party, subject: String, bytes: Vec<u8>, bus: &mut Bus) {
    let message = Message {
        subject: subject.into(),
        reply: None,
        bytes,
    };
    bus.send(now, Party::Worker, to, message);
}
