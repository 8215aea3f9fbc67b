//! The system's allocator with counters that can be switched on, for tests and benchmarks that
//! measure the number and size of allocations. A binary installs it:
//!
//! ```
//! use counting_allocator::{CountingAllocator, counted};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! let (list, seen) = counted(|| vec![0_u8; 100]);
//! assert_eq!((seen.allocations, seen.peak, seen.left), (1, 100, 100));
//! # drop(list);
//! ```

#![expect(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; this one hands on to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Number of calls of [`counted`] in progress, in all threads.
static COUNTING: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static OWN: Cell<Own> = const { Cell::new(Own { allocations: 0, live: 0, peak: 0 }) };
}

/// The counts of one thread.
#[derive(Clone, Copy)]
struct Own {
    allocations: u64,
    /// Bytes allocated less bytes freed.
    live: i64,
    peak: i64,
}

/// Allocations during a call of [`counted`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Allocations of this thread; a reallocation, in place or not, counts again.
    pub allocations: u64,
    /// Peak bytes of this thread, beyond those that it had before.
    pub peak: usize,
    /// Allocations of the whole process.
    pub process_allocations: u64,
    /// Bytes that the whole process allocated less those that it freed.
    pub left: i64,
}

/// The system's allocator; without a call of [`counted`] it costs one more load.
pub struct CountingAllocator;

fn count(allocations: u64, taken: usize, given_back: usize) {
    if COUNTING.load(Relaxed) == 0 {
        return;
    }
    let grown = taken as i64 - given_back as i64;
    ALLOCATIONS.fetch_add(allocations, Relaxed);
    LEFT.fetch_add(grown, Relaxed);
    OWN.with(|own| {
        let mut counts = own.get();
        counts.allocations += allocations;
        counts.live += grown;
        counts.peak = counts.peak.max(counts.live);
        own.set(counts);
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates (the
// thread's counts are constant-initialised and have no destructor) nor touches the memory.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(1, bytes, layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, 0, layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Runs a closure and counts its allocations; calls nest. Counts are zero in a binary that does not
/// install [`CountingAllocator`].
pub fn counted<T>(body: impl FnOnce() -> T) -> (T, Counted) {
    let process = (ALLOCATIONS.load(Relaxed), LEFT.load(Relaxed));
    let before = OWN.get();
    OWN.set(Own {
        peak: before.live,
        ..before
    });
    COUNTING.fetch_add(1, Relaxed);
    let result = body();
    COUNTING.fetch_sub(1, Relaxed);
    let own = OWN.get();
    let seen = Counted {
        allocations: own.allocations - before.allocations,
        peak: usize::try_from(own.peak - before.live).unwrap_or(0),
        process_allocations: ALLOCATIONS.load(Relaxed) - process.0,
        left: LEFT.load(Relaxed) - process.1,
    };
    OWN.set(Own {
        peak: before.peak.max(own.peak),
        ..own
    });
    (result, seen)
}
