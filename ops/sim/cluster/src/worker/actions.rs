//! Carries out the sequencer's actions on bus and buffers.

use bus_schemas::subject::ToClient;
use bus_schemas::{
    Code, DeviceResult, Failure, HeldImages, Rejected, ResultKind, SessionId, WIRE_VERSION,
    Weights, WorkerBeat, encode, limits,
};
use gpu_worker_core::dispatch;
use gpu_worker_core::sequencer::{Action, BeatAction, Event, StartAction};

use super::device::SimDevice;
use super::{WorkerNode, broken};
use crate::fact::WorkerFact;
use crate::node::Io;

impl<D: SimDevice> WorkerNode<D> {
    pub(super) fn carry_out(&mut self, io: &mut Io, reply: Option<&str>, actions: Vec<Action>) {
        for action in actions {
            self.act(io, reply, action);
        }
        self.work(io);
        self.set_wake(io);
    }

    fn act(&mut self, io: &mut Io, reply: Option<&str>, action: Action) {
        match action {
            Action::Open(open) => {
                self.place(open.session, &open.tenant);
                self.resources
                    .open(io.now, open.session, &open.tenant, open.quota);
                self.resources.set_priority(open.session, open.priority);
                let session = open.session;
                if self.device.open(io, open) {
                    let failure = None;
                    self.event(io, None, Event::Opened { session, failure });
                }
            }
            Action::Return { session, priority } => {
                self.resources.want(io.now, session, priority);
            }
            Action::Start(start) => self.begin(io, start),
            Action::Close { session } => {
                self.device.close(io, session);
                self.release_images(session);
            }
            Action::Stop { session } => self.stop(io, session),
            // These are carried out elsewhere, with their bytes.
            Action::Keep { .. } | Action::Store { .. } => {}
            Action::Forget { session, through } => {
                if let Some(place) = self.sessions.get_mut(&session) {
                    place.ops = place.ops.split_off(&through.saturating_add(1));
                }
            }
            Action::Whole {
                session,
                transfer,
                module,
                known,
            } => self.whole(io, session, transfer, module, known),
            Action::Results { session, first } => self.results(io, session, first),
            Action::ResendResults { session, from } => self.send_results(io, session, from),
            Action::ForgetResults { session, through } => {
                if let Some(place) = self.sessions.get_mut(&session) {
                    place.results = place.results.split_off(&through.saturating_add(1));
                }
            }
            Action::Ended { session } => {
                self.release_images(session);
                self.sessions.remove(&session);
                self.tell_dispatch(io, dispatch::Event::Gone { session });
            }
            other => self.say(io, reply, other),
        }
    }

    /// Starts a slice together with its ops, because the sequencer forgets them now.
    fn begin(&mut self, io: &mut Io, start: StartAction) {
        let mut ops: Vec<D::Op> = Vec::new();
        if let Some(place) = self.sessions.get_mut(&start.session) {
            place.started += 1;
            let kept = |number| place.ops.get(&number).cloned();
            ops.extend((start.first..=start.last).map_while(kept));
        }
        if ops.len() as u64 != start.last + 1 - start.first {
            broken(io, "started a slice of ops that are not all kept");
        }
        let fact = WorkerFact::Started {
            position: start.position,
            session: start.session,
            first: start.first,
            last: start.last,
        };
        self.fact(io, fact);
        let declared = start.declared.filter(|_| D::LOOKS);
        let start = StartAction { declared, ..start };
        self.tell_dispatch(io, dispatch::Event::Started(start, ops));
    }

    /// Carries out an accepted close: the session's running slice ends soon, and the others are dropped.
    fn stop(&mut self, io: &mut Io, session: SessionId) {
        let why = Failure::new(Code::SessionGone, "the session was closed");
        if self.device.stop(io, session, &why) {
            self.tell_dispatch(io, dispatch::Event::Stopped { session, why });
        }
    }

