//! The chunks of large copies that a worker keeps, by their content: who may be answered from which, and
//! which ones go.
//!
//! **Problem.** Programs that serve the same model copy the same weights, one after the other and again
//! after every restart. What is here need not be sent again. But a hash is no proof that its sender has
//! the bytes, one tenant must not learn what another has, and what is kept takes the host's memory.
//!
//! **Rules.**
//! - A tenant is answered from what its own sessions have sent, and from what was published to it.
//! - Equal chunks are kept once for each [`Pool`]: one for a tenant, or one for all, as the worker's
//!   setting says. Whoever sends what is kept there already is given it as well, once its bytes were
//!   compared.
//! - A chunk that is used, by a transfer or by a session's memory, costs nothing more. Of the others so
//!   many bytes stay as the worker's setting says; when there are more, the pool with the most such bytes
//!   gives up the one that was wanted longest ago. So who fills the memory displaces its own chunks first.
//!
//! The shell has the bytes; `C` is a chunk as it has it.

mod published;

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{ContentHash, Tenant};

pub use published::{Audience, ChunkPlace, PublishedTensor, PublishedWeights};

/// Bytes that a chunk counts at least, and in multiples of which it counts: it takes whole pages.
const PAGE: u64 = 4_096;

/// Chunks that are kept together: equal ones once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    /// What was published.
    Published,
    /// Of all tenants.
    All,
    /// Of one.
    Tenant(Tenant),
}

#[derive(Debug)]
struct Kept<C> {
    chunk: C,
    bytes: u64,
    /// Who has sent it.
    given: BTreeSet<Tenant>,
    /// When it was wanted last.
    wanted: u64,
}

/// The chunks that a worker keeps.
#[derive(Debug)]
pub struct ContentTable<C> {
    chunks: BTreeMap<(Pool, ContentHash), Kept<C>>,
    /// Bytes of all.
    bytes: u64,
    /// How often chunks were wanted so far.
    wants: u64,
}

impl<C> Default for ContentTable<C> {
    fn default() -> Self {
        Self {
            chunks: BTreeMap::new(),
            bytes: 0,
            wants: 0,
        }
    }
}

impl<C: Clone> ContentTable<C> {
    /// The chunk, if this tenant has sent it before and it is here still.
    pub fn given(&mut self, pool: &Pool, tenant: &Tenant, hash: ContentHash) -> Option<C> {
        self.wanted(pool, hash, |kept| kept.given.contains(tenant))
    }

    /// A published chunk, if it is here. The caller has seen to whom it is published.
    pub fn published(&mut self, hash: ContentHash) -> Option<C> {
        self.wanted(&Pool::Published, hash, |_| true)
    }

    /// The chunk of a pool that has this hash, whoever sent it: for its bytes to be compared with others,
    /// and for nothing else.
    #[must_use]
    pub fn candidate(&self, pool: &Pool, hash: ContentHash) -> Option<C> {
        let kept = self.chunks.get(&(pool.clone(), hash))?;
        Some(kept.chunk.clone())
    }

    fn wanted(
        &mut self,
        pool: &Pool,
        hash: ContentHash,
        may: impl FnOnce(&Kept<C>) -> bool,
    ) -> Option<C> {
        let kept = self.chunks.get_mut(&(pool.clone(), hash))?;
        if !may(kept) {
            return None;
        }
        self.wants += 1;
        kept.wanted = self.wants;
        Some(kept.chunk.clone())
    }
}

impl<C> ContentTable<C> {
    /// A chunk of so many bytes whose hash was found true is here. A tenant has sent it; none where it was
    /// published. One that is kept already stays, and is the tenant's as well.
    pub fn keep(
        &mut self,
        pool: Pool,
        hash: ContentHash,
        (chunk, bytes): (C, u64),
        tenant: Option<&Tenant>,
    ) {
        self.wants += 1;
        let bytes = bytes.div_ceil(PAGE).max(1) * PAGE;
        let kept = self.chunks.entry((pool, hash)).or_insert_with(|| {
            self.bytes += bytes;
            Kept {
                chunk,
                bytes,
                given: BTreeSet::new(),
                wanted: 0,
            }
        });
        kept.wanted = self.wants;
        kept.given.extend(tenant.cloned());
    }

    /// Gives up chunks until those that are not used take `most` bytes at most. Gives them.
    #[must_use]
    pub fn surplus(&mut self, most: u64, is_used: impl Fn(&C) -> bool) -> Vec<C> {
        let mut gone = Vec::new();
        if self.bytes <= most {
            return gone;
        }
        // Of each pool the bytes, and the chunks by when they were wanted.
        let mut unused: BTreeMap<Pool, (u64, BTreeMap<u64, ContentHash>)> = BTreeMap::new();
        for ((pool, hash), kept) in &self.chunks {
            if !is_used(&kept.chunk) {
                let (bytes, chunks) = unused.entry(pool.clone()).or_default();
                *bytes += kept.bytes;
                chunks.insert(kept.wanted, *hash);
            }
        }
        let mut together: u64 = unused.values().map(|(bytes, _)| bytes).sum();
        while together > most {
            let largest = unused.iter_mut().max_by_key(|(_, (bytes, _))| *bytes);
            let Some((pool, (bytes, chunks))) = largest else {
                break;
            };
            let oldest = chunks.pop_first();
            let oldest = oldest.and_then(|(_, hash)| self.chunks.remove(&(pool.clone(), hash)));
            let Some(kept) = oldest else {
                break;
            };
            *bytes -= kept.bytes;
            together -= kept.bytes;
            self.bytes -= kept.bytes;
            gone.push(kept.chunk);
        }
        gone
    }

    /// Bytes of all chunks, used ones too.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
