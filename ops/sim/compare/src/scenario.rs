//! Scenarios: tenants and their programs, the device, the network, and the duration.

use crate::device::DeviceKind;
use crate::workload::{Arrivals, Model, TenantRole};
use sim_cluster::{MICRO, MILLI, Nanos, SECOND};

/// Reason why a scenario has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The scenario is impossible.
    #[error("{0}")]
    Scenario(&'static str),
    /// The cluster's own protocol failed.
    #[error("the simulated cluster failed: {0}")]
    Cluster(String),
}

/// One tenant with one program.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantSetup {
    /// The model that it runs.
    pub model: Model,
    /// Priority, 0 (highest) to 4.
    pub priority: u8,
    /// Share within its priority, 1 to 1000.
    pub weight: u32,
    /// Time at which its program begins, after the cluster is up.
    pub start: Nanos,
}

impl From<Model> for TenantSetup {
    /// Gives latency models the highest priority.
    fn from(model: Model) -> Self {
        Self {
            priority: match model.role {
                TenantRole::Latency => 0,
                TenantRole::Throughput => 3,
            },
            model,
            weight: 1,
            start: 0,
        }
    }
}

/// A simulation's settings. All times are nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The tenants that share the device.
    pub tenants: Vec<TenantSetup>,
    /// The device.
    pub device: DeviceKind,
    /// Time between two kernels.
    pub gap: Nanos,
    /// Cost of a launch call to the calling thread, the same in all policies.
    pub call: Nanos,
    /// Time until a waiting process has noticed that the device is done.
    pub notice: Nanos,
    /// Number of launches that may be called and not done before a call waits.
    pub depth: usize,
    /// Median of a message's delay over the bus, one way.
    pub bus: Nanos,
    /// The 99th percentile of that, as a multiple of the median.
    pub jitter: f64,
    /// Work granted and not reported done: see [`bus_schemas::ClusterSettings::window_ns`].
    pub window: Nanos,
    /// A slice's cost: see [`bus_schemas::ClusterSettings::quantum_ns`].
    pub quantum: Nanos,
    /// Time before the measurement begins.
    pub warm_up: Nanos,
    /// Length of the measurement.
    pub measured: Nanos,
    /// True if every kernel's times are kept.
    pub timeline: bool,
    /// Seed of arrivals and jitter.
    pub seed: u64,
}

impl Scenario {
    /// The defaults: a serial device, a 10 us launch gap, a bus round trip of 100 us.
    #[must_use]
    pub fn new(tenants: Vec<TenantSetup>, seed: u64) -> Self {
        let settings = bus_schemas::ClusterSettings::default();
        Self {
            tenants,
            device: DeviceKind::Serial,
            gap: 10 * MICRO,
            call: 4 * MICRO,
            notice: 5 * MICRO,
            depth: 1_024,
            bus: 50 * MICRO,
            jitter: 2.5,
            window: settings.window_ns,
            quantum: settings.quantum_ns,
            warm_up: 2_500 * MILLI,
            measured: 5 * SECOND,
            timeline: false,
            seed,
        }
    }

    /// Time at which it ends.
    pub(crate) fn end(&self) -> Nanos {
        self.warm_up + self.measured
    }

    pub(crate) fn check(&self) -> Result<(), SimulationError> {
        let wrong = |why| Err(SimulationError::Scenario(why));
        if self.tenants.is_empty() || self.tenants.len() > 1_000 {
            return wrong("a scenario has 1 to 1,000 tenants");
        }
        if self.measured == 0 || self.depth == 0 {
            return wrong("nothing would be measured");
        }
        if self.end() > 3_600 * SECOND {
            return wrong("a simulation is at most an hour long");
        }
        let empty = |tenant: &TenantSetup| {
            tenant.model.kernels.is_empty() || tenant.model.kernels.len() > 60_000
        };
        if self.tenants.iter().any(empty) {
            return wrong("a request has 1 to 60,000 kernels");
        }
        let idle = |tenant: &TenantSetup| match &tenant.model.arrivals {
            Arrivals::Trace(times) => times.is_empty(),
            Arrivals::Load(load) | Arrivals::Rate(load) => *load <= 0.0,
            Arrivals::Closed { .. } => false,
        };
        if self.tenants.iter().any(idle) {
            return wrong("no request would ever come");
        }
        if self.tenants.iter().any(|tenant| tenant.priority > 4) {
            return wrong("priorities are 0 to 4");
        }
        Ok(())
    }
}
