//! The heap of `malloc` and `free` in kernels: one range of the session's memory, managed here.
//!
//! The lists are outside the session, so that a kernel that writes past its end harms only its own
//! data. The address that a thread gets depends on the order of requests, as on a GPU.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Alignment of what `malloc` returns.
const ALIGN: u64 = 16;

/// Free and taken runs: start, bytes.
#[derive(Debug, Default)]
struct Runs {
    free: BTreeMap<u64, u64>,
    taken: BTreeMap<u64, u64>,
}

/// A session's heap.
#[derive(Debug)]
pub(crate) struct Heap(Mutex<Runs>);

impl Heap {
    /// Bytes of a session's heap: CUDA's default for `cudaLimitMallocHeapSize`.
    pub(crate) const BYTES: u64 = 8 << 20;

    pub(crate) fn new(start: u64) -> Self {
        let free = BTreeMap::from([(start, Self::BYTES)]);
        Self(Mutex::new(Runs {
            free,
            taken: BTreeMap::new(),
        }))
    }

    /// True if the heap starts at this address: free and taken runs fill all of it.
    pub(crate) fn starts_at(&self, address: u64) -> bool {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.free.contains_key(&address) || runs.taken.contains_key(&address)
    }

    /// The lowest run that fits, 0 if none does; and the number of runs examined.
    pub(crate) fn allocate(&self, bytes: u64) -> (u64, u64) {
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(ALIGN) else {
            return (0, 0);
        };
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut looked = 0;
        let found = runs.free.iter().find(|(_, have)| {
            looked += 1;
            **have >= bytes
        });
        let Some((&start, &have)) = found else {
            return (0, looked);
        };
        runs.free.remove(&start);
        if have > bytes {
            runs.free.insert(start + bytes, have - bytes);
        }
        runs.taken.insert(start, bytes);
        (start, looked)
    }

    /// Frees an address that `allocate` returned; false for any other.
    pub(crate) fn free(&self, address: u64) -> bool {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut bytes) = runs.taken.remove(&address) else {
            return false;
        };
        let mut start = address;
        if let Some(after) = runs.free.remove(&(start + bytes)) {
            bytes += after;
        }
        if let Some((&before, &have)) = runs.free.range(..start).next_back()
            && before + have == start
        {
            start = before;
            bytes += have;
        }
        runs.free.insert(start, bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_again() {
        let heap = Heap::new(4096);
        let allocate = |bytes| heap.allocate(bytes).0;
        let (a, b, c) = (allocate(1), allocate(100), allocate(32));
        assert_eq!((a, b, c), (4096, 4112, 4224));
        assert!(heap.free(b) && !heap.free(b) && !heap.free(a + 1));
        assert_eq!(allocate(112), b);
        assert!(heap.free(c) && heap.free(a) && heap.free(b));
        assert_eq!(allocate(Heap::BYTES), 4096);
        assert_eq!(allocate(1), 0);
        assert_eq!(allocate(u64::MAX), 0);
    }
}
