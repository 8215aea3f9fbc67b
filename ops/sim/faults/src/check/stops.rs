//! Stops: a closed session's slice on a device ends within a quantum.

use std::collections::BTreeMap;

use bus_schemas::{Incarnation, SessionId};

use super::{CheckResult, Violation};
use sim_cluster::{MILLI, Nanos};

/// Quantum of sessions of equal priority.
const QUANTUM: Nanos = 2 * MILLI;

/// Slices that have to end.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    stopped: BTreeMap<(Incarnation, SessionId), Nanos>,
    /// Number of stopped slices that have ended.
    pub ended: u64,
}

impl Stops {
    /// Notes that a session's slice has to end, and its time so far.
    pub(crate) fn stopped(&mut self, worker: Incarnation, session: SessionId, ran: Nanos) {
        self.stopped.entry((worker, session)).or_insert(ran);
    }

    /// Checks the total time of a slice that has ended.
    pub(crate) fn used(
        &mut self,
        worker: Incarnation,
        session: SessionId,
        device_ns: Nanos,
    ) -> CheckResult {
        let Some(ran) = self.stopped.remove(&(worker, session)) else {
            return Ok(());
        };
        self.ended += 1;
        let more = device_ns.saturating_sub(ran);
        if more <= QUANTUM {
            return Ok(());
        }
        let what = format!(
            "session {session} on {worker} was closed and ran for {} ms more",
            more / MILLI
        );
        Err(Violation::new("stop", what))
    }
}
