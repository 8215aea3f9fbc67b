//! Forks of the process: the child has none of our threads, and locks that they held stay taken.

#![expect(unsafe_code, reason = "a fork handler of the C library")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The handler of forks is there.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// Threads that are about to initialise the process.
static INITIALIZING: AtomicUsize = AtomicUsize::new(0);
/// The process is initialised.
static INITIALIZED: AtomicBool = AtomicBool::new(false);
/// This process is the child of one that was initialised, or about to be.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Runs what initialises the process. Its locks are taken and given back within, so that a
/// child knows that it is one whenever it may find one of them taken.
pub(crate) fn watched<R>(initialize: impl FnOnce() -> R) -> R {
    if !WATCHED.swap(true, Ordering::SeqCst) {
        // SAFETY: the handler stores one flag and takes no lock, which a child of a fork may do.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
    INITIALIZING.fetch_add(1, Ordering::SeqCst);
    let done = initialize();
    INITIALIZING.fetch_sub(1, Ordering::SeqCst);
    done
}

/// The process is initialised, and stays so.
pub(crate) fn initialized() {
    INITIALIZED.store(true, Ordering::SeqCst);
}

/// Whether this is the child of a process that was initialised.
#[inline]
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// In the child of a fork: no lock, no allocation.
extern "C" fn forked() {
    if INITIALIZING.load(Ordering::SeqCst) > 0 || INITIALIZED.load(Ordering::SeqCst) {
        FORKED.store(true, Ordering::Relaxed);
    }
}
