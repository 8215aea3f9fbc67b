//! The sequencer's decisions, carried out.

use bus_schemas::subject::ToClient;
use bus_schemas::{
    Code, Failure, HeldImages, OpNumber, SessionId, Tenant, Weights, WorkerBeat, encode,
};
use bytes::Bytes;

use super::copies::OfferedPart;
use super::sessions::Transfer;
use super::turn::{Current, Turn};
use super::{Action, BatchPart, Buffers, Command, To, Worker};
use crate::dispatch;
use crate::sequencer::{self, AckMessage, BeatAction, DoneMessage, Event, OpenAction, StartAction};

impl<B: Buffers> Worker<B> {
    /// Hands an event to the sequencer and carries out its actions.
    pub(super) fn decide(
        &mut self,
        turn: &mut Turn<'_, B>,
        event: Event<'_>,
        current: &mut Current<'_, B>,
    ) {
        let mut actions = std::mem::take(&mut self.decided);
        self.sequencer.handle(turn.now, event, &mut actions);
        // Completed work was accounted for before.
        self.resources.reported(self.sequencer.reports());
        for action in actions.drain(..) {
            self.carry_out(turn, action, current);
        }
        self.decided = actions;
    }

    /// Fails a session.
    pub(super) fn fail(&mut self, turn: &mut Turn<'_, B>, session: SessionId, failure: &Failure) {
        let event = Event::Fault {
            session,
            op: 0,
            failure,
        };
        self.decide(turn, event, &mut Current::Nothing);
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each action")]
    fn carry_out(
        &mut self,
        turn: &mut Turn<'_, B>,
        action: sequencer::Action,
        current: &mut Current<'_, B>,
    ) {
        use sequencer::Action as Decided;
        match action {
            Decided::Keep {
                session,
                first,
                count,
                skip,
            } => self.on_keep(turn, session, (first, skip, count), current),
            Decided::Store {
                session,
                transfer,
                total,
                offset,
            } => self.on_store((session, transfer), (total, offset), current),
            Decided::Whole {
                session,
                transfer,
                module,
                known,
            } => {
                if let Current::Chunk(tenant, _) = current {
                    // A known image is complete with its first chunk, which may come before the session's
                    // first batch.
                    self.sessions.hold(session, tenant);
                }
                self.on_whole(turn, (session, transfer), module, known);
            }
            Decided::Offered {
                session,
                transfer,
                total,
                chunks,
                taken,
                whole,
            } => {
                let part = OfferedPart {
                    chunks,
                    taken,
                    whole,
                };
                self.on_offered((session, transfer), total, &part, current);
            }
            Decided::Forget { session, through } => self.on_forget(session, through),
            Decided::Open(open) => self.on_open(turn, open),
            Decided::Start(start) => self.on_start(turn, start),
            Decided::Results { session, first } => self.on_results(turn, session, first, current),
            Decided::ResendResults { session, from } => self.on_resend(turn, session, from),
            Decided::ForgetResults { session, through } => {
                if let Some(entry) = self.sessions.get_mut(session) {
                    let buffers = &mut self.buffers;
                    entry.results.forget(through, &mut |it| buffers.recycle(it));
                }
            }
            Decided::Stop { session } => self.on_stop(turn, session),
            Decided::Close { session } => {
                turn.command(Command::Close(session));
                self.release_images(turn, session);
            }
            Decided::Return { session, priority } => {
                self.changed = true;
                self.resources.want(turn.now, session, priority);
            }
            Decided::Ended { session } => self.on_ended(turn, session),
            Decided::Settled(settled) => turn.actions.push(Action::Settled(settled)),
            Decided::SendAck(ack) => on_ack(turn, &ack),
            Decided::SendDone(done) => on_done(turn, &done),
            Decided::SealReply(reply) => turn.publish(To::Reply, encode(&*reply)),
            Decided::Refuse(refusal) => turn.publish(To::Refusal, encode(&refusal)),
            Decided::Reject {
                tenant,
                session,
                failure,
            } => turn.reject(tenant, session, failure),
            Decided::Beat(beat) => self.on_beat(turn, beat),
            Decided::Exit(reason) => turn.actions.push(Action::Exit(reason)),
        }
    }

    /// Keeps ops of the current batch.
    fn on_keep(
        &mut self,
        turn: &mut Turn<'_, B>,
        session: SessionId,
        (first, skip, count): (OpNumber, u32, u32),
        current: &Current<'_, B>,
    ) {
        let Current::Batch(tenant, payload, batch, ops) = *current else {
            return;
        };
        self.sessions.hold(session, tenant);
        let part = BatchPart {
            payload,
            batch,
            ops,
            first,
            skip,
            count,
        };
        self.buffers.keep(session, part);
        if self.sequencer.load().0 == 0 {
            // Their grant is on its way: the device's thread should be awake by then.
            turn.command(Command::Wake);
        }
    }

    fn on_store(
        &mut self,
        (session, transfer): (SessionId, u64),
        (total, offset): (u64, u64),
        current: &Current<'_, B>,
    ) {
        let Current::Chunk(tenant, bytes) = *current else {
            return;
        };
        let entry = self.sessions.hold(session, tenant);
        // The sequencer has checked sizes against the bounds of the protocol and of this worker.
        let state = entry.transfers.entry(transfer);
        if *state.or_insert(Transfer::Coming(total)) == Transfer::Coming(total) {
            self.buffers.store(session, transfer, total, offset, bytes);
        }
    }

    /// Drops ops that are done, and with the last of them the session's transfers.
    fn on_forget(&mut self, session: SessionId, through: OpNumber) {
        self.buffers.forget(session, through);
        if through == OpNumber::MAX
            && let Some(entry) = self.sessions.get_mut(session)
        {
            entry.transfers.clear();
            self.buffers.drop_transfers(session);
            self.copies.drop_transfers(session);
        }
    }

    fn on_open(&mut self, turn: &mut Turn<'_, B>, open: OpenAction) {
        let (session, tenant) = (open.session, &open.tenant);
        self.sessions.hold(session, tenant);
        self.resources.open(turn.now, session, tenant, open.quota);
        self.resources.set_priority(session, open.priority);
        self.changed = true;
        let owner = self.copies.sharing.owner(tenant);
        turn.command(Command::Open(open, owner));
    }

    /// Starts a slice together with its ops, because the sequencer forgets them now.
    fn on_start(&mut self, turn: &mut Turn<'_, B>, start: StartAction) {
        let Some(entry) = self.sessions.get_mut(start.session) else {
            return;
        };
        entry.start(&start);
        let ops = self.buffers.take(start.session, start.first, start.last);
        let declared = start.declared.filter(|_| B::SCANS);
        let start = StartAction { declared, ..start };
        turn.actions.push(Action::Started(start));
        self.dispatch(turn, dispatch::Event::Started(start, ops));
    }

    /// Stops what a closing session has under way.
    fn on_stop(&mut self, turn: &mut Turn<'_, B>, session: SessionId) {
        let why = Failure::new(Code::SessionGone, "the session was closed");
        self.resources.closing(session);
        self.changed = true;
        turn.command(Command::Stop(session, why.clone()));
        self.dispatch(turn, dispatch::Event::Stopped { session, why });
    }

    fn on_ended(&mut self, turn: &mut Turn<'_, B>, session: SessionId) {
        self.release_images(turn, session);
        self.sessions.remove(session);
        self.buffers.close(session);
        self.copies.closed(session);
        self.weights.close(session);
        self.compiled.retain(|(of, ..)| *of != session);
        turn.actions.push(Action::Ended(session));
        self.dispatch(turn, dispatch::Event::Gone { session });
    }

    fn on_results(
        &mut self,
        turn: &mut Turn<'_, B>,
        session: SessionId,
        first: u64,
        current: &mut Current<'_, B>,
    ) {
        let (Some(entry), Current::Results(answers)) = (self.sessions.get_mut(session), current)
        else {
            return;
        };
        let tenant = &entry.tenant;
        let mut send = |message| turn.publish(result_of(tenant, session), message);
        entry.results.keep(first, answers, &mut send);
    }

    fn on_resend(&self, turn: &mut Turn<'_, B>, session: SessionId, from: u64) {
        if let Some(entry) = self.sessions.get(session) {
            let tenant = &entry.tenant;
            let mut send = |message| turn.publish(result_of(tenant, session), message);
            entry.results.resend(from, &mut send);
        }
    }

    fn on_beat(&mut self, turn: &mut Turn<'_, B>, beat: BeatAction) {
        let residency = self.resources.residency_report();
        let message = WorkerBeat {
            epoch: beat.epoch,
            leader: beat.leader,
            draining: beat.draining,
            held: self.resources.charged(),
            images: self.sent.images.next(HeldImages(self.images.sample())),
            weights: self.sent.weights.next(Weights(self.weights.sample())),
            quotas: Some(self.quotas.of(beat.epoch)),
            residency: residency.and_then(|residency| self.sent.residency.next(residency)),
            ..self.beat.clone()
        };
        turn.publish(To::Beat, encode(&message));
    }
}

fn result_of(tenant: &Tenant, session: SessionId) -> To {
    To::Client(tenant.clone(), session, ToClient::Result)
}

fn on_ack<B: Buffers>(turn: &mut Turn<'_, B>, ack: &AckMessage) {
    let mut bytes = Vec::with_capacity(192);
    ack.encode_into(&mut bytes);
    let to = To::Client(ack.tenant.clone(), ack.session, ToClient::Worker);
    turn.publish(to, Bytes::from(bytes));
}

fn on_done<B: Buffers>(turn: &mut Turn<'_, B>, done: &DoneMessage) {
    let mut bytes = Vec::with_capacity(160 + 64 * done.reports.len());
    done.encode_into(&mut bytes);
    turn.publish(To::Done, Bytes::from(bytes));
}
