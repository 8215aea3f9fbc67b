//! The observer of a program's sessions: it keeps the times of events, and reports a failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bus_schemas::{EventTime, Failure, Op, OpNumber, Opened};
use client_session::Observer;

use crate::{event_times, failed, stats};

/// The observer of one session.
pub(crate) struct Onlooker {
    launches: Arc<AtomicU64>,
}

impl Onlooker {
    /// Makes the observer of a new session.
    pub(crate) fn new() -> Self {
        Self {
            launches: stats::launches(),
        }
    }
}

impl Observer for Onlooker {
    fn pushed(&mut self, op: &Op, _: OpNumber) {
        if matches!(op, Op::Launch(_)) {
            // Runs under the session's lock, so no count is lost between the two.
            let launches = self.launches.load(Ordering::Relaxed);
            self.launches.store(launches + 1, Ordering::Relaxed);
        }
    }

    fn timed(&mut self, times: &[EventTime]) {
        event_times::keep(times);
    }

    fn failed(&mut self, failure: &Failure, opened: &Opened) {
        failed::note(failure, opened.session);
    }
}
