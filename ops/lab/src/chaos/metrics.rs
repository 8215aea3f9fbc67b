//! What a run has to hold, as lines of metrics.

use crate::bench::{Goal, Metric, Spec};

const NONE: Goal = Goal::AtMost(0.0);

const fn spec(name: &'static str, unit: &'static str, goal: Goal, what: &'static str) -> Spec {
    Spec {
        name,
        unit,
        goal,
        what,
    }
}

/// Processes killed.
pub(super) const KILLS: Spec = spec("chaos_kills", "kills", Goal::None, "processes killed");
/// Ops that clients submitted.
pub(super) const OPS: Spec = spec("chaos_ops", "ops", Goal::None, "ops submitted");
/// Ops that never ran.
pub(super) const LOST: Spec = spec("chaos_lost", "ops", NONE, "submitted and never run");
/// Ops that ran twice.
pub(super) const DUPLICATED: Spec = spec("chaos_duplicated", "ops", NONE, "run more than once");
/// Ops or positions out of order.
pub(super) const REORDERED: Spec = spec("chaos_reordered", "ops", NONE, "run out of order");
/// Wrong results.
pub(super) const WRONG: Spec = spec(
    "chaos_wrong",
    "results",
    NONE,
    "not what plain Rust computes",
);
/// Calls that did not end.
pub(super) const HUNG: Spec = spec("chaos_hung", "calls", NONE, "not ended at their deadline");
/// Sessions that failed for nothing.
pub(super) const FAILED: Spec = spec(
    "chaos_failed",
    "sessions",
    NONE,
    "failed though their worker was not lost",
);
/// Positions nobody recorded.
pub(super) const SKIPPED: Spec = spec("chaos_skipped", "positions", NONE, "nowhere recorded");
/// Positions that died with a leader's record.
pub(super) const ADOPTED: Spec = spec(
    "chaos_adopted_share",
    "fraction",
    Goal::AtMost(0.01),
    "positions taken from workers",
);
/// What the checker says.
pub(super) const CHECKER: Spec = spec(
    "chaos_checker",
    "holds",
    Goal::AtLeast(1.0),
    "1 where tests/checker finds all in order",
);
/// One of several brokers away, also together with the leader.
pub(super) const TAKEOVER: Spec = spec(
    "broker_takeover_ms",
    "ms",
    Goal::AtMost(10_000.0),
    "longest time without any program's result after a broker went, or to the next leader's first grant",
);

/// The longest runs must have had enough to do.
const LONG_SECONDS: u64 = 300;
const LONG_OPS: f64 = 100_000.0;

/// Number of ops that a run of so many seconds has to have.
pub(super) fn ops_goal(seconds: u64) -> Goal {
    match seconds >= LONG_SECONDS {
        true => Goal::AtLeast(LONG_OPS),
        false => Goal::AtLeast(1.0),
    }
}

/// A metric of one value.
pub(super) fn one(spec: &Spec, value: f64) -> Metric {
    Metric::new(spec, &[value])
}

/// As [`one`], with a goal that depends on the run.
pub(super) fn with_goal(spec: &Spec, goal: Goal, value: f64) -> Metric {
    Metric::new(&Spec { goal, ..*spec }, &[value])
}
