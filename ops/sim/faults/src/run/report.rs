//! The options of a run, and the report of it.

use sim_cluster::Nanos;

use crate::coverage::Coverage;
use crate::faults::Troubles;
use crate::mutants::Mutant;

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
    /// Epochs with a leader.
    pub epochs: u64,
    /// Sessions that ended in good order.
    pub ended: u64,
    /// Sessions that failed for a good reason.
    pub failed: u64,
    /// Faults injected.
    pub faults: u64,
    /// Positions in the replay.
    pub replayed: u64,
    /// Positions in the replay that were taken from seals' tails.
    pub adopted: u64,
    /// Sessions that were opened and closed within a leader's last append.
    pub adopted_sessions: u64,
    /// Workers that are gone, with chains that match the record.
    pub gone: u64,
    /// Positions that the record names as unrecorded.
    pub unrecorded: u64,
    /// Times that a leader left inputs unrecorded.
    pub gaps: u64,
    /// Slices of closed sessions that were stopped.
    pub stopped: u64,
    /// Sessions with a client that timed out.
    pub gave_up: u64,
    /// Epochs in which two nodes led.
    pub epochs_twice: u64,
    /// Times that a leader took over from itself.
    pub renewed: u64,
    /// Beats of a leader while another led.
    pub rivals: u64,
    /// Comparisons of two tenants' shares.
    pub compared: u64,
    /// Checked accesses to memory.
    pub touched: u64,
    /// Sessions that were refused memory.
    pub denied: u64,
    /// Times that a session's memory was swapped out.
    pub swaps: u64,
    /// Reports of use that were compared with the actual use.
    pub metered: u64,
    /// Blocks with moves of memory that were compared with the actual moves.
    pub moved: u64,
    /// Granted requests for several devices.
    pub several: u64,
    /// Refusals sent to clients, which ask again.
    pub declined: u64,
    /// Requests for several devices during which a worker died, when some sessions had begun and others had
    /// not.
    pub halved: u64,
    /// Workers that a leader reported as drained.
    pub drained: u64,
    /// Drained workers that had no session left and were told to leave.
    pub dismissed: u64,
    /// Messages of a hostile tenant.
    pub harm: u64,
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
