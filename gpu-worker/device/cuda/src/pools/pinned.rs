//! Pinned host memory, through which copies go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus_schemas::Failure;

use super::gather::Room;
use super::shelves::{Shelf, Shelves, Taken};
use crate::driver::Pinned;

/// Maximum pinned bytes, lent and kept.
const MOST: usize = 64 << 20;
/// Maximum bytes of one of its buffers.
const LARGEST: usize = Shelf::LARGEST.bytes();
/// Maximum bytes of the pool for copies to the device, so that some are left for answers.
const STAGED: usize = 48 << 20;
/// Buffers of a new device: number and bytes of each size.
const FIRST: [(usize, usize); 4] = [(8, 4 << 10), (4, 64 << 10), (2, 256 << 10), (6, 2 << 20)];

/// Pinned buffers of a device.
#[derive(Debug, Clone)]
pub(crate) struct PinnedPool(Arc<Mutex<Shelves<Pinned>>>);

impl PinnedPool {
    /// Creates a pool with some buffers, made while no session waits for them.
    pub(crate) fn new() -> Self {
        let pool = Self(Arc::new(Mutex::new(Shelves::new(MOST))));
        let sizes = FIRST.iter();
        let sizes = sizes.flat_map(|(n, bytes)| std::iter::repeat_n(*bytes, *n));
        // If there is no memory for them, each is made when it is needed, or that fails.
        let first: Vec<_> = sizes.map(|bytes| pool.lend(bytes, MOST)).collect();
        drop(first);
        pool
    }

    /// Returns a buffer for the first bytes of an answer of this size. If the pool has none, one for all of
    /// it is made, and freed after use.
    pub(crate) fn answer(&self, bytes: usize) -> Result<Lease, Failure> {
        if let Some(lease) = self.lend(bytes.min(LARGEST), MOST) {
            return Ok(lease);
        }
        Ok(Lease {
            pinned: Pinned::new(bytes)?,
            shelf: None,
            len: bytes,
            pool: self.clone(),
        })
    }

    /// Returns a buffer for a copy of this size to the device, if the pool has one.
    pub(crate) fn staging(&self, bytes: usize) -> Option<Lease> {
        self.lend(bytes, STAGED)
    }

    fn lend(&self, bytes: usize, share: usize) -> Option<Lease> {
        // Another thread may need one while this one is made.
        let taken = self.shelves().take(bytes, share);
        let (shelf, pinned) = match taken {
            Taken::Kept(shelf, pinned) => (shelf, pinned),
            Taken::Nothing => return None,
            Taken::Make(shelf, freed) => {
                drop(freed);
                let Ok(pinned) = Pinned::new(shelf.bytes()) else {
                    self.shelves().not_made(shelf);
                    return None;
                };
                (shelf, pinned)
            }
        };
        Some(Lease {
            pinned,
            shelf: Some(shelf),
            len: bytes,
            pool: self.clone(),
        })
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves<Pinned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pinned buffer that goes back to its pool when dropped, after the copy that uses it. It shows only its
/// own bytes, and none of an earlier use.
#[derive(Debug)]
pub(crate) struct Lease {
    pinned: Pinned,
    /// The shelf to which it returns, if it is the pool's.
    shelf: Option<Shelf>,
    len: usize,
    pool: PinnedPool,
}

impl Lease {
    /// Its bytes, all of them written.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.pinned.bytes(self.len)
    }

    /// The memory for a copy to fill.
    pub(crate) fn pinned(&mut self) -> &mut Pinned {
        &mut self.pinned
    }
}

impl Room for Lease {
    fn len(&self) -> usize {
        self.len
    }

    /// Bytes that do not fit are left out.
    fn fill(&mut self, offset: usize, bytes: &[u8]) {
        let room = self.len.saturating_sub(offset);
        self.pinned.fill(offset, bytes.get(..room).unwrap_or(bytes));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(shelf) = self.shelf {
            let pinned = std::mem::replace(&mut self.pinned, Pinned::none());
            self.pool.shelves().put_back(shelf, pinned);
        }
    }
}
