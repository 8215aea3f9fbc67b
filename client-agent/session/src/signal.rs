//! Signals are the program's: threads of ours take none.

#![expect(unsafe_code, reason = "signal masks of the C library")]

use std::mem::MaybeUninit;

/// Threads that begin meanwhile take no signals: those are the program's.
pub fn without_signals<R>(body: impl FnOnce() -> R) -> R {
    let before = mask_signals();
    let result = body();
    // SAFETY: the set is what this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

/// The same for a thread that the runtime starts later, on whichever thread drives it then.
pub fn block_signals() {
    mask_signals();
}

/// Blocks all signals of this thread; what was blocked before.
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
