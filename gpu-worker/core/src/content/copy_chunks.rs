//! The chunks of an offered copy.

use std::ops::Range;

use bus_schemas::CopyOffer;
use bus_schemas::limits::CONTENT_BYTES;

use super::table::ChunkId;

/// The chunks of a copy or of one of its transfers: their ids, and those that the worker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyChunks<C> {
    /// The id of each chunk, in order.
    pub ids: Vec<ChunkId>,
    /// Each of these chunks, if the worker has it.
    pub here: Vec<Option<C>>,
}

/// Returns the ids of a copy's chunks; `None` if the offer is invalid.
#[must_use]
pub fn chunk_ids(offer: &CopyOffer<'_>) -> Option<Vec<ChunkId>> {
    let starts = (0..offer.total).step_by(CONTENT_BYTES);
    let chunks = offer.chunks()?.zip(starts);
    let ids = chunks.map(|(hash, start)| ChunkId {
        hash,
        bytes: (offer.total - start).min(CONTENT_BYTES as u64),
    });
    Some(ids.collect())
}

impl<C: Clone> CopyChunks<C> {
    /// Returns the chunks of a range. Of those that the worker has, only those with a bit in `taken` are
    /// included.
    #[must_use]
    pub fn part(&self, range: &Range<usize>, taken: u64) -> Self {
        let here = self.here.get(range.clone()).unwrap_or_default().iter();
        let here = here.enumerate().map(|(index, chunk)| {
            let is_taken = taken >> index & 1 == 1;
            chunk.clone().filter(|_| is_taken)
        });
        Self {
            ids: self.ids.get(range.clone()).unwrap_or_default().to_vec(),
            here: here.collect(),
        }
    }

    /// Returns the bytes of all chunks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ids.iter().map(|id| id.bytes).sum()
    }

    /// Returns the bytes of the chunks that the worker has.
    #[must_use]
    pub fn bytes_here(&self) -> u64 {
        let here = self.here.iter().zip(&self.ids);
        here.filter_map(|(here, id)| here.as_ref().map(|_| id.bytes))
            .sum()
    }

    /// Returns the chunks if the worker has all of them.
    #[must_use]
    pub fn whole(self) -> Option<Vec<C>> {
        self.here.into_iter().collect()
    }
}
