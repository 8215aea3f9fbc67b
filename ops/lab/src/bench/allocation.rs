//! Counts allocations, so that a benchmark can say a launch makes none, and what is held.

#![expect(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; this one hands on to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALL: AtomicU64 = AtomicU64::new(0);
static WEIGHING: AtomicBool = AtomicBool::new(false);
/// Bytes taken less bytes given back.
static HELD: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static MINE: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, which counts while it is asked to; else it costs two loads.
pub struct CountingAllocator;

fn count() {
    if COUNTING.load(Ordering::Relaxed) {
        ALL.fetch_add(1, Ordering::Relaxed);
        MINE.with(|mine| mine.set(mine.get() + 1));
    }
}

fn weigh(taken: usize, given_back: usize) {
    if WEIGHING.load(Ordering::Relaxed) {
        HELD.fetch_add(taken as i64 - given_back as i64, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates (the
// thread's counter is constant-initialised and has no destructor) nor touches the memory.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        weigh(layout.size(), 0);
        // SAFETY: as promised to us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        weigh(layout.size(), 0);
        // SAFETY: as promised to us.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        weigh(bytes, layout.size());
        // SAFETY: as promised to us.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        weigh(0, layout.size());
        // SAFETY: as promised to us.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Begins to count. Nothing is counted in a binary that does not install [`CountingAllocator`].
pub fn start_counting() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// Allocations of (this thread, the whole process) since counting began.
#[must_use]
pub fn counted() -> (u64, u64) {
    (MINE.with(Cell::get), ALL.load(Ordering::Relaxed))
}

/// Bytes that this leaves allocated, in a binary that installs [`CountingAllocator`] and does nothing
/// else meanwhile.
pub(super) fn held_by(body: impl FnOnce()) -> i64 {
    let before = HELD.load(Ordering::Relaxed);
    WEIGHING.store(true, Ordering::Relaxed);
    body();
    WEIGHING.store(false, Ordering::Relaxed);
    HELD.load(Ordering::Relaxed) - before
}
