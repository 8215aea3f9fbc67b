//! Offers of copies: what they are answered with, and which of them wait for published tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bus_schemas::{SessionId, Tenant};

use super::published::PublishedWeights;
use super::table::{ChunkId, ContentTable, Pool};
use crate::Nanos;

/// Offers that wait: of all tenants, and of one.
const WAITING: usize = 1_024;
const WAITING_OF_ONE: usize = 64;
/// A tensor that could not be had is not asked for again so soon.
const FAILED_NS: Nanos = 30_000_000_000;
/// How long an offer waits: its client, which asks again, would take a worker that says nothing for gone.
const PATIENCE_NS: Nanos = 10_000_000_000;

/// Who offers a copy.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The tenant.
    pub tenant: &'a Tenant,
    /// The pool that its chunks are kept in.
    pub pool: &'a Pool,
    /// Its session; none where it speaks for none that is open: nothing is fetched for it.
    pub session: Option<SessionId>,
}

/// What becomes of an offer.
#[derive(Debug, PartialEq, Eq)]
pub enum Offered<C> {
    /// It is answered with these of its chunks.
    Answer(Vec<Option<C>>),
    /// It waits, and these tensors are to be fetched: those of them that are not on their way.
    Wait(Vec<Arc<str>>),
}

#[derive(Debug)]
struct Waiting<O> {
    tenant: Tenant,
    session: SessionId,
    offer: O,
    /// The tensors that it waits for.
    tensors: BTreeSet<Arc<str>>,
    since: Nanos,
}

/// All that a worker knows of copies by their content; `C` is a chunk and `O` an offer as the shell has them.
#[derive(Debug)]
pub struct Content<C, O> {
    /// The chunks that are here.
    pub table: ContentTable<C>,
    /// What is published.
    pub published: PublishedWeights,
    waiting: Vec<Waiting<O>>,
    /// Tensors on their way.
    fetched: BTreeSet<Arc<str>>,
    /// Tensors that could not be had, and when.
    failed: BTreeMap<Arc<str>, Nanos>,
}

impl<C, O> Default for Content<C, O> {
    fn default() -> Self {
        Self {
            table: ContentTable::default(),
            published: PublishedWeights::default(),
            waiting: Vec::new(),
            fetched: BTreeSet::new(),
            failed: BTreeMap::new(),
        }
    }
}

impl<C: Clone, O: Clone + PartialEq> Content<C, O> {
    /// A copy of these chunks is offered, for the first time or again.
    pub fn offered(
        &mut self,
        now: Nanos,
        asker: Asker<'_>,
        offer: &O,
        chunks: &[ChunkId],
    ) -> Offered<C> {
        let (here, missing) = self.look(asker, chunks);
        match asker.session {
            Some(session) if !missing.is_empty() => {
                let fetch = self.wait(now, (asker.tenant, session), offer, missing);
                fetch.map_or(Offered::Answer(here), Offered::Wait)
            }
            _ => Offered::Answer(here),
        }
    }

    /// The same of one that waits no longer.
    pub fn answer(&mut self, asker: Asker<'_>, chunks: &[ChunkId]) -> Vec<Option<C>> {
        self.look(asker, chunks).0
    }

    /// The chunks that a tenant may have and that are here, and the tensors of those that are not.
    fn look(
        &mut self,
        asker: Asker<'_>,
        chunks: &[ChunkId],
    ) -> (Vec<Option<C>>, BTreeSet<Arc<str>>) {
        let mut missing = BTreeSet::new();
        let here = chunks.iter().map(|id| {
            let given = self.table.given(asker.pool, asker.tenant, *id);
            if given.is_some() {
                return given;
            }
            let tensor = self.published.object(asker.tenant, &id.hash)?;
            let chunk = self.table.published(*id);
            if chunk.is_none() {
                missing.insert(Arc::clone(tensor));
            }
            chunk
        });
        (here.collect(), missing)
    }

    /// An offer waits for tensors; those to fetch. None where it does not wait: too many do, it has for long,
    /// or none of them can be had.
    fn wait(
        &mut self,
        now: Nanos,
        (tenant, session): (&Tenant, SessionId),
        offer: &O,
        mut tensors: BTreeSet<Arc<str>>,
    ) -> Option<Vec<Arc<str>>> {
        let is_it = |it: &&Waiting<O>| it.session == session && it.offer == *offer;
        if let Some(again) = self.waiting.iter().find(is_it) {
            let waits = now.saturating_sub(again.since) < PATIENCE_NS;
            return waits.then(Vec::new);
        }
        self.failed
            .retain(|_, at| now.saturating_sub(*at) < FAILED_NS);
        tensors.retain(|tensor| !self.failed.contains_key(tensor));
        let own = self.waiting.iter().filter(|it| it.tenant == *tenant);
        if tensors.is_empty() || own.count() >= WAITING_OF_ONE || self.waiting.len() >= WAITING {
            return None;
        }
        let new = tensors.iter().filter(|it| !self.fetched.contains(*it));
        let fetch: Vec<_> = new.cloned().collect();
        self.fetched.extend(fetch.iter().cloned());
        self.waiting.push(Waiting {
            tenant: tenant.clone(),
            session,
            offer: offer.clone(),
            tensors,
            since: now,
        });
        Some(fetch)
    }

    /// A tensor that was to be fetched is here, or cannot be had: the offers that wait for nothing any more,
    /// to be answered now.
    #[must_use]
    pub fn fetched(
        &mut self,
        now: Nanos,
        tensor: &Arc<str>,
        is_here: bool,
    ) -> Vec<(Tenant, SessionId, O)> {
        self.fetched.remove(tensor);
        if !is_here {
            self.failed.insert(Arc::clone(tensor), now);
        }
        for waiting in &mut self.waiting {
            waiting.tensors.remove(tensor);
        }
        let ready = self.waiting.extract_if(.., |it| it.tensors.is_empty());
        ready.map(|it| (it.tenant, it.session, it.offer)).collect()
    }

    /// A session has ended.
    pub fn closed(&mut self, session: SessionId) {
        self.waiting.retain(|it| it.session != session);
    }
}
