//! Programs and machines, and the outcomes of running them.

use bus_schemas::{ClusterSettings, TenantSettings};

use crate::model::COSTS;

/// A program: a session of its own, with consecutive batches of launches.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) tenant: usize,
    pub(crate) mib: u64,
    /// The kernel that it launches, and its time in percent of the estimate.
    pub(crate) kernel: usize,
    pub(crate) percent: u64,
    /// Think time before each batch, once the previous one has run, and the batch's number of
    /// launches.
    pub(crate) batches: Vec<(u64, u32)>,
    /// True if it closes its session once it is through.
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
    /// Time from the leader to the worker or to a program, or back.
    pub(crate) latency: u64,
    pub(crate) settings: ClusterSettings,
    pub(crate) tenants: Vec<TenantSettings>,
}

/// The outcomes of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Time at which each program was through, from their common start.
    pub(crate) through: Vec<u64>,
    /// MiB moved, and time in which memory moved.
    pub(crate) moved: u64,
    pub(crate) moving: u64,
    /// Longest time for which a program's needed memory was not there, by program.
    pub(crate) waited: Vec<u64>,
    /// Grants that came for a session that was out.
    pub(crate) strays: u64,
}

impl Outcomes {
    pub(crate) fn makespan(&self) -> u64 {
        self.through.iter().copied().max().unwrap_or(0)
    }
}
