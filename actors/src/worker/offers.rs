//! Copies that clients offer by the hashes of their chunks: what is here is taken, what comes is kept.

use std::ops::Range;
use std::sync::Arc;

use actix::{Context, Handler};
use bus_schemas::limits::CONTENT_BYTES;
use bus_schemas::{Code, ContentHash, CopyOffer, Failure, MessageError, SessionId, Tenant, decode};
use device::{Chunk, Staged};
use gpu_worker_core::sequencer::{Event, OfferEvent};

use super::actor::{GpuWorker, Incoming};
use super::offered::Offered;
use super::session_buffers::Staging;
use super::stager::{KeepJob, Kept};

/// Bytes of a copy's chunk.
fn chunk_bytes(total: u64, index: usize) -> usize {
    let start = index as u64 * CONTENT_BYTES as u64;
    total.saturating_sub(start).min(CONTENT_BYTES as u64) as usize
}

impl Handler<Kept> for GpuWorker {
    type Result = ();

    fn handle(&mut self, kept: Kept, ctx: &mut Context<Self>) {
        self.on_kept(kept);
        self.settle(ctx);
    }
}

impl GpuWorker {
    /// A client asks which chunks of a copy are here.
    pub(super) fn on_offer(
        &mut self,
        tenant: &Tenant,
        session: SessionId,
        payload: &[u8],
    ) -> Result<(), MessageError> {
        let offer: CopyOffer<'_> = decode(payload)?;
        let hashes: Vec<_> = match offer.chunks() {
            Some(chunks) => chunks.collect(),
            None => {
                let why = "an offer has a hash for each mebibyte of 1 byte to 512 MiB";
                return Err(MessageError::Malformed(why.into()));
            }
        };
        let pool = self.sharing.pool(tenant);
        let here = hashes.iter().enumerate().map(|(index, hash)| {
            let chunk = self.content.given(&pool, tenant, *hash)?;
            // A hash may be of fewer bytes than its place in this copy has.
            (chunk.bytes().len() == chunk_bytes(offer.total, index)).then_some(chunk)
        });
        let here: Vec<_> = here.collect();
        let held: Vec<_> = here.iter().map(Option::is_some).collect();
        let event = OfferEvent {
            tenant,
            session,
            transfer: offer.transfer,
            total: offer.total,
            held: &held,
        };
        let offered = Offered { hashes, here };
        self.handle_event(Event::Offer(event), &mut Incoming::Offer(tenant, &offered));
        Ok(())
    }

    /// A transfer of the offer at hand is new.
    pub(super) fn on_offered(
        &mut self,
        (session, transfer): (SessionId, u64),
        chunks: &Range<usize>,
        (taken, whole): (u64, bool),
        incoming: &Incoming<'_>,
    ) {
        let Incoming::Offer(tenant, offered) = incoming else {
            return;
        };
        if self.chunk_memory == 0 {
            return;
        }
        let mut offered = offered.part(chunks);
        for (index, here) in offered.here.iter_mut().enumerate() {
            if taken >> index & 1 == 0 {
                *here = None;
            }
        }
        let held = self.hold(session, tenant);
        if !whole {
            held.offered.insert(transfer, offered);
        } else if let Some(chunks) = offered.whole() {
            let staged = Staging::Whole(Arc::new(Staged::Kept(chunks)));
            held.transfers.insert(transfer, staged);
        }
    }

    /// All bytes of an offered transfer that were to be sent are here: its chunks are checked and kept.
    pub(super) fn keep_chunks(&mut self, session: SessionId, transfer: u64) {
        let Some(held) = self.held.get_mut(&session) else {
            return;
        };
        let Some(offered) = held.offered.remove(&transfer) else {
            return;
        };
        let Some(staging) = held.transfers.get_mut(&transfer) else {
            return;
        };
        let Staging::Filling(bytes) = std::mem::replace(staging, Staging::Keeping) else {
            return;
        };
        let tenant = held.tenant.clone();
        let (pool, domain) = (self.sharing.pool(&tenant), self.sharing.of(&tenant));
        let candidate = |hash: &ContentHash| self.content.candidate(&pool, *hash);
        let candidates = offered.hashes.iter().map(candidate).collect();
        self.stager.keep(KeepJob {
            session,
            transfer,
            bytes,
            offered,
            candidates,
            domain,
            keeper: Arc::clone(&self.keeper),
        });
    }

    /// The chunks of a transfer were checked.
    fn on_kept(&mut self, kept: Kept) {
        self.device.spares().take_apart(kept.bytes);
        let (session, transfer) = (kept.session, kept.transfer);
        let Some(held) = self.held.get_mut(&session) else {
            return;
        };
        let Some(staging @ Staging::Keeping) = held.transfers.get_mut(&transfer) else {
            return;
        };
        let Some(chunks) = kept.chunks else {
            let why = format!("transfer {transfer} has not the bytes that it was offered with");
            let failure = Failure::new(Code::Protocol, why);
            let event = Event::Fault {
                session,
                op: 0,
                failure: &failure,
            };
            return self.handle_event(event, &mut Incoming::Nothing);
        };
        *staging = Staging::Whole(Arc::new(Staged::Kept(chunks.clone())));
        let tenant = held.tenant.clone();
        let pool = self.sharing.pool(&tenant);
        for (hash, chunk) in kept.hashes.into_iter().zip(chunks) {
            let bytes = chunk.bytes().len() as u64;
            self.content
                .keep(pool.clone(), hash, (chunk, bytes), Some(&tenant));
        }
        let is_used = |chunk: &Arc<dyn Chunk>| Arc::strong_count(chunk) > 1;
        let surplus = self.content.surplus(self.chunk_memory, is_used);
        self.stager.drop_chunks(surplus);
    }
}
