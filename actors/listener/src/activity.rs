//! State of a connection, as its stream and its requests tell it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// State of a connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Nanoseconds since the listener began, of the last byte that came or went.
    moved_ns: AtomicU64,
    /// Requests that are answered now.
    answering: AtomicUsize,
    /// The other end takes nothing of what is written.
    blocked: AtomicBool,
    /// Told when another connection takes the place.
    pub(crate) displaced: Notify,
}

impl Activity {
    /// Whether the connection waits for its other end, not for an answer of ours.
    pub(crate) fn waits(&self) -> bool {
        self.answering.load(Ordering::Relaxed) == 0 || self.blocked.load(Ordering::Relaxed)
    }

    /// When the last byte came or went.
    pub(crate) fn moved_ns(&self) -> u64 {
        self.moved_ns.load(Ordering::Relaxed)
    }

    /// A byte came or went, that long after the listener began.
    pub(crate) fn moved(&self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.moved_ns.store(now, Ordering::Relaxed);
    }

    /// Says whether the other end takes nothing.
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