    fn say(&mut self, io: &mut Io, reply: Option<&str>, action: Action) {
        let incarnation = self.identity.incarnation;
        match action {
            Action::Settled(settled) => {
                let fact = WorkerFact::Settled {
                    position: settled.position,
                    kind: settled.kind,
                    session: settled.session,
                    first: settled.first,
                    last: settled.last,
                    outcome: settled.outcome,
                };
                self.fact(io, fact);
            }
            Action::SendDone(done) => {
                let mut bytes = Vec::new();
                done.encode_into(&mut bytes);
                io.publish(self.subjects.done(incarnation), bytes);
            }
            Action::SendAck(ack) => {
                let mut bytes = Vec::new();
                ack.encode_into(&mut bytes);
                let what = ToClient::Worker;
                let subject = self.subjects.to_client(&ack.tenant, ack.session, what);
                io.publish(subject, bytes);
            }
            Action::SealReply(answer) => match reply {
                Some(reply) => io.publish(reply.to_owned(), encode(&*answer)),
                None => broken(io, "answered a seal that no leader asked for"),
            },
            Action::Refuse(refusal) => {
                io.publish(self.subjects.refusal(incarnation), encode(&refusal));
            }
            Action::Reject {
                tenant,
                session,
                failure,
            } => {
                let subject = self.subjects.to_client(&tenant, session, ToClient::Error);
                let message = Rejected {
                    v: WIRE_VERSION,
                    failure,
                };
                io.publish(subject, encode(&message));
            }
            Action::Beat(beat) => self.beat(io, &beat),
            Action::Exit(_) => {
                self.report(io);
                io.exit();
            }
            _ => {}
        }
    }

    fn beat(&mut self, io: &mut Io, beat: &BeatAction) {
        let incarnation = self.identity.incarnation;
        let (images, weights) = (HeldImages(self.images.sample()), self.weights());
        let residency = self.residency();
        let message = WorkerBeat {
            v: WIRE_VERSION,
            incarnation,
            gpu: self.identity.gpu,
            epoch: beat.epoch,
            leader: beat.leader,
            device: "model".into(),
            capacity: self.identity.capacity,
            draining: beat.draining,
            properties: None,
            group: self.group.clone(),
            exclusive: self.exclusive,
            held: self.resources.charged(),
            images: self.sent.0.next(images),
            weights: weights.and_then(|weights| self.sent.1.next(weights)),
            quotas: None,
            residency,
        };
        io.publish(self.subjects.worker_beat(incarnation), encode(&message));
    }

    fn weights(&self) -> Option<Weights> {
        let tenants = self.sessions.values().map(|kept| &kept.tenant);
        self.device.weights(&tenants.collect())
    }

    fn results(&mut self, io: &mut Io, session: SessionId, first: u64) {
        let answers = std::mem::take(&mut self.answers);
        let Some(place) = self.sessions.get_mut(&session) else {
            return broken(io, "results of no session");
        };
        place.results.extend((first..).zip(answers));
        self.send_results(io, session, first);
    }

    fn send_results(&mut self, io: &mut Io, session: SessionId, from: u64) {
        let Some(place) = self.sessions.get(&session) else {
            return;
        };
        let subject = self
            .subjects
            .to_client(&place.tenant, session, ToClient::Result);
        for (number, answer) in place.results.range(from..) {
            let bytes = answer.bytes.as_deref().unwrap_or_default();
            let mut offset = 0;
            loop {
                let end = bytes.len().min(offset + limits::CHUNK_BYTES);
                let message = DeviceResult {
                    v: WIRE_VERSION,
                    number: *number,
                    op: answer.op,
                    kind: match answer.bytes {
                        Some(_) => ResultKind::CopyOut,
                        None => ResultKind::Sync,
                    },
                    device_ns: answer.device_ns,
                    total: bytes.len() as u64,
                    offset: offset as u64,
                    bytes: &bytes[offset..end],
                    events: bus_schemas::Column::default(),
                };
                io.publish(subject.clone(), encode(&message));
                offset = end;
                if offset == bytes.len() {
                    break;
                }
            }
        }
    }
}
