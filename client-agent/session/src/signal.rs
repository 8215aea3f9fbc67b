//! Signals belong to the program: our threads take none.

#![expect(unsafe_code, reason = "signal masks of the C library")]

use std::mem::MaybeUninit;

/// Runs `body`; threads that it starts take no signals, because those belong to the program.
pub fn without_signals<R>(body: impl FnOnce() -> R) -> R {
    let before = mask_signals();
    let result = body();
    // SAFETY: the set is the one that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

/// The same for a thread that the runtime starts later, on any thread that drives it then.
pub fn block_signals() {
    mask_signals();
}

/// Blocks all signals of this thread; returns the previous mask.
fn mask_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both sets are written before they are read, the second by the second call.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}
