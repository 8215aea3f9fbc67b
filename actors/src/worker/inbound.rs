//! Messages of the bus on their way to the sequencer, and the answers to malformed ones.

use std::ops::Range;

use actix::{Context, StreamHandler};
use bus_schemas::subject::{ToClient, ToWorker, WorkerSubject};
use bus_schemas::{
    Batch, ClientState, DESCRIPTOR_BYTES, DataChunk, Failure, GrantBatch, Leave, Lost,
    MemoryRequest, MessageError, Quotas, Rejected, Seal, SessionId, Tenant, WIRE_VERSION, decode,
    encode,
};
use bytes::Bytes;
use gpu_worker_core::images::ImageState;
use gpu_worker_core::sequencer::{BatchEvent, BatchFacts, ChunkEvent, Event};

use super::actor::{GpuWorker, Incoming};
use super::pager::PagerMessage;
use crate::inbox::{Handled, Waste};

/// Minimum interval between two answers to a session's malformed messages.
const REJECT_APART_NS: u64 = 10_000_000;

impl StreamHandler<async_nats::Message> for GpuWorker {
    fn handle(&mut self, message: async_nats::Message, ctx: &mut Context<Self>) {
        self.on_message(&message);
        self.settle(ctx);
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        // The connection is closed for good; the role decides the fate of the worker.
    }
}

impl GpuWorker {
    fn on_message(&mut self, message: &async_nats::Message) {
        self.spans.received(message);
        match self.subjects.all.parse_worker(&message.subject) {
            Some(WorkerSubject::Tenant(tenant, session, what)) => {
                let bytes = message.payload.len();
                if !self.tenants.hears(&tenant, bytes) {
                    return;
                }
                let handled = match what {
                    ToWorker::Batch => self.on_batch(&tenant, session, &message.payload),
                    ToWorker::Data => self.on_chunk(&tenant, session, &message.payload),
                    ToWorker::State => self.on_state(&tenant, session, &message.payload),
                    ToWorker::Offer => self.on_offer(&tenant, session, &message.payload),
                    ToWorker::Memory => self.on_memory(&tenant, session, &message.payload),
                    ToWorker::Ipc => self.on_ipc(&tenant, session, &message.payload),
                };
                self.count((&tenant, session), (what, bytes), handled.is_ok());
                if let Err(error) = handled {
                    self.on_malformed(&tenant, session, error.into());
                }
            }
            Some(WorkerSubject::GrantBatch) => self.on_leader(&message.payload, Self::on_grants),
            Some(WorkerSubject::Lost) => self.on_leader(&message.payload, Self::on_lost),
            Some(WorkerSubject::Leave) => self.on_leader(&message.payload, Self::on_leave),
            Some(WorkerSubject::Quotas) => self.on_leader(&message.payload, Self::on_quotas),
            Some(WorkerSubject::Seal) => {
                let reply = message.reply.clone();
                self.on_leader(&message.payload, |worker, bytes| {
                    let seal: Seal = decode(bytes)?;
                    worker.handle_event(Event::Seal(&seal), &mut Incoming::Seal(reply));
                    Ok(())
                });
            }
            Some(WorkerSubject::Memory) => self.on_memory_status(None, message),
            Some(WorkerSubject::TenantMemory(tenant)) => {
                let bytes = message.payload.len();
                if self.tenants.hears(&tenant, bytes) {
                    self.tenants.knows(&tenant);
                    self.tenants.wasted(&tenant, Waste::Whole, bytes);
                    self.on_memory_status(Some(tenant), message);
                }
            }
            None => self.malformed += 1,
        }
    }

    /// Charges a tenant's message of a session if it was useless.
    fn count(
        &self,
        (tenant, session): (&Tenant, SessionId),
        (what, bytes): (ToWorker, usize),
        is_sound: bool,
    ) {
        let handled = Handled {
            sound: is_sound,
            open: self.core.quota(session, tenant).is_some(),
            took: self.core.took(),
        };
        if handled.sound && handled.open {
            self.tenants.knows(tenant);
        }
        if let Some(waste) = Waste::at_worker(what, handled) {
            self.tenants.wasted(tenant, waste, bytes);
        }
    }

    fn on_leader(
        &mut self,
        payload: &[u8],
        handle: impl FnOnce(&mut Self, &[u8]) -> Result<(), MessageError>,
    ) {
        if let Err(error) = handle(self, payload) {
            self.malformed += 1;
            if self.malformed.is_power_of_two() {
                tracing::warn!(%error, count = self.malformed, "a message meant nothing");
            }
        }
    }

    fn on_grants(&mut self, payload: &[u8]) -> Result<(), MessageError> {
        let batch: GrantBatch<'_> = decode(payload)?;
        self.handle_event(Event::GrantBatch(&batch), &mut Incoming::Nothing);
        Ok(())
    }

