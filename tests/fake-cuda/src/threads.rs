//! The clocks of the threads that call, and the lock of the context that they share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Nanos;
use crate::journal::LoggedCall;

/// Number of spans for which the lock was held that are kept. A thread that lags behind may find it free
/// before the oldest.
const SPANS: usize = 256;

static LAST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD: u64 = LAST.fetch_add(1, Ordering::Relaxed) + 1;
}

/// Number of the calling thread.
pub(crate) fn this_thread() -> u64 {
    THREAD.with(|thread| *thread)
}

/// A thread of the program.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) now: Nanos,
    /// True if the context is current.
    pub(crate) entered: bool,
    /// Its calls, if they are logged.
    pub(crate) log: Option<Vec<LoggedCall>>,
}

/// All threads that have called, and the lock.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    threads: BTreeMap<u64, Thread>,
    /// The furthest clock of a thread that was forgotten.
    forgotten: Nanos,
    lock: ContextLock,
}

impl Threads {
    /// Returns a thread. The clock of a new one begins where the furthest one is, because its program has
    /// started it by then.
    pub(crate) fn get(&mut self, thread: u64) -> &mut Thread {
        if !self.threads.contains_key(&thread) {
            let begun = Thread {
                now: self.furthest(),
                ..Thread::default()
            };
            self.threads.insert(thread, begun);
        }
        self.threads.entry(thread).or_default()
    }

    fn furthest(&self) -> Nanos {
        let clocks = self.threads.values().map(|it| it.now);
        clocks.fold(self.forgotten, Nanos::max)
    }

    /// Takes the lock for so long, from a time on at which it is free; returns that time.
    pub(crate) fn lock(&mut self, thread: u64, from: Nanos, holds: Nanos) -> Nanos {
        self.lock.take(thread, from, holds)
    }

    /// Forgets the context, and all threads but this one. Time goes on.
    pub(crate) fn leave(&mut self, thread: u64) {
        self.lock = ContextLock::default();
        let kept = self.threads.get(&thread).map(|it| it.now);
        self.forgotten = self.furthest();
        self.threads.clear();
        if let Some(now) = kept {
            self.threads.entry(thread).or_default().now = now;
        }
    }
}

/// Spans of virtual time in which threads held the lock, by their begins.
#[derive(Debug, Default)]
struct ContextLock(BTreeMap<Nanos, (Nanos, u64)>);

impl ContextLock {
    fn take(&mut self, thread: u64, from: Nanos, holds: Nanos) -> Nanos {
        if holds == 0 {
            return from;
        }
        let mut begin = from;
        for (at, (end, by)) in &self.0 {
            if *by != thread && *at < begin + holds && begin < *end {
                begin = *end;
            }
        }
        self.0.insert(begin, (begin + holds, thread));
        if self.0.len() > SPANS {
            self.0.pop_first();
        }
        begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_exclude_one_another_in_virtual_time() {
        let mut lock = ContextLock::default();
        assert_eq!(lock.take(1, 100, 50), 100);
        assert_eq!(lock.take(2, 120, 10), 150, "it is held");
        assert_eq!(lock.take(1, 150, 5), 160, "and held again");
        assert_eq!(lock.take(2, 10, 90), 10, "a thread that lags behind");
        assert_eq!(lock.take(2, 120, 0), 120, "a call without the lock");
        assert_eq!(lock.take(1, 200, 5), 200);
    }

    #[test]
    fn a_new_thread_begins_where_the_furthest_is() {
        let mut threads = Threads::default();
        threads.get(1).now = 70;
        assert_eq!(threads.get(2).now, 70);
        threads.get(2).now = 90;
        assert_eq!(threads.get(1).now, 70);
        threads.leave(1);
        assert_eq!(threads.get(1).now, 70, "its clock goes on");
        assert_eq!(threads.get(3).now, 90);
    }
}
