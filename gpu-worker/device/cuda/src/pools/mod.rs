//! Resources that a device's sessions share: objects that the driver is slow to make, kept for their next
//! use, and times of kernels.

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

/// Maximum number of buffers of transfers and answers that are kept.
const SPARES: usize = 64;

/// All of a device's pools. A clone shares them.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    pub(crate) pinned: PinnedPool,
    pub(crate) events: EventPool,
    times: Arc<Mutex<KernelTimes>>,
    spares: Arc<Mutex<Spares>>,
}

impl Pools {
    /// Creates the pools of a device with a current context.
    pub(crate) fn new() -> Self {
        Self {
            pinned: PinnedPool::new(),
            events: EventPool::default(),
            times: Arc::default(),
            spares: Arc::new(Mutex::new(Spares::new(SPARES))),
        }
    }

    /// Known times of the device's kernels.
    pub(crate) fn times(&self) -> MutexGuard<'_, KernelTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Spare memory of transfers and answers.
    pub(crate) fn spares(&self) -> MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spares, for other threads.
    pub(crate) fn shared_spares(&self) -> Arc<Mutex<Spares>> {
        Arc::clone(&self.spares)
    }
}
