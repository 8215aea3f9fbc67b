//! The chunks that are kept, and which ones go.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{ContentHash, Tenant};

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

/// Which bytes a chunk has: their hash, and how many. The last chunk of a copy has fewer than others, and
/// the hash of fewer is no answer where more are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkId {
    /// Their hash.
    pub hash: ContentHash,
    /// How many.
    pub bytes: u64,
}

impl ChunkId {
    /// Bytes that it takes: whole pages.
    fn taken(self) -> u64 {
        self.bytes.div_ceil(PAGE).max(1) * PAGE
    }
}

#[derive(Debug)]
struct Kept<C> {
    chunk: C,
    /// Who has sent it.
    given: BTreeSet<Tenant>,
    /// When it was wanted last.
    wanted: u64,
}

/// The chunks that a worker keeps.
#[derive(Debug)]
pub struct ContentTable<C> {
    chunks: BTreeMap<(Pool, ChunkId), Kept<C>>,
    /// Bytes of all.
    bytes: u64,
    /// How often chunks were wanted so far.
    wants: u64,
    /// That number at the last call of [`ContentTable::idle`].
    looked: u64,
}

impl<C> Default for ContentTable<C> {
    fn default() -> Self {
        Self {
            chunks: BTreeMap::new(),
            bytes: 0,
            wants: 0,
            looked: 0,
        }
    }
}

impl<C: Clone> ContentTable<C> {
    /// The chunk, if this tenant has sent it before and it is here still.
    pub fn given(&mut self, pool: &Pool, tenant: &Tenant, id: ChunkId) -> Option<C> {
        self.wanted(pool, id, |kept| kept.given.contains(tenant))
    }

    /// A published chunk, if it is here. The caller has seen to whom it is published.
    pub fn published(&mut self, id: ChunkId) -> Option<C> {
        self.wanted(&Pool::Published, id, |_| true)
    }

    /// The chunk of a pool that has this id, whoever sent it: for its bytes to be compared with others,
    /// and for nothing else.
    #[must_use]
    pub fn candidate(&self, pool: &Pool, id: ChunkId) -> Option<C> {
        let kept = self.chunks.get(&(pool.clone(), id))?;
        Some(kept.chunk.clone())
    }

    fn wanted(
        &mut self,
        pool: &Pool,
        id: ChunkId,
        may: impl FnOnce(&Kept<C>) -> bool,
    ) -> Option<C> {
        let kept = self.chunks.get_mut(&(pool.clone(), id))?;
        if !may(kept) {
            return None;
        }
        self.wants += 1;
        kept.wanted = self.wants;
        Some(kept.chunk.clone())
    }
}

impl<C> ContentTable<C> {
    /// A chunk whose hash was found true is here. A tenant has sent it; none where it was published. One that
    /// is kept already stays, and is the tenant's as well.
    pub fn keep(&mut self, pool: Pool, id: ChunkId, chunk: C, tenant: Option<&Tenant>) {
        self.wants += 1;
        let kept = self.chunks.entry((pool, id)).or_insert_with(|| {
            self.bytes += id.taken();
            Kept {
                chunk,
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
        let mut unused: BTreeMap<Pool, (u64, BTreeSet<(u64, ChunkId)>)> = BTreeMap::new();
        for ((pool, id), kept) in &self.chunks {
            if !is_used(&kept.chunk) {
                let (bytes, chunks) = unused.entry(pool.clone()).or_default();
                *bytes += id.taken();
                chunks.insert((kept.wanted, *id));
            }
        }
        let mut together: u64 = unused.values().map(|(bytes, _)| bytes).sum();
        while together > most {
            let largest = unused.iter_mut().max_by_key(|(_, (bytes, _))| *bytes);
            let Some((pool, (bytes, chunks))) = largest else {
                break;
            };
            let Some((_, id)) = chunks.pop_first() else {
                break;
            };
            *bytes -= id.taken();
            together -= id.taken();
            self.bytes -= id.taken();
            let kept = self.chunks.remove(&(pool.clone(), id));
            gone.extend(kept.map(|kept| kept.chunk));
        }
        gone
    }

    /// Gives up chunks that were neither used at the call before and now, nor wanted since that call. Gives them.
    #[must_use]
    pub fn idle(&mut self, is_used: impl Fn(&C) -> bool) -> Vec<C> {
        self.wants += 1;
        let (before, now) = (std::mem::replace(&mut self.looked, self.wants), self.wants);
        let is_idle = |_: &(Pool, ChunkId), kept: &mut Kept<C>| {
            if is_used(&kept.chunk) {
                kept.wanted = now;
            }
            kept.wanted < before
        };
        let gone: Vec<_> = self.chunks.extract_if(.., is_idle).collect();
        self.bytes -= gone.iter().map(|((_, id), _)| id.taken()).sum::<u64>();
        gone.into_iter().map(|(_, kept)| kept.chunk).collect()
    }

    /// Bytes of all chunks, used ones too.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
