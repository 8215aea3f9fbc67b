//! The observer of a program's sessions: it keeps the times of events, and reports a lost cluster.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bus_schemas::{Code, EventTime, Failure, Op, OpNumber, Opened};
use client_session::Observer;

use crate::{event_times, stats};

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
        // The only unsolicited message: a CUDA error alone makes users look for a dead device,
        // while in fact the cluster is out of reach.
        if matches!(
            failure.code,
            Code::NoBroker | Code::NoLeader | Code::Unanswered
        ) {
            let session = opened.session;
            // stderr may be closed.
            let _ = writeln!(
                std::io::stderr(),
                "warploom: {failure}; session {session} is over, its device is lost to this program"
            );
        }
    }
}
