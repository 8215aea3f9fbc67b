//! Forks of the process: the child has none of our threads, and locks that they held stay taken.

#![expect(unsafe_code, reason = "a fork handler of the C library")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// True if the fork handler is installed.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// Number of threads that are initialising the process.
static INITIALIZING: AtomicUsize = AtomicUsize::new(0);
/// True if the process is initialised.
static INITIALIZED: AtomicBool = AtomicBool::new(false);
/// True if this process is the child of one that was initialised or initialising.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Runs the initialisation of the process. Its locks are taken and released within, so that a child
/// that may find a lock taken always knows that it is a child.
pub(crate) fn watched<R>(initialize: impl FnOnce() -> R) -> R {
    if !WATCHED.swap(true, Ordering::SeqCst) {
        // SAFETY: the handler stores one flag and takes no lock, which a forked child may do.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
    INITIALIZING.fetch_add(1, Ordering::SeqCst);
    let done = initialize();
    INITIALIZING.fetch_sub(1, Ordering::SeqCst);
    done
}

/// Notes that the process is initialised, and stays so.
pub(crate) fn initialized() {
    INITIALIZED.store(true, Ordering::SeqCst);
}

/// True if this is the child of a process that was initialised.
#[inline]
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Runs in the child of a fork: no lock, no allocation.
extern "C" fn forked() {
    if INITIALIZING.load(Ordering::SeqCst) > 0 || INITIALIZED.load(Ordering::SeqCst) {
        FORKED.store(true, Ordering::Relaxed);
    }
}
