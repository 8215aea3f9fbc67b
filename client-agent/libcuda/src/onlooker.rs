//! The observer of a program's sessions: it keeps the times of events, and reports a lost cluster.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bus_schemas::{Code, EventTime, Failure, Op, OpNumber, Opened};
use client_session::Observer;

use crate::{event_times, stats};

/// Looks on at one session.
pub(crate) struct Onlooker {
    launches: Arc<AtomicU64>,
}

impl Onlooker {
    /// That of a session which begins.
    pub(crate) fn new() -> Self {
        Self {
            launches: stats::launches(),
        }
    }
}

impl Observer for Onlooker {
    fn pushed(&mut self, op: &Op, _: OpNumber) {
        if matches!(op, Op::Launch(_)) {
            // Under the session's lock, so that nothing is lost between the two.
            let launches = self.launches.load(Ordering::Relaxed);
            self.launches.store(launches + 1, Ordering::Relaxed);
        }
    }

    fn timed(&mut self, times: &[EventTime]) {
        event_times::keep(times);
    }

    fn failed(&mut self, failure: &Failure, opened: &Opened) {
        // The one thing that is said unasked: a CUDA error alone sends people to look for a device
        // that died, and it is the cluster that is out of reach.
        if matches!(
            failure.code,
            Code::NoBroker | Code::NoLeader | Code::Unanswered
        ) {
            let session = opened.session;
            // Nobody listens any more.
            let _ = writeln!(
                std::io::stderr(),
                "warploom: {failure}; session {session} is over, its device is lost to this program"
            );
        }
    }
}
