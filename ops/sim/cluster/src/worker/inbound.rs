//! Messages that a worker receives.

use bus_schemas::subject::{ToWorker, WorkerSubject};
use bus_schemas::{Batch, DataChunk, GrantBatch, Leave, Lost, Seal, SessionId, Tenant, decode};
use gpu_worker_core::images::ImageState;
use gpu_worker_core::sequencer::{Action, BatchEvent, BatchFacts, ChunkEvent, Event};

use super::device::SimDevice;
use super::{WorkerNode, broken};
use crate::network::Packet;
use crate::node::Io;

impl<D: SimDevice> WorkerNode<D> {
    pub(super) fn message(&mut self, io: &mut Io, packet: &Packet) {
        let bytes = &packet.bytes;
        match self.subjects.parse_worker(&packet.subject) {
            Some(WorkerSubject::GrantBatch) => {
                if let Ok(batch) = decode::<GrantBatch<'_>>(bytes) {
                    self.event(io, None, Event::GrantBatch(&batch));
                }
            }
            Some(WorkerSubject::Seal) => {
                if let Ok(seal) = decode::<Seal>(bytes) {
                    self.event(io, packet.reply.as_deref(), Event::Seal(&seal));
                }
            }
            Some(WorkerSubject::Lost) => {
                if let Ok(lost) = decode::<Lost>(bytes) {
                    self.event(io, None, Event::Lost(&lost));
                }
            }
            Some(WorkerSubject::Leave) => {
                if let Ok(leave) = decode::<Leave>(bytes) {
                    self.event(io, None, Event::Leave(&leave));
                }
            }
            Some(WorkerSubject::Tenant(tenant, session, what)) => {
                self.tenant(io, &tenant, session, what, bytes);
            }
            // These requests do not occur here.
            Some(
                WorkerSubject::Memory | WorkerSubject::TenantMemory(_) | WorkerSubject::Quotas,
            )
            | None => {}
        }
    }

    fn tenant(
        &mut self,
        io: &mut Io,
        tenant: &Tenant,
        session: SessionId,
        what: ToWorker,
        bytes: &[u8],
    ) {
        match what {
            ToWorker::Batch => {
                if let Ok(batch) = decode::<Batch<'_>>(bytes) {
                    self.batch(io, tenant, session, &batch);
                }
            }
            ToWorker::State => {
                if let Ok(state) = decode(bytes) {
                    let event = Event::ClientState {
                        tenant,
                        session,
                        state,
                    };
                    self.event(io, None, event);
                }
            }
            // The simulated programs do not ask for memory before they allocate it, and they send all bytes
            // of their copies.
            ToWorker::Memory | ToWorker::Offer | ToWorker::Ipc => {}
            ToWorker::Data => {
                if let Ok(chunk) = decode::<DataChunk<'_>>(bytes) {
                    self.chunk(io, tenant, session, &chunk);
                }
            }
        }
    }

    fn batch(&mut self, io: &mut Io, tenant: &Tenant, session: SessionId, batch: &Batch<'_>) {
        let Ok(ops) = batch.ops() else {
            return;
        };
        let kept: Vec<D::Op> = ops.iter().map(|op| D::keep(&op)).collect();
        let is_given = |hash| self.images.is_given(tenant, hash);
        let facts = BatchFacts::of(batch.first, ops.iter().map(|op| op.op), is_given);
        let event = BatchEvent {
            tenant,
            session,
            first: batch.first,
            count: batch.count,
            results: batch.results,
            bytes: (batch.descriptors.len() + batch.blob.len()) as u64,
            outs: &facts.outs,
            staged: &facts.staged,
            loads: &facts.loads,
        };
        let mut actions = Vec::new();
        self.core.handle(io.now, Event::Batch(event), &mut actions);
        for action in &actions {
            if let Action::Keep {
                session: of,
                first,
                count,
                skip,
            } = *action
            {
                let (skip, count) = (skip as usize, count as usize);
                match kept.get(skip..skip + count) {
                    Some(part) => {
                        let place = self.place(of, tenant);
                        place.ops.extend((first..).zip(part.iter().cloned()));
                    }
                    None => broken(io, "kept what was not sent"),
                }
            }
        }
        self.carry_out(io, None, actions);
    }

    fn chunk(&mut self, io: &mut Io, tenant: &Tenant, session: SessionId, chunk: &DataChunk<'_>) {
        let most = self.core.modules_most(session);
        let known = |hash| self.images.known(tenant, hash, most);
        let state = chunk.module().map_or(ImageState::Unknown, known);
        let event = ChunkEvent {
            tenant,
            session,
            transfer: chunk.transfer,
            total: chunk.total,
            offset: chunk.offset,
            bytes: chunk.bytes.len() as u64,
            module: chunk.module(),
            image: (&state).into(),
        };
        let mut actions = Vec::new();
        self.core.handle(io.now, Event::Chunk(event), &mut actions);
        for action in &actions {
            // An image that is already here is complete with its first chunk, which may come before the
            // session's first batch.
            if let Action::Whole { session: of, .. } = *action {
                self.place(of, tenant);
            }
            if let Action::Store {
                session: of,
                transfer,
                total,
                offset,
            } = *action
            {
                let place = self.place(of, tenant);
                let buffer = &mut place.transfers.entry(transfer).or_default().bytes;
                buffer.resize(total as usize, 0);
                let end = offset as usize + chunk.bytes.len();
                match buffer.get_mut(offset as usize..end) {
                    Some(part) => part.copy_from_slice(chunk.bytes),
                    None => broken(io, "stored a chunk outside its transfer"),
                }
            }
        }
        self.carry_out(io, None, actions);
    }
}
