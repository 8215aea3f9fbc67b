//! The chunks of an offered copy.

use std::ops::Range;
use std::sync::Arc;

use bus_schemas::ContentHash;
use device::Chunk;

/// The chunks of an offer: their hashes, and those that are here.
#[derive(Debug, Default)]
pub(super) struct Offered {
    pub(super) hashes: Vec<ContentHash>,
    pub(super) here: Vec<Option<Arc<dyn Chunk>>>,
}

impl Offered {
    /// Some of them.
    pub(super) fn part(&self, range: &Range<usize>) -> Self {
        Self {
            hashes: self.hashes.get(range.clone()).unwrap_or_default().to_vec(),
            here: self.here.get(range.clone()).unwrap_or_default().to_vec(),
        }
    }

    /// The chunks, if all are here.
    pub(super) fn whole(self) -> Option<Vec<Arc<dyn Chunk>>> {
        self.here.into_iter().collect()
    }
}
