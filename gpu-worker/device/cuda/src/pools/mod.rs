//! What the driver is slow to make, kept for its next use and shared by a device's sessions.

mod gather;
mod pinned;
mod shelves;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus_schemas::Spares;

pub(crate) use gather::{Piece, Room, gather};
pub(crate) use pinned::{Lease, PinnedPool};

/// Buffers of transfers and answers that are kept for later ones.
const SPARES: usize = 64;

/// All of a device's pools. A clone has the same ones.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    pub(crate) pinned: PinnedPool,
    spares: Arc<Mutex<Spares>>,
}

impl Pools {
    /// Those of a device whose context is current.
    pub(crate) fn new() -> Self {
        Self {
            pinned: PinnedPool::new(),
            spares: Arc::new(Mutex::new(Spares::new(SPARES))),
        }
    }

    /// Memory of transfers and answers.
    pub(crate) fn spares(&self) -> MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, for other threads.
    pub(crate) fn shared_spares(&self) -> Arc<Mutex<Spares>> {
        Arc::clone(&self.spares)
    }
}
