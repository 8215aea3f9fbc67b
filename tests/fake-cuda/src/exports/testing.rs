//! The functions for tests, which no driver of NVIDIA has.

use super::abi::{Out, Text};
use crate::Nanos;
use crate::driver::with;
use crate::journal::{FUNCTIONS, LoggedCall, index};
use crate::threads::this_thread;

/// The answer for a function that is not exported.
const UNKNOWN: u64 = u64::MAX;

fn known(name: Text) -> Option<usize> {
    name.get().ok().and_then(|name| index(&name))
}

/// Virtual time of the calling thread, nanoseconds.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_now() -> Nanos {
    with(|driver| driver.threads.get(this_thread()).now)
}

/// Moves the clock of the calling thread on, as a sleep does.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_pass(ns: Nanos) {
    with(|driver| driver.threads.get(this_thread()).now += ns);
}

/// Forgets everything but the time. The program has no object of the driver any more.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_reset() {
    with(crate::driver::Driver::reset);
}

/// Forgets counts, plans, delays, and the log of the calling thread.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_clear() {
    with(crate::driver::Driver::clear);
}

/// Number of calls of a function.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_count(name: Text) -> u64 {
    known(name).map_or(UNKNOWN, |function| {
        with(|driver| driver.journal.count(function))
    })
}

/// Virtual time of all calls of a function.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_took(name: Text) -> Nanos {
    known(name).map_or(UNKNOWN, |function| {
        with(|driver| driver.journal.took(function))
    })
}

/// Lets the nth call of a function from now on fail; 1 is the next. After a sticky failure every call of the
/// context fails. Returns 0, or 1 for an unknown function.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_fail(name: Text, nth: u64, code: u32, sticky: u32) -> u32 {
    let Some(function) = known(name) else {
        return 1;
    };
    with(|driver| driver.journal.plan(function, nth, code, sticky != 0));
    0
}

/// Lets each call of a function take so much longer. Returns 0, or 1 for an unknown function.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_slow(name: Text, ns: Nanos) -> u32 {
    let Some(function) = known(name) else {
        return 1;
    };
    with(|driver| driver.journal.make_slow(function, ns));
    0
}

/// Begins to log the calls of the calling thread, from an empty log.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_log() {
    with(|driver| driver.threads.get(this_thread()).log = Some(Vec::new()));
}

/// Takes at most `room` calls out of the calling thread's log; returns how many.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_logged(to: Out<LoggedCall>, room: u64) -> u64 {
    with(|driver| {
        let Some(log) = &mut driver.threads.get(this_thread()).log else {
            return 0;
        };
        let taken: Vec<LoggedCall> = log.drain(..log.len().min(room as usize)).collect();
        match to.put_all(&taken) {
            Ok(()) => taken.len() as u64,
            Err(_) => 0,
        }
    })
}

/// Writes a function's name without a terminator, if there is room; returns its bytes, or 0 behind the last
/// function.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_function(function: u32, to: Out<u8>, room: u64) -> u64 {
    let Some(name) = FUNCTIONS.get(function as usize) else {
        return 0;
    };
    if name.len() as u64 <= room && to.put_all(name.as_bytes()).is_err() {
        return 0;
    }
    name.len() as u64
}

/// Number of streams with work at the time of the calling thread.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_busy() -> u32 {
    with(|driver| {
        let now = driver.threads.get(this_thread()).now;
        driver.advance(now);
        driver.timeline.busy_beside(None, now)
    })
}
