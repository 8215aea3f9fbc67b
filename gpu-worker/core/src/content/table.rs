//! The chunks that are kept, and the choice of those to give up.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{ContentHash, Tenant};

/// Page size, bytes. A chunk counts as whole pages, and at least one.
const PAGE: u64 = 4_096;

/// A set of chunks in which equal ones are kept once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    /// Published chunks.
    Published,
    /// Chunks of all tenants.
    All,
    /// Chunks of one tenant.
    Tenant(Tenant),
}

/// The identity of a chunk: its hash and its length. The last chunk of a copy is shorter than others, and a
/// shorter chunk must not answer for a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkId {
    /// Hash of the bytes.
    pub hash: ContentHash,
    /// Number of bytes.
    pub bytes: u64,
}

impl ChunkId {
    /// Bytes that the chunk takes: whole pages.
    fn taken(self) -> u64 {
        self.bytes.div_ceil(PAGE).max(1) * PAGE
    }
}

#[derive(Debug)]
struct Kept<C> {
    chunk: C,
    /// Tenants that have sent it.
    given: BTreeSet<Tenant>,
    /// The value of `wants` when the chunk was wanted last.
    wanted: u64,
}

/// The chunks that a worker keeps.
#[derive(Debug)]
pub struct ContentTable<C> {
    chunks: BTreeMap<(Pool, ChunkId), Kept<C>>,
    /// Bytes of all chunks.
    bytes: u64,
    /// Number of times that chunks were wanted so far.
    wants: u64,
    /// The value of `wants` at the last call of [`ContentTable::idle`].
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
    /// Returns the chunk if this tenant has sent it before and the worker still has it.
    pub fn given(&mut self, pool: &Pool, tenant: &Tenant, id: ChunkId) -> Option<C> {
        self.wanted(pool, id, |kept| kept.given.contains(tenant))
    }

    /// Returns a published chunk if the worker has it. The caller has checked that it is published to the
    /// tenant.
    pub fn published(&mut self, id: ChunkId) -> Option<C> {
        self.wanted(&Pool::Published, id, |_| true)
    }

    /// Returns the chunk of a pool with this id, regardless of its sender. Its bytes may be compared with
    /// others, and used for nothing else.
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
    /// Keeps a chunk with a verified hash. `tenant` has sent it; `None` if it was published. A chunk that is
    /// kept already stays, and becomes the tenant's as well.
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

    /// Gives up chunks until the unused ones take at most `most` bytes. Returns the chunks given up.
    #[must_use]
    pub fn surplus(&mut self, most: u64, is_used: impl Fn(&C) -> bool) -> Vec<C> {
        let mut gone = Vec::new();
        if self.bytes <= most {
            return gone;
        }
        // For each pool, its unused bytes, and its chunks in the order in which they were last wanted.
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

    /// Gives up chunks that were used neither at the previous call nor now, and were not wanted since.
    /// Returns them.
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

    /// Bytes of all chunks, used ones included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
