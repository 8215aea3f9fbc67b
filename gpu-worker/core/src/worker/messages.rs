//! Messages of the bus on their way to the sequencer and the pager, and the answers to malformed ones.

use bus_schemas::subject::{ToWorker, WorkerSubject};
use bus_schemas::{
    Batch, ClientState, DataChunk, Failure, GrantBatch, IpcRequest, Leave, Lost, MemoryRequest,
    MemoryStatusRequest, MessageError, Quotas, Seal, SessionId, Tenant, decode, encode,
};

use super::turn::{Current, Turn};
use super::{Action, Buffers, To, Worker};
use crate::Nanos;
use crate::images::ImageState;
use crate::memory_report::PageLimits;
use crate::sequencer::{BatchEvent, BatchFacts, ChunkEvent, Event};

/// Minimum interval between two answers to a session's malformed messages.
const REJECT_APART_NS: Nanos = 10_000_000;

impl<B: Buffers> Worker<B> {
    pub(super) fn on_message(
        &mut self,
        turn: &mut Turn<'_, B>,
        subject: &WorkerSubject,
        payload: &B::Payload,
    ) {
        let handled = match subject {
            WorkerSubject::Tenant(tenant, session, what) => {
                let handled = self.on_tenant(turn, (tenant, *session), *what, payload);
                self.is_sound = handled.is_ok();
                if let Err(error) = handled {
                    self.on_malformed(turn, tenant, *session, error.into());
                }
                return;
            }
            WorkerSubject::GrantBatch => self.on_grants(turn, payload.as_ref()),
            WorkerSubject::Lost => self.on_lost(turn, payload.as_ref()),
            WorkerSubject::Leave => self.on_leave(turn, payload.as_ref()),
            WorkerSubject::Seal => self.on_seal(turn, payload.as_ref()),
            WorkerSubject::Quotas => self.on_quotas(turn, payload.as_ref()),
            WorkerSubject::Memory => self.on_status(turn, None, payload.as_ref()),
            WorkerSubject::TenantMemory(tenant) => {
                self.on_status(turn, Some(tenant), payload.as_ref())
            }
        };
        if let Err(error) = handled {
            turn.actions.push(Action::Malformed(error));
        }
    }

    fn on_tenant(
        &mut self,
        turn: &mut Turn<'_, B>,
        (tenant, session): (&Tenant, SessionId),
        what: ToWorker,
        payload: &B::Payload,
    ) -> Result<(), MessageError> {
        let bytes = payload.as_ref();
        match what {
            ToWorker::Batch => self.on_batch(turn, (tenant, session), payload)?,
            ToWorker::Data => self.on_chunk(turn, (tenant, session), bytes)?,
            ToWorker::State => {
                let state: ClientState = decode(bytes)?;
                let event = Event::ClientState {
                    tenant,
                    session,
                    state,
                };
                self.decide(turn, event, &mut Current::Nothing);
            }
            ToWorker::Memory => {
                let request: MemoryRequest = decode(bytes)?;
                self.on_request(turn, (tenant, session), &request);
            }
            ToWorker::Ipc => {
                let request: IpcRequest = decode(bytes)?;
                self.on_ipc(turn, (tenant, session), request);
            }
            ToWorker::Offer => self.on_offer(turn, (tenant, session), payload)?,
        }
        Ok(())
    }

    fn on_grants(&mut self, turn: &mut Turn<'_, B>, payload: &[u8]) -> Result<(), MessageError> {
        let batch: GrantBatch<'_> = decode(payload)?;
        self.decide(turn, Event::GrantBatch(&batch), &mut Current::Nothing);
        Ok(())
    }

    fn on_lost(&mut self, turn: &mut Turn<'_, B>, payload: &[u8]) -> Result<(), MessageError> {
        let lost: Lost = decode(payload)?;
        self.decide(turn, Event::Lost(&lost), &mut Current::Nothing);
        Ok(())
    }

    fn on_leave(&mut self, turn: &mut Turn<'_, B>, payload: &[u8]) -> Result<(), MessageError> {
        let leave: Leave = decode(payload)?;
        self.decide(turn, Event::Leave(&leave), &mut Current::Nothing);
        Ok(())
    }

