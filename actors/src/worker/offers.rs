//! Copies that clients offer by the hashes of their chunks: takes chunks that the worker has, and
//! keeps those that arrive. The core `gpu_worker_core::content` decides the answers to offers.

use std::sync::Arc;

use actix::{Context, Handler};
use bus_schemas::{CopyOffer, MessageError, SessionId, Tenant, decode};
use bytes::Bytes;
use device::Chunk;
use gpu_worker_core::content::{Asker, Audience, ChunkId, Offered, Pool, PublishedTensor};
use gpu_worker_core::sequencer::OfferEvent;
use gpu_worker_core::worker::Event;

use super::actor::GpuWorker;
use super::copy_chunks::{CopyChunks, ids};
use super::publications::Publication;
use super::stager::{KeepJob, Kept};
use storage::Weights;

impl Handler<Kept> for GpuWorker {
    type Result = ();

    fn handle(&mut self, kept: Kept, ctx: &mut Context<Self>) {
        self.on_kept(kept);
        self.settle(ctx);
    }
}

impl Handler<Publication> for GpuWorker {
    type Result = ();

    fn handle(&mut self, news: Publication, ctx: &mut Context<Self>) {
        match news {
            Publication::Changed(name, None) => self.content.published.withdraw(&name),
            Publication::Changed(name, Some(weights)) => self.on_published(&name, &weights),
            Publication::Tensor(tensor, chunks) => self.on_tensor(&tensor, chunks),
        }
        self.settle(ctx);
    }
}

impl GpuWorker {
    /// Handles a client's question which chunks of a copy the worker has.
    pub(super) fn on_offer(
        &mut self,
        tenant: &Tenant,
        session: SessionId,
        payload: &Bytes,
    ) -> Result<(), MessageError> {
        let offer: CopyOffer<'_> = decode(payload)?;
        let Some(ids) = ids(&offer) else {
            let why = "an offer has a hash for each mebibyte of 1 byte to 512 MiB";
            return Err(MessageError::Malformed(why.into()));
        };
        let pool = self.sharing.pool(tenant);
        let is_open = self.core().quota(session, tenant).is_some();
        let asker = Asker {
            tenant,
            pool: &pool,
            session: is_open.then_some(session),
        };
        match self.content.offered(self.now(), asker, payload, &ids) {
            Offered::Answer(here) => {
                self.answer_offer((tenant, session), &offer, &CopyChunks { ids, here });
            }
            Offered::Wait(tensors) => tensors
                .into_iter()
                .for_each(|tensor| self.publications.fetch(tensor)),
        }
        Ok(())
    }

    fn answer_offer(
        &mut self,
        (tenant, session): (&Tenant, SessionId),
        offer: &CopyOffer<'_>,
        chunks: &CopyChunks,
    ) {
        let held: Vec<_> = chunks.here.iter().map(Option::is_some).collect();
        let event = OfferEvent {
            tenant,
            session,
            transfer: offer.transfer,
            total: offer.total,
            held: &held,
        };
        self.handle_event(Event::Offer(event, chunks));
    }

    /// Checks and keeps the chunks of an offered transfer, of which all missing bytes have arrived.
    pub(super) fn keep_chunks(&mut self, session: SessionId, transfer: u64) {
        let Some(tenant) = self.worker.tenant(session).cloned() else {
            return;
        };
        let offered = self.worker.buffers_mut().take_offered(session, transfer);
        let Some((chunks, bytes)) = offered else {
            return;
        };
        let (pool, domain) = (self.sharing.pool(&tenant), self.sharing.of(&tenant));
        let candidate = |id: &ChunkId| self.content.table.candidate(&pool, *id);
        let candidates = chunks.ids.iter().map(candidate).collect();
        self.stager.keep(KeepJob {
            session,
            transfer,
            bytes,
            chunks,
            candidates,
            domain,
            keeper: Arc::clone(&self.keeper),
        });
    }

    /// Handles the checked chunks of a transfer.
    fn on_kept(&mut self, kept: Kept) {
        let (session, transfer) = (kept.session, kept.transfer);
        self.worker.buffers().take_apart(kept.bytes);
        let Some(tenant) = self.worker.awaits_chunks(session, transfer).cloned() else {
            return;
        };
        let len = kept.chunks.as_ref().map(|chunks| bytes_of(chunks));
        if let Some(chunks) = kept.chunks {
            let buffers = self.worker.buffers_mut();
            buffers.put_chunks(session, transfer, chunks);
            let pool = self.sharing.pool(&tenant);
            for (id, chunk) in kept.sent {
                let table = &mut self.content.table;
                table.keep(pool.clone(), id, chunk, Some(&tenant));
            }
        }
        self.handle_event(Event::Chunks(session, transfer, len));
        self.drop_surplus();
    }

    /// Drops unused chunks beyond the limit.
    fn drop_surplus(&mut self) {
        let surplus = self.content.table.surplus(self.chunk_memory, is_used);
        self.stager.drop_chunks(surplus);
    }

    /// Drops chunks that no session has used or wanted for long.
    pub(super) fn drop_idle(&mut self) {
        let idle = self.content.table.idle(is_used);
        self.stager.drop_chunks(idle);
    }

    /// Notes weights that are published under a name.
    fn on_published(&mut self, name: &str, weights: &Weights) {
        let audience = match weights.public {
            true => Audience::All,
            false => Audience::Tenants(weights.tenants.iter().cloned().collect()),
        };
        let tensors = weights.tensors.iter().map(|tensor| PublishedTensor {
            object: tensor.object(name).into(),
            hashes: tensor.chunks().collect(),
        });
        let published = &mut self.content.published;
        if !published.publish(name, audience, tensors.collect()) {
            tracing::warn!(name, "more is published than a worker keeps track of");
        }
    }

    /// Handles a published tensor that has arrived or is unavailable: answers the offers that wait
    /// for it.
    fn on_tensor(&mut self, tensor: &Arc<str>, chunks: Option<Vec<(ChunkId, Arc<dyn Chunk>)>>) {
        let is_here = chunks.is_some();
        for (id, chunk) in chunks.unwrap_or_default() {
            self.content.table.keep(Pool::Published, id, chunk, None);
        }
        for (tenant, session, payload) in self.content.fetched(self.now(), tensor, is_here) {
            // It was decoded once before.
            let Ok(offer) = decode::<CopyOffer<'_>>(&payload) else {
                continue;
            };
            let (ids, pool) = (ids(&offer).unwrap_or_default(), self.sharing.pool(&tenant));
            let asker = Asker {
                tenant: &tenant,
                pool: &pool,
                session: None,
            };
            let here = self.content.answer(asker, &ids);
            self.answer_offer((&tenant, session), &offer, &CopyChunks { ids, here });
        }
        // The waiting sessions have the chunks now; the limit decides about the others.
        self.drop_surplus();
    }
}

fn bytes_of(chunks: &[Arc<dyn Chunk>]) -> u64 {
    chunks.iter().map(|chunk| chunk.bytes().len() as u64).sum()
}

/// True if a transfer or a session's memory uses a chunk, beside the table's own reference.
fn is_used(chunk: &Arc<dyn Chunk>) -> bool {
    Arc::strong_count(chunk) > 1
}