    fn on_lost(&mut self, payload: &[u8]) -> Result<(), MessageError> {
        let lost: Lost = decode(payload)?;
        self.handle_event(Event::Lost(&lost), &mut Incoming::Nothing);
        Ok(())
    }

    fn on_leave(&mut self, payload: &[u8]) -> Result<(), MessageError> {
        let leave: Leave = decode(payload)?;
        self.handle_event(Event::Leave(&leave), &mut Incoming::Nothing);
        Ok(())
    }

    /// Passes quotas to the pager, if they are of the leader that this worker obeys.
    fn on_quotas(&mut self, payload: &[u8]) -> Result<(), MessageError> {
        let quotas: Quotas = decode(payload)?;
        for tenant in &quotas.tenants {
            self.tenants.knows(tenant);
        }
        if self.core.obeys(quotas.epoch, quotas.leader) && self.quotas.take(&quotas) {
            self.pager
                .do_send(PagerMessage::Quotas(quotas.quotas, quotas.pinned));
        }
        Ok(())
    }

    fn on_batch(
        &mut self,
        tenant: &Tenant,
        session: SessionId,
        payload: &Bytes,
    ) -> Result<(), MessageError> {
        let batch: Batch<'_> = decode(payload)?;
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
            bytes: payload.len() as u64,
            outs: &facts.outs,
            staged: &facts.staged,
            loads: &facts.loads,
        };
        let columns = (
            place(payload, batch.descriptors),
            place(payload, batch.blob),
        );
        debug_assert_eq!(columns.0.len(), batch.count as usize * DESCRIPTOR_BYTES);
        self.handle_event(
            Event::Batch(event),
            &mut Incoming::Batch(tenant, payload, columns),
        );
        Ok(())
    }

    fn on_chunk(
        &mut self,
        tenant: &Tenant,
        session: SessionId,
        payload: &[u8],
    ) -> Result<(), MessageError> {
        let chunk: DataChunk<'_> = decode(payload)?;
        let module = chunk.module();
        if module.is_none() && !chunk.hash.is_empty() {
            let why = "a module's hash has 32 bytes";
            return Err(MessageError::Malformed(why.into()));
        }
        let most = self.core.modules_most(session);
        let state = module.map_or(ImageState::Unknown, |hash| {
            self.images.known(tenant, hash, most)
        });
        let image = (&state).into();
        let event = ChunkEvent {
            tenant,
            session,
            transfer: chunk.transfer,
            total: chunk.total,
            offset: chunk.offset,
            bytes: chunk.bytes.len() as u64,
            module,
            image,
        };
        self.handle_event(
            Event::Chunk(event),
            &mut Incoming::Chunk(tenant, chunk.bytes),
        );
        Ok(())
    }

    fn on_state(
        &mut self,
        tenant: &Tenant,
        session: SessionId,
        payload: &[u8],
    ) -> Result<(), MessageError> {
        let state: ClientState = decode(payload)?;
        let event = Event::ClientState {
            tenant,
            session,
            state,
        };
        self.handle_event(event, &mut Incoming::Nothing);
        Ok(())
    }

    /// Passes a request for memory to the pager. A session may ask as soon as its open grant is
    /// accepted. Behind a long kernel it would wait long for the device to reach that grant.
    fn on_memory(
        &mut self,
        tenant: &Tenant,
        session: SessionId,
        payload: &[u8],
    ) -> Result<(), MessageError> {
        let request: MemoryRequest = decode(payload)?;
        let Some(quota) = self.core.quota(session, tenant) else {
            return Ok(());
        };
        let message = PagerMessage::Request {
            session,
            tenant: tenant.clone(),
            quota,
            request,
        };
        // If the request finds no room, the client asks again.
        let _ = self.pager.try_send(message);
        Ok(())
    }

    /// Tells the client what was wrong, at a bounded rate; nothing else happens.
    fn on_malformed(&mut self, tenant: &Tenant, session: SessionId, failure: Failure) {
        self.malformed += 1;
        if self.rejected.admits(self.now(), REJECT_APART_NS, session) {
            self.reject(tenant, session, failure);
        }
    }

    pub(super) fn reject(&mut self, tenant: &Tenant, session: SessionId, failure: Failure) {
        let subject = self
            .subjects
            .all
            .to_client(tenant, session, ToClient::Error);
        let rejected = Rejected {
            v: WIRE_VERSION,
            failure,
        };
        self.outgoing.publish(subject.into(), encode(&rejected));
    }
}

/// Returns the place in the payload of a column that was borrowed from it.
fn place(payload: &[u8], column: &[u8]) -> Range<usize> {
    let start = (column.as_ptr() as usize).saturating_sub(payload.as_ptr() as usize);
    if column.is_empty() {
        return 0..0;
    }
    start..start + column.len()
}
