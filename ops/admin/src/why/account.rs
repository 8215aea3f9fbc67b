//! A summary of the waits of many positions.

use std::collections::BTreeMap;

use bus_schemas::Tenant;
use scheduler_leader_core::replay::ReplayedPosition;
use scheduler_leader_core::why::{Cause, Wait};
use serde::Serialize;

use super::distribution::Distribution;
use super::row::{WaitRow, wait_rows};

/// Positions as they come.
#[derive(Debug, Default)]
pub struct Account {
    kernels: u64,
    ran_ns: u64,
    untimed: u64,
    waited: Distribution,
    waits: BTreeMap<(Cause, Option<Tenant>), u64>,
}

/// The waits of the positions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WaitSummary {
    /// Positions that ran and have recorded times.
    pub positions: u64,
    /// Positions that ran and have no recorded times.
    pub untimed: u64,
    /// Kernels among the ops of both.
    pub kernels: u64,
    /// Measured device nanoseconds of both.
    pub ran_ns: u64,
    /// Total wait in nanoseconds.
    pub waited_ns: u64,
    /// Median wait. With more than 4,096 positions, this and the next are rounded up, by one part
    /// in 2,048 at most.
    pub waited_p50_ns: u64,
    /// 99th percentile of the waits.
    pub waited_p99_ns: u64,
    /// The longest wait.
    pub waited_max_ns: u64,
    /// Causes of the waits, the longest first; their sum is `waited_ns`.
    pub waits: Vec<WaitRow>,
}

impl Account {
    /// Adds an ended position. A position that is no work, or that has not run, has no wait.
    pub fn add(&mut self, row: &ReplayedPosition) {
        let ran = row.end.map_or(0, |end| end.measured);
        if row.timing.is_none() && ran == 0 {
            return;
        }
        self.kernels += row.launches.unwrap_or(0);
        self.ran_ns = self.ran_ns.saturating_add(ran);
        let Some(timing) = &row.timing else {
            self.untimed += 1;
            return;
        };
        self.waited.add(timing.waited_ns);
        for wait in &timing.waits {
            let sum = self.waits.entry((wait.cause, wait.of.clone())).or_default();
            *sum = sum.saturating_add(wait.ns);
        }
    }

    /// The summary of the positions.
    #[must_use]
    pub fn summary(mut self) -> WaitSummary {
        let [half, most] = self.waited.of_100([50, 99]);
        let waits = self.waits.into_iter();
        let mut waits: Vec<Wait> = waits
            .map(|((cause, of), ns)| Wait { cause, of, ns })
            .collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.ns));
        WaitSummary {
            positions: self.waited.count(),
            untimed: self.untimed,
            kernels: self.kernels,
            ran_ns: self.ran_ns,
            waited_ns: self.waited.sum(),
            waited_p50_ns: half,
            waited_p99_ns: most,
            waited_max_ns: self.waited.longest(),
            waits: wait_rows(&waits),
        }
    }
}
