//! The worker's part for copies: its index of chunks, and the offered transfers that lack bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use bus_schemas::{SessionId, Tenant};

use super::api::ArrivedChunks;
use crate::Nanos;
use crate::content::{Asker, ChunkId, Content, CopyChunks, Offered};
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
    pub(super) settings: CopySettings,
    pub(super) sharing: SharingDomains,
    pub(super) content: Content<C, O>,
    /// The chunks of offered transfers that lack bytes.
    pub(super) lacking: BTreeMap<(SessionId, u64), CopyChunks<C>>,
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
    pub(super) fn offered(
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
    pub(super) fn answer(&mut self, tenant: &Tenant, ids: &[ChunkId]) -> Vec<Option<C>> {
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
    pub(super) fn keep(&mut self, tenant: &Tenant, sent: Vec<(ChunkId, C)>) {
        let pool = self.sharing.pool(tenant);
        for (id, chunk) in sent {
            let table = &mut self.content.table;
            table.keep(pool.clone(), id, chunk, Some(tenant));
        }
    }

    /// Drops an offered transfer that was completed without its bytes.
    pub(super) fn drop_transfer(&mut self, session: SessionId, transfer: u64) {
        self.lacking.remove(&(session, transfer));
    }

    /// Drops the transfers of a session that lack bytes.
    pub(super) fn drop_transfers(&mut self, session: SessionId) {
        let own = (session, 0)..=(session, u64::MAX);
        self.lacking.extract_if(own, |_, _| true).for_each(drop);
    }

    /// Drops everything of a session that has ended.
    pub(super) fn closed(&mut self, session: SessionId) {
        self.drop_transfers(session);
        self.content.closed(session);
    }

    /// Drops the chunks that no session has used or wanted for long, if a look is due. Sets the time of the
    /// next one.
    pub(super) fn look_for_idle(&mut self, now: Nanos, is_used: impl Fn(&C) -> bool) -> Vec<C> {
        let mut idle = Vec::new();
        let table = &mut self.content.table;
        if self.look.take_if(|at| *at <= now).is_some() {
            idle = table.idle(is_used);
        }
        if self.look.is_none() && self.settings.idle > 0 && table.bytes() > 0 {
            self.look = Some(now.saturating_add(self.settings.idle));
        }
        idle
    }

    /// Time of the next look for idle chunks.
    pub(super) fn look(&self) -> Option<Nanos> {
        self.look
    }
}
