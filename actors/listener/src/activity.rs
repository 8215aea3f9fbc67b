//! State of a connection, as its stream and its requests report it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// State of a connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Time of the last byte read or written, in nanoseconds since the listener began.
    moved_ns: AtomicU64,
    /// Number of requests that are being answered.
    answering: AtomicUsize,
    /// True if the peer does not take what is written.
    blocked: AtomicBool,
    /// Notified when another connection takes the place.
    pub(crate) displaced: Notify,
}

impl Activity {
    /// True if the connection waits for its peer, not for an answer from us.
    pub(crate) fn waits(&self) -> bool {
        self.answering.load(Ordering::Relaxed) == 0 || self.blocked.load(Ordering::Relaxed)
    }

    /// Time of the last byte read or written.
    pub(crate) fn moved_ns(&self) -> u64 {
        self.moved_ns.load(Ordering::Relaxed)
    }

    /// Notes that a byte was read or written, `now` after the listener began.
    pub(crate) fn moved(&self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.moved_ns.store(now, Ordering::Relaxed);
    }

    /// Sets whether the peer does not take what is written.
    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Answering(Arc<Activity>);

impl Answering {
    pub(crate) fn of(activity: &Arc<Activity>) -> Self {
        activity.answering.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
    }
}
