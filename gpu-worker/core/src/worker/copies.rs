//! Copies that clients offer by the hashes of their chunks: the answers, and the chunks that the worker keeps.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bus_schemas::{Code, CopyOffer, Failure, MessageError, SessionId, Tenant, decode};

use super::Worker;
use super::api::{Action, ArrivedChunks, Buffers, CheckedChunks, PublishedNews};
use super::sessions::Transfer;
use super::turn::{Current, Turn};
use crate::Nanos;
use crate::content::{Asker, ChunkId, Content, CopyChunks, Offered, Pool, chunk_ids};
use crate::sequencer::{Event, OfferEvent};
use crate::sharing_domains::{Share, SharingDomains};

/// Settings of the chunks that a worker keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopySettings {
    /// Scope in which sessions share equal memory.
    pub share: Share,
    /// Maximum bytes of unused chunks; zero to keep none.
    pub memory: u64,
    /// Interval of the looks for idle chunks, nanoseconds; zero for none.
    pub idle: Nanos,
}

/// The chunks of copies, and the tenants that they may answer.
pub(super) struct Copies<C, O> {
    settings: CopySettings,
    pub(super) sharing: SharingDomains,
    content: Content<C, O>,
    /// The chunks of offered transfers that lack bytes.
    lacking: BTreeMap<(SessionId, u64), CopyChunks<C>>,
    /// Time of the next look for idle chunks.
    look: Option<Nanos>,
}

/// A transfer's part of the current offer; see [`crate::sequencer::Action::Offered`].
pub(super) struct OfferedPart {
    /// Range of its chunks among those of the offer.
    pub(super) chunks: Range<usize>,
    /// Chunks that it takes: a bit for each, the lowest for the first.
    pub(super) taken: u64,
    /// True if they are the whole transfer.
    pub(super) whole: bool,
}

impl<C: Clone, O: Clone + PartialEq> Copies<C, O> {
    pub(super) fn new(settings: CopySettings) -> Self {
        Self {
            settings,
            sharing: SharingDomains::new(settings.share),
            content: Content::default(),
            lacking: BTreeMap::new(),
            look: None,
        }
    }

    /// Handles an offer, the first or a repeated one. A worker that keeps no chunks has none.
    fn offered(
        &mut self,
        now: Nanos,
        (tenant, session): (&Tenant, Option<SessionId>),
        offer: &O,
        ids: &[ChunkId],
    ) -> Offered<C> {
        if self.settings.memory == 0 {
            return Offered::Answer(vec![None; ids.len()]);
        }
        let asker = Asker {
            tenant,
            pool: &self.sharing.pool(tenant),
            session,
        };
        self.content.offered(now, asker, offer, ids)
    }

    /// Returns the chunks of an offer that waits no longer.
    fn answer(&mut self, tenant: &Tenant, ids: &[ChunkId]) -> Vec<Option<C>> {
        let asker = Asker {
            tenant,
            pool: &self.sharing.pool(tenant),
            session: None,
        };
        self.content.answer(asker, ids)
    }

    /// Takes a transfer of which all bytes have arrived, if it was offered.
    pub(super) fn arrived(
        &mut self,
        tenant: &Tenant,
        (session, transfer): (SessionId, u64),
    ) -> Option<ArrivedChunks<C>> {
        let chunks = self.lacking.remove(&(session, transfer))?;
        let pool = self.sharing.pool(tenant);
        let candidate = |id: &ChunkId| self.content.table.candidate(&pool, *id);
        Some(ArrivedChunks {
            session,
            transfer,
            candidates: chunks.ids.iter().map(candidate).collect(),
            chunks,
            domain: self.sharing.of(tenant),
        })
    }

    /// Keeps chunks that a tenant has sent.
    fn keep(&mut self, tenant: &Tenant, sent: Vec<(ChunkId, C)>) {
        let pool = self.sharing.pool(tenant);
        for (id, chunk) in sent {
            let table = &mut self.content.table;
            table.keep(pool.clone(), id, chunk, Some(tenant));
        }
    }

    /// Drops the transfers of a session that lack bytes.
    pub(super) fn drop_transfers(&mut self, session: SessionId) {
        self.lacking.retain(|(of, _), _| *of != session);
    }

    /// Drops everything of a session that has ended.
    pub(super) fn closed(&mut self, session: SessionId) {
        self.drop_transfers(session);
        self.content.closed(session);
    }

    /// Time of the next look for idle chunks.
    pub(super) fn look(&self) -> Option<Nanos> {
        self.look
    }
}

impl<B: Buffers> Worker<B> {
    /// Handles a client's question which chunks of a copy the worker has.
    pub(super) fn on_offer(
        &mut self,
        turn: &mut Turn<'_, B>,
        (tenant, session): (&Tenant, SessionId),
        payload: &B::Payload,
    ) -> Result<(), MessageError> {
        let offer: CopyOffer<'_> = decode(payload.as_ref())?;
        let Some(ids) = chunk_ids(&offer) else {
            let why = "an offer has a hash for each mebibyte of 1 byte to 512 MiB";
            return Err(MessageError::Malformed(why.into()));
        };
        let is_open = self.sequencer.quota(session, tenant).is_some();
        let asker = (tenant, is_open.then_some(session));
        match self.copies.offered(turn.now, asker, payload, &ids) {
            Offered::Answer(here) => {
                let chunks = CopyChunks { ids, here };
                self.answer_offer(turn, (tenant, session), &offer, &chunks);
            }
            Offered::Wait(tensors) => {
                turn.actions.extend(tensors.into_iter().map(Action::Fetch));
            }
        }
        Ok(())
    }

