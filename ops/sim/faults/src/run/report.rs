//! The options of a run, and the report of it.

use sim_cluster::Nanos;

use crate::coverage::Coverage;
use crate::faults::Troubles;
use crate::mutants::Mutant;
use crate::run::counts::Counts;

/// Use of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tracing {
    /// A failing run is played again, and the last lines are in its [`RunFailure`].
    #[default]
    Failure,
    /// Every line is printed.
    Print,
    /// No trace at all.
    Off,
}

/// Options of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The kinds of trouble; drawn from the seed if not given.
    pub troubles: Option<Troubles>,
    /// The trace.
    pub tracing: Tracing,
    /// Kind of the mutants among the nodes, which the checkers must detect.
    pub mutant: Option<Mutant>,
}

/// A passed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    /// The seed.
    pub seed: u64,
    /// Virtual time, nanoseconds.
    pub time: Nanos,
    /// Hash of everything that happened.
    pub history: u64,
    /// The counters.
    pub counts: Counts,
    /// True if no leader and no worker was allowed to lose its place.
    pub steady: bool,
    /// Faults and the states that they met.
    pub coverage: Coverage,
}

/// A failed run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, step {step}, {time_ms} ms: {invariant}: {what}")]
pub struct RunFailure {
    /// The seed.
    pub seed: u64,
    /// Number of the event.
    pub step: u64,
    /// Virtual time of the event, milliseconds.
    pub time_ms: u64,
    /// The violated invariant.
    pub invariant: &'static str,
    /// The observation.
    pub what: String,
    /// The last lines of the trace.
    pub tail: Vec<String>,
}
