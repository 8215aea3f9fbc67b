//! Copies that clients offer by the hashes of their chunks: the answers, and the news of published weights.

use std::sync::Arc;

use bus_schemas::{Code, CopyOffer, Failure, MessageError, SessionId, Tenant, decode};

use super::Worker;
use super::api::{Action, Buffers, CheckedChunks, PublishedNews};
use super::copies::OfferedPart;
use super::sessions::Transfer;
use super::turn::{Current, Turn};
use crate::content::{ChunkId, CopyChunks, Offered, Pool, chunk_ids};
use crate::sequencer::{Event, OfferEvent};

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
            self.fail_offered(turn, session, transfer);
        }
        self.drop_surplus(turn);
    }

    /// Fails a session that sends other bytes than it has offered.
    pub(super) fn fail_offered(
        &mut self,
        turn: &mut Turn<'_, B>,
        session: SessionId,
        transfer: u64,
    ) {
        let why = format!("transfer {transfer} has not the bytes that it was offered with");
        self.fail(turn, session, &Failure::new(Code::Protocol, why));
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

    /// Drops idle chunks, if a look for them is due.
    pub(super) fn drop_idle(&mut self, turn: &mut Turn<'_, B>) {
        let idle = self.copies.look_for_idle(turn.now, B::is_used);
        drop_chunks(turn, idle);
    }
}

fn drop_chunks<B: Buffers>(turn: &mut Turn<'_, B>, chunks: Vec<B::Chunk>) {
    if !chunks.is_empty() {
        turn.actions.push(Action::Drop(chunks));
    }
}
