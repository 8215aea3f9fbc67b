//! Messages of clients (batches, staged transfers, acknowledgements of results) and the answers to them.

use bus_schemas::{ClientState, Code, Failure, ModuleHash, SessionId, Tenant};

use super::images::ImageReadiness;
use super::session::{Phase, Session};
use super::staging::{Part, StagedPart};
use super::{Action, BatchEvent, ChunkEvent, Sequencer};
use crate::Nanos;

impl Sequencer {
    /// Returns the session if the tenant may speak for it.
    pub(super) fn own(&mut self, tenant: &Tenant, session: SessionId) -> Option<&mut Session> {
        self.sessions
            .get_mut(session)
            .filter(|entry| entry.tenant == *tenant)
    }

    /// Tells a client that it speaks for no session, at a limited rate.
    pub(super) fn reject(
        &mut self,
        now: Nanos,
        tenant: &Tenant,
        session: SessionId,
        failure: Failure,
        actions: &mut Vec<Action>,
    ) {
        if !self.rejected.admits(now, self.config.refusal_ns, session) {
            return;
        }
        actions.push(Action::Reject {
            tenant: tenant.clone(),
            session,
            failure,
        });
    }

    pub(super) fn reject_gone(
        &mut self,
        now: Nanos,
        tenant: &Tenant,
        session: SessionId,
        actions: &mut Vec<Action>,
    ) {
        let failure = Failure::new(
            Code::SessionGone,
            format!("session {session} has ended or never was on this worker"),
        );
        self.reject(now, tenant, session, failure, actions);
    }

    fn acknowledge(
        &mut self,
        now: Nanos,
        session: SessionId,
        results: u64,
        actions: &mut Vec<Action>,
    ) {
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        if entry.acknowledge(now, results) {
            self.took = true;
            let through = entry.acknowledged;
            actions.push(Action::ForgetResults { session, through });
        }
    }

    pub(super) fn on_batch(
        &mut self,
        now: Nanos,
        batch: &BatchEvent<'_>,
        actions: &mut Vec<Action>,
    ) {
        let room = self
            .config
            .pending_bytes_total
            .saturating_sub(self.pending_bytes);
        let session = batch.session;
        let open = |entry: &&mut Session| entry.phase == Phase::Open;
        if self.own(batch.tenant, session).filter(open).is_none() {
            return self.reject_gone(now, batch.tenant, session, actions);
        }
        self.acknowledge(now, session, batch.results, actions);
        self.want_ack(now, session);
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        if entry.failure.is_some() || batch.count == 0 {
            return;
        }
        let before = entry.pending_bytes;
        match entry.receive(batch, room, &self.config) {
            Ok(Some(kept)) => {
                self.took = true;
                self.pending_bytes += entry.pending_bytes - before;
                if entry.doubt.is_some() {
                    self.report_soon(now);
                }
                actions.push(Action::Keep {
                    session,
                    first: kept.first,
                    count: kept.count,
                    skip: kept.skip,
                });
            }
            Ok(None) => {}
            Err((op, failure)) => self.fail(now, session, op, failure, actions),
        }
    }

    pub(super) fn on_client_state(
        &mut self,
        now: Nanos,
        tenant: &Tenant,
        session: SessionId,
        state: ClientState,
        actions: &mut Vec<Action>,
    ) {
        if self.own(tenant, session).is_none() {
            return self.reject_gone(now, tenant, session, actions);
        }
        self.acknowledge(now, session, state.results, actions);
        self.want_ack(now, session);
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        if state.results < entry.results && entry.has_lost(now, &self.config) {
            entry.results_sent = now;
            let from = entry.acknowledged + 1;
            actions.push(Action::ResendResults { session, from });
        }
    }

