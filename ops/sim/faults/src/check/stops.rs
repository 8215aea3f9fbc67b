//! Stops: what a closed session still has on a device ends within a quantum.

use std::collections::BTreeMap;

use bus_schemas::{Incarnation, SessionId};

use super::{CheckResult, Violation};
use sim_cluster::{MILLI, Nanos};

/// Turns among equals.
const QUANTUM: Nanos = 2 * MILLI;

/// Slices that were to end.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    stopped: BTreeMap<(Incarnation, SessionId), Nanos>,
    /// How many ended.
    pub ended: u64,
}

impl Stops {
    /// A session's slice is to end, having run so long.
    pub(crate) fn stopped(&mut self, worker: Incarnation, session: SessionId, ran: Nanos) {
        self.stopped.entry((worker, session)).or_insert(ran);
    }

    /// A slice has ended, having run so long.
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
