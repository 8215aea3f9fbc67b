//! What a device's sessions share: what the driver is slow to make, kept for its next use, and times of kernels.

mod events;
mod gather;
mod pinned;
mod shelves;
mod times;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus_schemas::Spares;

pub(crate) use events::{EventPool, Mark};
pub(crate) use gather::{Piece, Room, gather};
pub(crate) use pinned::{Lease, PinnedPool};
use times::KernelTimes;

/// Buffers of transfers and answers that are kept for later ones.
const SPARES: usize = 64;

/// All of a device's pools. A clone has the same ones.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    pub(crate) pinned: PinnedPool,
    pub(crate) events: EventPool,
    times: Arc<Mutex<KernelTimes>>,
    spares: Arc<Mutex<Spares>>,
}

impl Pools {
    /// Those of a device whose context is current.
    pub(crate) fn new() -> Self {
        Self {
            pinned: PinnedPool::new(),
            events: EventPool::default(),
            times: Arc::default(),
            spares: Arc::new(Mutex::new(Spares::new(SPARES))),
        }
    }

    /// What is known of the device's kernels.
    pub(crate) fn times(&self) -> MutexGuard<'_, KernelTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
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
