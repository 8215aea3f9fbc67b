//! The outcome of a simulation.

use crate::scenario::Scenario;
use sim_cluster::Nanos;

/// Results of a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tenancy {
    /// Times from arrival to answer of the requests that came while it was measured, in rising order. A
    /// request without an answer at the end counts with its age then.
    pub latencies: Vec<Nanos>,
    /// Requests answered during the measurement.
    pub answered: u64,
    /// Kernels that ended during the measurement.
    pub kernels: u64,
    /// Sum of their durations alone, without gaps: the work done.
    pub work_ns: u64,
}

/// One kernel of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelRow {
    /// Index of the tenant.
    pub tenant: u32,
    /// Number of its request, from 1.
    pub request: u64,
    /// Index of the kernel in it.
    pub kernel: u32,
    /// Time at which its launch was called.
    pub ready: Nanos,
    /// Time at which it began on the device, after the gap.
    pub start: Nanos,
    /// Time at which it ended.
    pub end: Nanos,
}

/// Results of a simulation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparedRun {
    /// By tenant.
    pub tenants: Vec<Tenancy>,
    /// Measured time in which the device had work.
    pub active_ns: Nanos,
    /// Length of the measurement.
    pub measured_ns: Nanos,
    /// Every kernel in order of its end, if the timeline was requested.
    pub rows: Vec<KernelRow>,
    /// Number of all messages that went over the bus.
    pub messages: u64,
}

impl ComparedRun {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            tenants: vec![Tenancy::default(); scenario.tenants.len()],
            measured_ns: scenario.measured,
            ..Self::default()
        }
    }

    /// Notes a kernel that ended.
    pub(crate) fn ended(&mut self, scenario: &Scenario, row: KernelRow, ns: u64) {
        if scenario.timeline {
            self.rows.push(row);
        }
        let tenant = &mut self.tenants[row.tenant as usize];
        if row.end > scenario.warm_up && row.end <= scenario.end() {
            tenant.kernels += 1;
            tenant.work_ns += ns;
        }
    }

    pub(crate) fn finish(&mut self) {
        for tenant in &mut self.tenants {
            tenant.latencies.sort_unstable();
        }
    }

    /// Fraction of the time in which the device was active.
    #[must_use]
    pub fn active(&self) -> f64 {
        self.active_ns as f64 / self.measured_ns.max(1) as f64
    }
}

/// The value of the nearest rank of rising values; 0 if there are none.
#[must_use]
pub fn quantile(rising: &[Nanos], part: f64) -> Nanos {
    let rank = (rising.len() as f64 * part).ceil() as usize;
    let index = rank.clamp(1, rising.len().max(1)) - 1;
    rising.get(index).copied().unwrap_or(0)
}