    pub(super) fn on_chunk(
        &mut self,
        now: Nanos,
        chunk: &ChunkEvent<'_>,
        actions: &mut Vec<Action>,
    ) {
        let session = chunk.session;
        let room = self.sessions.get(session);
        let room = room.map_or(0, |entry| self.staging_room(entry));
        let open = |entry: &&mut Session| entry.phase == Phase::Open;
        let Some(entry) = self.own(chunk.tenant, session).filter(open) else {
            return self.reject_gone(now, chunk.tenant, session, actions);
        };
        if entry.failure.is_some() {
            return self.want_ack(now, session);
        }
        if chunk.module.is_none() && chunk.total > entry.window.size {
            let why = format!("a copy of {} bytes fits into no window", chunk.total);
            let failure = Failure::new(Code::OutOfMemory, why);
            return self.fail(now, session, 0, failure, actions);
        }
        let known = chunk.image != ImageReadiness::Unknown;
        let before = entry.transfers.reserved;
        let part = Part {
            transfer: chunk.transfer,
            total: chunk.total,
            offset: chunk.offset,
            bytes: chunk.bytes,
            module: chunk.module,
            known,
        };
        let taken = entry.transfers.part(part, room);
        let after = entry.transfers.reserved;
        let here = entry.transfers.has_whole(chunk.transfer);
        if let (Some(hash), true) = (chunk.module, here) {
            entry.images.add(chunk.transfer, hash, chunk.image);
            entry.has_image(hash);
        }
        let lacks = entry.transfers.lacks_room(&part, room);
        self.staged.change(chunk.tenant, before, after);
        self.want_ack(now, session);
        match taken {
            StagedPart::Skip if lacks => {
                if let Some(failure) = self.starved(now, session, chunk.total) {
                    self.fail(now, session, 0, failure, actions);
                }
            }
            StagedPart::Skip => {}
            StagedPart::Malformed(why) => {
                let failure = Failure::new(Code::Malformed, why);
                self.reject(now, chunk.tenant, session, failure, actions);
            }
            StagedPart::Known => self.take_chunk(now, chunk, (false, true), actions),
            StagedPart::Store { whole } => self.take_chunk(now, chunk, (true, whole), actions),
        }
    }

    /// Handles a chunk with bytes to store, or of a transfer that is whole, or both.
    fn take_chunk(
        &mut self,
        now: Nanos,
        chunk: &ChunkEvent<'_>,
        (store, whole): (bool, bool),
        actions: &mut Vec<Action>,
    ) {
        let session = chunk.session;
        self.took |= store || whole;
        if store {
            self.stored(now, session);
            actions.push(Action::Store {
                session,
                transfer: chunk.transfer,
                total: chunk.total,
                offset: chunk.offset,
            });
        }
        if whole {
            self.acks.urge();
            actions.push(Action::Whole {
                session,
                transfer: chunk.transfer,
                module: chunk.module,
                known: !store,
            });
        }
    }

    /// Notes that a session's image has the bytes of its hash.
    pub(super) fn on_image(
        &mut self,
        now: Nanos,
        session: SessionId,
        (transfer, hash): (u64, ModuleHash),
        image: ImageReadiness<'_>,
    ) {
        if let Some(entry) = self.sessions.get_mut(session).filter(|it| it.lives()) {
            entry.images.add(transfer, hash, image);
            entry.has_image(hash);
            if image != ImageReadiness::Preparing {
                self.acks.urge();
            }
            self.want_ack(now, session);
        }
    }

    /// Handles the device's answer about an image. Clients that wait for it get an acknowledgement at once.
    pub(super) fn on_prepared(&mut self, now: Nanos, hash: ModuleHash, refused: Option<&Failure>) {
        let settle = |entry: &mut Session| entry.images.settle(hash, refused);
        let sessions = self.sessions.iter_mut();
        let waiting = sessions.filter_map(|entry| settle(entry).then_some(entry.id));
        for session in waiting.collect::<Vec<_>>() {
            self.acks.urge();
            self.want_ack(now, session);
        }
    }

    /// Sends the acknowledgements that are due.
    pub(super) fn flush_acks(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let due = self.acks.take(now, self.config.ack_ns);
        if due.is_empty() {
            return;
        }
        let room = self.has_staging_room();
        let epoch = self.obeyed.id();
        for session in due {
            if let Some(entry) = self.sessions.get_mut(session) {
                let ack = entry.ack(epoch, room, &self.config);
                actions.push(Action::SendAck(Box::new(ack)));
            }
        }
    }
}
