//! The chunks of an offered copy.

use std::ops::Range;
use std::sync::Arc;

use bus_schemas::CopyOffer;
use bus_schemas::limits::CONTENT_BYTES;
use device::Chunk;
use gpu_worker_core::content::ChunkId;

/// The chunks of a copy or of one of its transfers: their ids, and those that the worker has.
#[derive(Debug, Default)]
pub(super) struct CopyChunks {
    pub(super) ids: Vec<ChunkId>,
    pub(super) here: Vec<Option<Arc<dyn Chunk>>>,
}

/// Returns the ids of a copy's chunks; `None` if the offer is invalid.
pub(super) fn ids(offer: &CopyOffer<'_>) -> Option<Vec<ChunkId>> {
    let starts = (0..offer.total).step_by(CONTENT_BYTES);
    let chunks = offer.chunks()?.zip(starts);
    let ids = chunks.map(|(hash, start)| ChunkId {
        hash,
        bytes: (offer.total - start).min(CONTENT_BYTES as u64),
    });
    Some(ids.collect())
}

impl CopyChunks {
    /// Returns the chunks of a range. Of those that the worker has, only those with a bit in
    /// `taken` are included.
    pub(super) fn part(&self, range: &Range<usize>, taken: u64) -> Self {
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

    /// Returns the bytes of the chunks that the worker has.
    pub(super) fn bytes_here(&self) -> u64 {
        let here = self.here.iter().zip(&self.ids);
        here.filter_map(|(here, id)| here.as_ref().map(|_| id.bytes))
            .sum()
    }

    /// Returns the chunks if the worker has all of them.
    pub(super) fn whole(self) -> Option<Vec<Arc<dyn Chunk>>> {
        self.here.into_iter().collect()
    }
}
