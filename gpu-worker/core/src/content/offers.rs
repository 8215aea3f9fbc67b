//! Offers of copies: their answers, and the offers that wait for published tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bus_schemas::{SessionId, Tenant};

use super::published::PublishedWeights;
use super::table::{ChunkId, ContentTable, Pool};
use crate::Nanos;

/// Maximum number of waiting offers: of all tenants, and of one.
const WAITING: usize = 1_024;
const WAITING_OF_ONE: usize = 64;
/// Time for which a tensor that could not be fetched is not requested again.
const FAILED_NS: Nanos = 30_000_000_000;
/// Maximum time that an offer waits. Its client asks again, and would take a silent worker for gone.
const PATIENCE_NS: Nanos = 10_000_000_000;

/// The tenant that offers a copy.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The tenant.
    pub tenant: &'a Tenant,
    /// The pool that keeps its chunks.
    pub pool: &'a Pool,
    /// The session; `None` if the tenant does not speak for an open session. Then nothing is fetched.
    pub session: Option<SessionId>,
}

/// The outcome of an offer.
#[derive(Debug, PartialEq, Eq)]
pub enum Offered<C> {
    /// The offer is answered with these of its chunks.
    Answer(Vec<Option<C>>),
    /// The offer waits. Fetch these tensors: those that are not on their way already.
    Wait(Vec<Arc<str>>),
}

#[derive(Debug)]
struct Waiting<O> {
    tenant: Tenant,
    session: SessionId,
    offer: O,
    /// The tensors that the offer waits for.
    tensors: BTreeSet<Arc<str>>,
    since: Nanos,
}

/// The worker's index of copies by their content; `C` is the shell's chunk and `O` its offer.
#[derive(Debug)]
pub struct Content<C, O> {
    /// The chunks that the worker has.
    pub table: ContentTable<C>,
    /// The published weights.
    pub published: PublishedWeights,
    waiting: Vec<Waiting<O>>,
    /// Tensors on their way.
    fetched: BTreeSet<Arc<str>>,
    /// Tensors that could not be fetched, and the time of each failure.
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
    /// Handles an offer of a copy of these chunks, the first or a repeated one.
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

    /// Answers an offer that waits no longer.
    pub fn answer(&mut self, asker: Asker<'_>, chunks: &[ChunkId]) -> Vec<Option<C>> {
        self.look(asker, chunks).0
    }

    /// Returns the chunks that the worker has and the tenant may have, and the tensors of published chunks
    /// that it lacks.
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

    /// Lets an offer wait for tensors and returns those to fetch. Returns `None` if it does not wait: too
    /// many offers wait, it has waited too long, or every tensor failed recently.
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

    /// Notes that a tensor was fetched, or could not be. Returns the offers that wait for nothing more;
    /// answer them now.
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

    /// Drops the waiting offers of a session that has ended.
    pub fn closed(&mut self, session: SessionId) {
        self.waiting.retain(|it| it.session != session);
    }
}
