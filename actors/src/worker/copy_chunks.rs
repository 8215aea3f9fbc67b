//! The chunks of an offered copy.

use std::ops::Range;
use std::sync::Arc;

use bus_schemas::CopyOffer;
use bus_schemas::limits::CONTENT_BYTES;
use device::Chunk;
use gpu_worker_core::content::ChunkId;

/// The chunks of a copy, or of one of its transfers: which they are, and those that are here.
#[derive(Debug, Default)]
pub(super) struct CopyChunks {
    pub(super) ids: Vec<ChunkId>,
    pub(super) here: Vec<Option<Arc<dyn Chunk>>>,
}

/// Which chunks a copy has; none where the offer says nonsense.
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
    /// Some of them; of those that are here the ones that are taken, a bit for each.
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

    /// Bytes of those that are here.
    pub(super) fn bytes_here(&self) -> u64 {
        let here = self.here.iter().zip(&self.ids);
        here.filter_map(|(here, id)| here.as_ref().map(|_| id.bytes))
            .sum()
    }

    /// The chunks, if all are here.
    pub(super) fn whole(self) -> Option<Vec<Arc<dyn Chunk>>> {
        self.here.into_iter().collect()
    }
}
