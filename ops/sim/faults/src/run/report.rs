//! The options of a run, and the report of it.

use sim_cluster::Nanos;

use crate::coverage::Coverage;
use crate::faults::Troubles;
use crate::mutants::Mutant;

/// What becomes of the trace.
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

/// How to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The kinds of trouble; drawn from the seed if not given.
    pub troubles: Option<Troubles>,
    /// The trace.
    pub tracing: Tracing,
    /// What some nodes are mutants by, which the checkers must see.
    pub mutant: Option<Mutant>,
}

/// A run in which everything held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    /// The seed.
    pub seed: u64,
    /// Events handled.
    pub steps: u64,
    /// Virtual time, nanoseconds.
    pub time: Nanos,
    /// Hash of everything that happened.
    pub history: u64,
    /// Ops that ran.
    pub ops: u64,
    /// Positions that ended void.
    pub voids: u64,
    /// Epochs in which somebody led.
    pub epochs: u64,
    /// Sessions that ended in good order.
    pub ended: u64,
    /// Sessions that failed, for good reason.
    pub failed: u64,
    /// Faults injected.
    pub faults: u64,
    /// Positions in the replay.
    pub replayed: u64,
    /// Of these, taken from seals' tails.
    pub adopted: u64,
    /// Sessions that came and went with a leader's last append.
    pub adopted_sessions: u64,
    /// Workers that were gone, and compared with what was recorded of them.
    pub gone: u64,
    /// Positions that went unrecorded, by name.
    pub unrecorded: u64,
    /// Times that a leader left inputs unrecorded.
    pub gaps: u64,
    /// Slices of closed sessions that were stopped.
    pub stopped: u64,
    /// Sessions whose client gave up waiting.
    pub gave_up: u64,
    /// Epochs in which two nodes led.
    pub epochs_twice: u64,
    /// Times that a leader was followed by itself.
    pub renewed: u64,
    /// Beats of a leader while another led.
    pub rivals: u64,
    /// Comparisons of two tenants' shares.
    pub compared: u64,
    /// Accesses to memory that were judged.
    pub touched: u64,
    /// Sessions that were refused memory.
    pub denied: u64,
    /// Times that a session's memory was swapped out.
    pub swaps: u64,
    /// Reports of use that were compared with what was used.
    pub metered: u64,
    /// Blocks with moves of memory that were compared with what had moved.
    pub moved: u64,
    /// Requests for several devices that were had.
    pub several: u64,
    /// Refusals that clients were told, to ask again.
    pub declined: u64,
    /// Requests for several devices of which a worker died when some sessions had begun, and others not.
    pub halved: u64,
    /// Workers that were drained, as a leader said.
    pub drained: u64,
    /// Of these, such that had no session any more and were told to leave.
    pub dismissed: u64,
    /// Messages of a hostile tenant.
    pub harm: u64,
    /// No leader and no worker might lose its place.
    pub steady: bool,
    /// Which faults met which states.
    pub coverage: Coverage,
}

/// A run in which something did not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, step {step}, {time_ms} ms: {invariant}: {what}")]
pub struct RunFailure {
    /// The seed.
    pub seed: u64,
    /// At which event.
    pub step: u64,
    /// At which virtual time.
    pub time_ms: u64,
    /// Which invariant.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
    /// The last lines of the trace.
    pub tail: Vec<String>,
}