    fn answer_offer(
        &mut self,
        turn: &mut Turn<'_, B>,
        (tenant, session): (&Tenant, SessionId),
        offer: &CopyOffer<'_>,
        chunks: &CopyChunks<B::Chunk>,
    ) {
        let held: Vec<_> = chunks.here.iter().map(Option::is_some).collect();
        let event = OfferEvent {
            tenant,
            session,
            transfer: offer.transfer,
            total: offer.total,
            held: &held,
        };
        let mut current = Current::Offer(tenant, chunks);
        self.decide(turn, Event::Offer(event), &mut current);
    }

    /// Handles a new transfer of the current offer.
    pub(super) fn on_offered(
        &mut self,
        (session, transfer): (SessionId, u64),
        total: u64,
        part: &OfferedPart,
        current: &Current<'_, B>,
    ) {
        let Current::Offer(tenant, chunks) = *current else {
            return;
        };
        let entry = self.sessions.hold(session, tenant);
        if self.copies.settings.memory == 0 {
            return;
        }
        let chunks = chunks.part(&part.chunks, part.taken);
        let unsent = chunks.bytes_here();
        if unsent > 0 {
            self.resources.unsent(tenant, unsent);
        }
        if !part.whole {
            self.copies.lacking.insert((session, transfer), chunks);
        } else if let Some(chunks) = chunks.whole() {
            self.buffers.place(session, transfer, chunks);
            entry.transfers.insert(transfer, Transfer::Whole(total));
        }
    }

    /// Handles the checked chunks of a transfer.
    pub(super) fn on_chunks(&mut self, turn: &mut Turn<'_, B>, checked: CheckedChunks<B::Chunk>) {
        let (session, transfer) = (checked.session, checked.transfer);
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        let Some(state) = entry.transfers.get_mut(&transfer) else {
            return;
        };
        let Transfer::Chunks(total) = *state else {
            return;
        };
        if let Some(chunks) = checked.chunks {
            *state = Transfer::Whole(total);
            self.buffers.place(session, transfer, chunks);
            self.copies.keep(&entry.tenant, checked.sent);
        } else {
            let why = format!("transfer {transfer} has not the bytes that it was offered with");
            self.fail(turn, session, &Failure::new(Code::Protocol, why));
        }
        self.drop_surplus(turn);
    }

    /// Notes weights that were published or withdrawn.
    pub(super) fn on_published(
        &mut self,
        turn: &mut Turn<'_, B>,
        name: &str,
        news: Option<PublishedNews>,
    ) {
        let published = &mut self.copies.content.published;
        match news {
            None => published.withdraw(name),
            Some(news) => {
                if !published.publish(name, news.audience, news.tensors) {
                    turn.actions.push(Action::Untracked(name.to_owned()));
                }
            }
        }
    }

    /// Handles a published tensor that has arrived or is unavailable: answers the offers that wait for it.
    pub(super) fn on_tensor(
        &mut self,
        turn: &mut Turn<'_, B>,
        tensor: &Arc<str>,
        chunks: Option<Vec<(ChunkId, B::Chunk)>>,
    ) {
        let content = &mut self.copies.content;
        let is_here = chunks.is_some();
        for (id, chunk) in chunks.unwrap_or_default() {
            content.table.keep(Pool::Published, id, chunk, None);
        }
        for (tenant, session, payload) in content.fetched(turn.now, tensor, is_here) {
            // It was decoded once before.
            let Ok(offer) = decode::<CopyOffer<'_>>(payload.as_ref()) else {
                continue;
            };
            let ids = chunk_ids(&offer).unwrap_or_default();
            let here = self.copies.answer(&tenant, &ids);
            let chunks = CopyChunks { ids, here };
            self.answer_offer(turn, (&tenant, session), &offer, &chunks);
        }
        // The waiting sessions have the chunks now; the limit decides about the others.
        self.drop_surplus(turn);
    }

    /// Drops unused chunks beyond the limit.
    fn drop_surplus(&mut self, turn: &mut Turn<'_, B>) {
        let table = &mut self.copies.content.table;
        let surplus = table.surplus(self.copies.settings.memory, B::is_used);
        drop_chunks(turn, surplus);
    }

    /// Drops the chunks that no session has used or wanted for long, if a look is due. Sets the time of the
    /// next one.
    pub(super) fn look_at_chunks(&mut self, turn: &mut Turn<'_, B>) {
        let copies = &mut self.copies;
        if copies.look.take_if(|at| *at <= turn.now).is_some() {
            drop_chunks(turn, copies.content.table.idle(B::is_used));
        }
        let idle = copies.settings.idle;
        if copies.look.is_none() && idle > 0 && copies.content.table.bytes() > 0 {
            copies.look = Some(turn.now.saturating_add(idle));
        }
    }
}

fn drop_chunks<B: Buffers>(turn: &mut Turn<'_, B>, chunks: Vec<B::Chunk>) {
    if !chunks.is_empty() {
        turn.actions.push(Action::Drop(chunks));
    }
}
