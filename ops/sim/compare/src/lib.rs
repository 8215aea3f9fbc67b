//! Schedulers on equal terms, in virtual time: the real cores of Warploom, and models of other schedulers,
//! share modelled devices under the same programs.
//!
//! Everything follows from a seed. Nothing here reads a clock, and only workload files are read or written.
//! `docs/internals/simulation.md` says what is modelled, from which sources, and what is not.
//!
//! ```
//! use sim_compare::{Policy, Scenario, SHAPES, generate};
//!
//! let resnet = generate(&SHAPES[0], 1);
//! let alone = sim_compare::run(&Scenario::new(vec![resnet.into()], 1), Policy::Native)?;
//! assert!(alone.tenants[0].latencies.len() > 100);
//! # Ok::<(), sim_compare::SimulationError>(())
//! ```

mod bare;
mod cluster;
pub mod compare;
mod device;
mod outcome;
pub mod plot;
mod program;
mod rival;
mod scenario;
mod workload;

pub use device::{DeviceKind, INTERFERENCE};
pub use outcome::{ComparedRun, KernelRow, Tenancy, quantile};
pub use rival::Policy;
pub use scenario::{Scenario, SimulationError, TenantSetup};
pub use sim_cluster::{MICRO, MILLI, Nanos, SECOND};
pub use workload::{
    Arrivals, FileError, Kernel, Model, Published, SHAPES, Shape, TenantRole, generate, read_dir,
    write_dir,
};

/// Runs a scenario under a policy.
///
/// # Errors
/// [`SimulationError`] if the scenario is invalid, or the cluster did not come up.
pub fn run(scenario: &Scenario, policy: Policy) -> Result<ComparedRun, SimulationError> {
    scenario.check()?;
    match policy.rival(scenario) {
        Some(rival) => Ok(bare::run(scenario, rival)),
        None => cluster::run(scenario),
    }
}