    fn on_seal(&mut self, turn: &mut Turn<'_, B>, payload: &[u8]) -> Result<(), MessageError> {
        let seal: Seal = decode(payload)?;
        self.decide(turn, Event::Seal(&seal), &mut Current::Nothing);
        Ok(())
    }

    /// Takes quotas, if they are of the leader that this worker obeys.
    fn on_quotas(&mut self, turn: &mut Turn<'_, B>, payload: &[u8]) -> Result<(), MessageError> {
        let list: Quotas = decode(payload)?;
        if self.sequencer.obeys(list.epoch, list.leader) && self.quotas.take(&list) {
            self.resources
                .set_quotas(turn.now, list.quotas, list.pinned);
            self.changed = true;
        }
        turn.actions.push(Action::Tenants(list.tenants));
        Ok(())
    }

    /// Answers a request for the use of the device's memory: of one tenant, or of all for an administrator. A
    /// tenant that asks too often gets no answer and asks again.
    fn on_status(
        &mut self,
        turn: &mut Turn<'_, B>,
        of: Option<&Tenant>,
        payload: &[u8],
    ) -> Result<(), MessageError> {
        let request: MemoryStatusRequest = decode(payload)?;
        if of.is_some_and(|tenant| !self.answered.admits(turn.now, tenant)) {
            return Ok(());
        }
        let running = self
            .sessions
            .with_launches(self.overlaps, self.completed_at);
        let worker = (self.beat.incarnation, self.beat.gpu);
        let report = self.resources.memory_report(turn.now, worker, &running);
        let status = match of {
            Some(tenant) => report.of(tenant),
            None => report.page(request.after.as_ref(), PageLimits::default()),
        };
        turn.publish(To::Reply, encode(&status));
        Ok(())
    }

    fn on_batch(
        &mut self,
        turn: &mut Turn<'_, B>,
        (tenant, session): (&Tenant, SessionId),
        payload: &B::Payload,
    ) -> Result<(), MessageError> {
        let bytes = payload.as_ref();
        let batch: Batch<'_> = decode(bytes)?;
        let ops = batch.ops();
        let ops = ops.map_err(|error| MessageError::Malformed(error.to_string()))?;
        let is_given = |hash| self.images.is_given(tenant, hash);
        let facts = BatchFacts::of(batch.first, ops.iter().map(|op| op.op), is_given);
        let event = BatchEvent {
            tenant,
            session,
            first: batch.first,
            count: batch.count,
            results: batch.results,
            bytes: bytes.len() as u64,
            outs: &facts.outs,
            staged: &facts.staged,
            loads: &facts.loads,
        };
        let mut current = Current::Batch(tenant, payload, &batch, &ops);
        self.decide(turn, Event::Batch(event), &mut current);
        Ok(())
    }

    fn on_chunk(
        &mut self,
        turn: &mut Turn<'_, B>,
        (tenant, session): (&Tenant, SessionId),
        payload: &[u8],
    ) -> Result<(), MessageError> {
        let chunk: DataChunk<'_> = decode(payload)?;
        let module = chunk.module();
        if module.is_none() && !chunk.hash.is_empty() {
            let why = "a module's hash has 32 bytes";
            return Err(MessageError::Malformed(why.into()));
        }
        let most = self.sequencer.modules_most(session);
        let known = |hash| self.images.known(tenant, hash, most);
        let state = module.map_or(ImageState::Unknown, known);
        let event = ChunkEvent {
            tenant,
            session,
            transfer: chunk.transfer,
            total: chunk.total,
            offset: chunk.offset,
            bytes: chunk.bytes.len() as u64,
            module,
            image: (&state).into(),
        };
        let mut current = Current::Chunk(tenant, chunk.bytes);
        self.decide(turn, Event::Chunk(event), &mut current);
        Ok(())
    }

    /// Tells the client what was wrong with a message, at a bounded rate; nothing else happens.
    fn on_malformed(
        &mut self,
        turn: &mut Turn<'_, B>,
        tenant: &Tenant,
        session: SessionId,
        failure: Failure,
    ) {
        if self.rejected.admits(turn.now, REJECT_APART_NS, session) {
            turn.reject(tenant.clone(), session, failure);
        }
    }
}
