//! What many positions waited for, together.

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

/// What they waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WaitSummary {
    /// Positions that ran and whose times are recorded.
    pub positions: u64,
    /// Positions that ran and whose times are not.
    pub untimed: u64,
    /// Kernels among the ops of both.
    pub kernels: u64,
    /// Measured device nanoseconds of both.
    pub ran_ns: u64,
    /// What they waited, all together, nanoseconds.
    pub waited_ns: u64,
    /// Half of them waited no longer; beyond 4,096 positions this and the next are rounded up, by one part in
    /// 2,048 at most.
    pub waited_p50_ns: u64,
    /// 99 of 100 waited no longer.
    pub waited_p99_ns: u64,
    /// None waited longer.
    pub waited_max_ns: u64,
    /// What for, the longest first: together `waited_ns`.
    pub waits: Vec<WaitRow>,
}

impl Account {
    /// Takes in a position that has ended. What is no work, or has not run, waited for nothing.
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

    /// What they come to.
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
