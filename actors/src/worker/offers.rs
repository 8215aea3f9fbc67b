//! Copies that clients offer by the hashes of their chunks: what is here is taken, what comes is kept.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use actix::{Context, Handler};
use bus_schemas::limits::CONTENT_BYTES;
use bus_schemas::{Code, ContentHash, CopyOffer, Failure, MessageError, SessionId, Tenant, decode};
use bytes::Bytes;
use device::{Chunk, SharingDomain, Staged};
use gpu_worker_core::content::Pool;
use gpu_worker_core::sequencer::{Event, OfferEvent};

use super::actor::{GpuWorker, Incoming};
use super::offered::Offered;
use super::pager::PagerMessage;
use super::publications::{Publication, TensorName};
use super::session_buffers::Staging;
use super::stager::{KeepJob, KeepPublishedJob, Kept, KeptPublished};

/// The domain of published chunks on a device: that of `worker.share = all`. Where tenants are apart
/// it is none of theirs, and their copies are their own.
const DOMAIN: SharingDomain = SharingDomain(0);

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
    /// A client asks which chunks of a copy are here. With `waits` it is answered once those are here
    /// that were published to it.
    pub(super) fn on_offer(
        &mut self,
        tenant: &Tenant,
        session: SessionId,
        payload: &Bytes,
        waits: bool,
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
        let mut missing = BTreeSet::new();
        let here = hashes.iter().enumerate().map(|(index, hash)| {
            let given = self.content.given(&pool, tenant, *hash);
            let chunk = match (given, self.published.tensor(tenant, hash)) {
                (Some(chunk), _) => chunk,
                (None, Some(tensor)) => match self.content.published(*hash) {
                    Some(chunk) => chunk,
                    None => {
                        missing.insert(tensor);
                        return None;
                    }
                },
                (None, None) => return None,
            };
            // A hash may be of fewer bytes than its place in this copy has.
            (chunk.bytes().len() == chunk_bytes(offer.total, index)).then_some(chunk)
        });
        let here: Vec<_> = here.collect();
        missing.retain(|tensor| self.published.may_come(tensor));
        // Nothing is fetched for who speaks for no session.
        let is_own = self.core.quota(session, tenant).is_some();
        let may_wait = waits && is_own && !missing.is_empty() && self.chunk_memory > 0;
        if may_wait && self.published.wait((tenant, session), payload, missing) {
            return Ok(());
        }
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
        let here = offered.here.iter().flatten();
        let unsent: u64 = here.map(|chunk| chunk.bytes().len() as u64).sum();
        if unsent > 0 {
            let message = PagerMessage::Unsent(Tenant::clone(tenant), unsent);
            self.pager.do_send(message);
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
        self.drop_surplus();
    }

    /// Chunks that nobody uses go, as far as they are too many.
    pub(super) fn drop_surplus(&mut self) {
        let is_used = |chunk: &Arc<dyn Chunk>| Arc::strong_count(chunk) > 1;
        let surplus = self.content.surplus(self.chunk_memory, is_used);
        self.stager.drop_chunks(surplus);
    }
}

impl Handler<Publication> for GpuWorker {
    type Result = ();

    fn handle(&mut self, news: Publication, ctx: &mut Context<Self>) {
        match news {
            Publication::Changed(name, weights) => {
                self.published.changed(&name, weights.as_deref());
            }
            Publication::Tensor(tensor, Some(bytes)) => {
                self.stager.keep_published(KeepPublishedJob {
                    tensor,
                    bytes,
                    domain: DOMAIN,
                    keeper: Arc::clone(&self.keeper),
                })
            }
            Publication::Tensor(tensor, None) => self.answer_waiting(&tensor, false),
        }
        self.settle(ctx);
    }
}

impl Handler<KeptPublished> for GpuWorker {
    type Result = ();

    fn handle(&mut self, kept: KeptPublished, ctx: &mut Context<Self>) {
        let chunks: Vec<Arc<dyn Chunk>> =
            kept.chunks.iter().map(|(_, it)| Arc::clone(it)).collect();
        for (hash, chunk) in kept.chunks {
            let bytes = chunk.bytes().len() as u64;
            self.content
                .keep(Pool::Published, hash, (chunk, bytes), None);
        }
        self.answer_waiting(&kept.tensor, true);
        // Whoever waited has them now; of the others the limit decides.
        drop(chunks);
        self.drop_surplus();
        self.settle(ctx);
    }
}

impl GpuWorker {
    /// A tensor has come, or will not: those who waited for it are answered.
    fn answer_waiting(&mut self, tensor: &TensorName, here: bool) {
        for (tenant, session, offer) in self.published.arrived(tensor, here) {
            if let Err(error) = self.on_offer(&tenant, session, &offer, false) {
                tracing::debug!(%error, "an offer that was read before");
            }
        }
    }
}
