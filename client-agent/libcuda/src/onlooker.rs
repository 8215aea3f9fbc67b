//! The observer of a program's sessions: it keeps the times of events, and reports a lost cluster.

use std::io::Write;

use bus_schemas::{Code, EventTime, Failure, Opened};
use client_session::Observer;

use crate::event_times;

/// Looks on at one session.
pub(crate) struct Onlooker;

impl Observer for Onlooker {
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
