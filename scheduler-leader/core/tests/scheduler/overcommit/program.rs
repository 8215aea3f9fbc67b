//! Programs and machines, and what comes of running them.

use bus_schemas::{ClusterSettings, TenantSettings};

use crate::model::COSTS;

/// A program: a session of its own, whose batches of launches follow one another.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) tenant: usize,
    pub(crate) mib: u64,
    /// Which kernel it launches, and how long that takes, in percent of its estimate.
    pub(crate) kernel: usize,
    pub(crate) percent: u64,
    /// How long it thinks before each batch, once the one before has run, and how many launches that has.
    pub(crate) batches: Vec<(u64, u32)>,
    /// It closes its session once it is through.
    pub(crate) closes: bool,
}

impl Program {
    /// Nanoseconds that its launches take.
    pub(crate) fn work(&self) -> u64 {
        let launches: u64 = self
            .batches
            .iter()
            .map(|(_, count)| u64::from(*count))
            .sum();
        launches * COSTS[self.kernel] * self.percent / 100
    }
}

/// The machine and the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) mib: u64,
    pub(crate) ns_per_mib: u64,
    /// From the leader to the worker or to a program, or back.
    pub(crate) latency: u64,
    pub(crate) settings: ClusterSettings,
    pub(crate) tenants: Vec<TenantSettings>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// When each program was through, from when they began.
    pub(crate) through: Vec<u64>,
    /// MiB moved, and time for which something moved.
    pub(crate) moved: u64,
    pub(crate) moving: u64,
    /// Longest time from when a program's memory was needed until it was there, by program.
    pub(crate) waited: Vec<u64>,
    /// Grants that came for a session that was out.
    pub(crate) strays: u64,
}

impl Outcomes {
    pub(crate) fn makespan(&self) -> u64 {
        self.through.iter().copied().max().unwrap_or(0)
    }
}
