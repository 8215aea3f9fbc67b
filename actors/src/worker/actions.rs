//! Performs the sequencer's actions: messages, device commands, stored bytes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use bus_schemas::subject::ToClient;
use bus_schemas::{
    Code, Column, DeviceResult, Failure, HeldImages, ModuleHash, OpNumber, SessionId, Tenant,
    WIRE_VERSION, Weights, WorkerBeat, encode,
};
use device::{CopyBytes, OpResult};
use gpu_worker_core::dispatch;
use gpu_worker_core::sequencer::{Action, BeatAction, Event, OpenAction, StartAction};

use super::actor::{GpuWorker, Incoming};
use super::device_command::{Command, Owner};
use super::pager::PagerMessage;
use super::session_buffers::{KeptResult, SessionBuffers, Staging, StartedSlice};
use super::stager::Job;
use crate::publisher::BusPublisher;

/// Session data of this many bytes is returned to the host when the session ends.
const MUCH: usize = 64 << 20;

impl GpuWorker {
    /// Hands an event to the sequencer and performs its actions.
    pub(super) fn handle_event(&mut self, event: Event<'_>, incoming: &mut Incoming<'_>) {
        let mut actions = std::mem::take(&mut self.actions);
        self.core.handle(self.now(), event, &mut actions);
        for action in actions.drain(..) {
            self.perform(action, incoming);
        }
        self.actions = actions;
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn perform(&mut self, action: Action, incoming: &mut Incoming<'_>) {
        match action {
            Action::Keep {
                session,
                first,
                count,
                skip,
            } => self.on_keep(session, first, (count, skip), incoming),
            Action::Store {
                session,
                transfer,
                total,
                offset,
            } => self.on_store(session, transfer, (total, offset), incoming),
            Action::Whole {
                session,
                transfer,
                module,
                known: false,
            } => {
                self.take_image(session, module);
                self.on_whole(session, transfer, module);
            }
            Action::Whole {
                session,
                module,
                known: true,
                ..
            } => self.take_known(session, module),
            Action::Offered {
                session,
                transfer,
                chunks,
                taken,
                whole,
                ..
            } => self.on_offered((session, transfer), &chunks, (taken, whole), incoming),
            Action::Forget { session, through } => self.on_forget(session, through),
            Action::Open(open) => self.on_open(open),
            Action::Start(start) => self.on_start(start),
            Action::Results { session, first } => self.on_results(session, first, incoming),
            Action::ForgetResults { session, through } => {
                if let Some(held) = self.held.get_mut(&session) {
                    held.forget_results(through, &mut self.device.spares());
                }
            }
            Action::Stop { session } => self.on_stop(session),
            Action::Close { session } => {
                self.device.command(Command::Close(session));
                self.release_images(session);
            }
            Action::Return { session, priority } => {
                self.pager.do_send(PagerMessage::Want { session, priority });
            }
            Action::Ended { session } => self.on_ended(session),
            Action::Settled(settled) => {
                if let Some(evidence) = &self.evidence {
                    evidence.settled(&settled);
                }
            }
            Action::Reject {
                tenant,
                session,
                failure,
            } => self.reject(&tenant, session, failure),
            Action::Exit(reason) => self.left = Some(reason),
            Action::Beat(beat) => self.on_beat(beat),
            Action::SendAck(_)
            | Action::SendDone(_)
            | Action::ResendResults { .. }
            | Action::SealReply(_)
            | Action::Refuse(_) => self.publish(action, incoming),
        }
    }

    /// Publishes a message of the sequencer.
    fn publish(&self, action: Action, incoming: &Incoming<'_>) {
        match action {
            Action::SendAck(ack) => {
                if let Some(held) = self.held.get(&ack.session) {
                    let mut bytes = Vec::with_capacity(192);
                    ack.encode_into(&mut bytes);
                    self.outgoing.publish(held.acks.clone(), bytes);
                }
            }
            Action::SendDone(done) => {
                let mut bytes = Vec::with_capacity(160 + 64 * done.reports.len());
                done.encode_into(&mut bytes);
                self.outgoing.publish(self.subjects.done.clone(), bytes);
            }
            Action::ResendResults { session, from } => {
                if let Some(held) = self.held.get(&session) {
                    let again = held.results.iter().filter(|result| result.number >= from);
                    again.for_each(|result| publish_result(&self.outgoing, held, result));
                }
            }
            Action::SealReply(reply) => {
                if let Incoming::Seal(Some(to)) = incoming {
                    self.outgoing.publish(to.clone(), encode(&*reply));
                }
            }
            Action::Refuse(refusal) => {
                let to = self.subjects.refusal.clone();
                self.outgoing.publish(to, encode(&refusal));
            }
            _ => {}
        }
    }

    /// Keeps ops of the current batch.
    fn on_keep(
        &mut self,
        session: SessionId,
        first: OpNumber,
        (count, skip): (u32, u32),
        incoming: &Incoming<'_>,
    ) {
        let Incoming::Batch(tenant, bytes, columns) = incoming else {
            return;
        };
        let held = self.hold(session, tenant);
        held.keep((*bytes).clone(), columns.clone(), first, skip, count);
        self.spans.kept(session, first, count);
        if self.core.load().0 == 0 {
            // Their grant is on its way: the thread should be awake by then.
            self.device.command(Command::Wake);
        }
    }

    /// Drops ops that are done, and with the last of them the session's transfers.
    fn on_forget(&mut self, session: SessionId, through: OpNumber) {
        if let Some(held) = self.held.get_mut(&session) {
            held.forget(through);
            if through == OpNumber::MAX && held.forget_transfers() >= MUCH {
                self.stager.give_back();
            }
        }
    }

    fn on_ended(&mut self, session: SessionId) {
        self.release_images(session);
        self.held.remove(&session);
        self.weights.close(session);
        self.content.closed(session);
        self.spans.ended(session);
        self.dispatch.handle(dispatch::Event::Gone { session });
    }

    /// Returns the buffers of a session; creates them if missing. A client may send as soon as the
    /// open grant is accepted. On a busy device that is long before the grant is carried out.
    pub(super) fn hold(&mut self, session: SessionId, tenant: &Tenant) -> &mut SessionBuffers {
        let subjects = &self.subjects.all;
        self.held.entry(session).or_insert_with(|| {
            let acks = subjects.to_client(tenant, session, ToClient::Worker);
            let answers = subjects.to_client(tenant, session, ToClient::Result);
            SessionBuffers::new(tenant.clone(), acks.into(), answers.into())
        })
    }

    fn on_open(&mut self, open: OpenAction) {
        self.hold(open.session, &open.tenant);
        self.spans.opened(open.session, &open.tenant);
        let owner = Owner {
            tenant: self.sharing.number(&open.tenant),
            domain: self.sharing.of(&open.tenant),
        };
        self.pager.do_send(PagerMessage::Open {
            session: open.session,
            tenant: open.tenant,
            quota: open.quota,
            priority: open.priority,
        });
        self.device
            .command(Command::Open(open.session, open.window, owner));
    }

    /// Notes that all bytes of a transfer have arrived.
    fn on_whole(&mut self, session: SessionId, transfer: u64, module: Option<ModuleHash>) {
        let Some(held) = self.held.get_mut(&session) else {
            return;
        };
        let is_offered = held.offered.contains_key(&transfer);
        let Some(staging) = held.transfers.get_mut(&transfer) else {
            return;
        };
        let Staging::Filling(bytes) = staging else {
            return;
        };
        if is_offered {
            return self.keep_chunks(session, transfer);
        }
        let bytes = std::mem::take(bytes);
        let Some(module) = module else {
            *staging = Staging::Whole(Arc::new(CopyBytes::Sent(bytes)));
            return;
        };
        *staging = Staging::Finishing(module);
        let finished = self.stager.finish(Job {
            session,
            transfer,
            bytes,
            module,
        });
        if let Some(finished) = finished {
            self.on_finished(finished);
        }
    }

    fn on_store(
        &mut self,
        session: SessionId,
        transfer: u64,
        (total, offset): (u64, u64),
        incoming: &Incoming<'_>,
    ) {
        let Incoming::Chunk(tenant, bytes) = incoming else {
            return;
        };
        self.hold(session, tenant);
        let Some(held) = self.held.get_mut(&session) else {
            return;
        };
        // The sequencer has checked sizes against the bounds of the protocol and of this worker.
        let staging = held
            .transfers
            .entry(transfer)
            .or_insert_with(|| Staging::Filling(self.device.spares().parcel(total as usize)));
        if let Staging::Filling(parcel) = staging
            && parcel.len() as u64 == total
        {
            parcel.write(offset as usize, bytes);
        }
    }

    fn on_beat(&mut self, beat: BeatAction) {
        let residency = self.residency.lock();
        let residency = residency.unwrap_or_else(PoisonError::into_inner).clone();
        let message = WorkerBeat {
            v: WIRE_VERSION,
            incarnation: self.identity.incarnation,
            gpu: self.identity.gpu,
            epoch: beat.epoch,
            leader: beat.leader,
            device: self.identity.properties.name.clone(),
            capacity: self.identity.capacity,
            draining: beat.draining,
            properties: Some(self.identity.properties.clone()),
            group: Some(self.identity.group.clone()),
            exclusive: self.identity.exclusive,
            held: self.resident.load(Ordering::Relaxed),
            images: self.sent.images.next(HeldImages(self.images.sample())),
            weights: self.sent.weights.next(Weights(self.weights.sample())),
            quotas: Some(self.quotas.of(beat.epoch)),
            residency: residency.and_then(|residency| self.sent.residency.next(residency)),
        };
        let to = self.subjects.beat.clone();
        self.outgoing.publish(to, encode(&message));
    }

    fn on_results(&mut self, session: SessionId, first: u64, incoming: &mut Incoming<'_>) {
        let (Some(held), Incoming::Results(answers)) = (self.held.get_mut(&session), incoming)
        else {
            return;
        };
        for (number, result) in (first..).zip(answers.results.drain(..)) {
            let OpResult {
                op,
                kind,
                bytes,
                printed,
                device_ns,
            } = result;
            while let Some(event) = answers.events.pop_front_if(|(at, _)| *at < op) {
                held.events.add([event]);
            }
            let since_ns = held.since_ns + device_ns.saturating_sub(answers.reported_ns);
            let bytes = bytes.unwrap_or_else(|| printed[..].into());
            let total = bytes.len() as u64;
            let answer = KeptResult {
                number,
                kind,
                total,
                messages: bytes.seal(|offset| DeviceResult {
                    v: WIRE_VERSION,
                    number,
                    op,
                    kind,
                    device_ns: since_ns,
                    total,
                    offset,
                    bytes: &[],
                    events: Column::default(),
                }),
                events: held.events.take(),
            };
            held.since_ns = 0;
            answers.reported_ns = device_ns.max(answers.reported_ns);
            publish_result(&self.outgoing, held, &answer);
            held.keep_result(answer);
        }
    }

    fn on_start(&mut self, start: StartAction) {
        let Some(held) = self.held.get_mut(&start.session) else {
            return;
        };
        let ops = held.take(start.first, start.last);
        held.started.push_back(StartedSlice {
            first: start.first,
            last: start.last,
            declared: 0,
            priority: start.priority,
            launches: None,
        });
        self.spans.started(start);
        self.handle_dispatch(dispatch::Event::Started(start, ops));
    }

    /// Stops what a closing session has under way.
    fn on_stop(&mut self, session: SessionId) {
        let why = Failure::new(Code::SessionGone, "the session was closed");
        self.pager.do_send(PagerMessage::Closing { session });
        self.device.command(Command::Stop(session, why.clone()));
        self.handle_dispatch(dispatch::Event::Stopped { session, why });
    }
}

/// Publishes a result.
fn publish_result(outgoing: &BusPublisher, held: &SessionBuffers, answer: &KeptResult) {
    for message in answer.messages() {
        outgoing.publish(held.answers.clone(), message);
    }
}
