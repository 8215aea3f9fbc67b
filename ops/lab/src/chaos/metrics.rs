//! The promises that a run has to hold, as metrics.

use crate::bench::{Goal, Measurement, Spec, specs};

const NONE: Goal = Goal::AtMost(0.0);

specs! {
    KILLS = "chaos_kills", "kills", Goal::None,
        "processes killed";
    OPS = "chaos_ops", "ops", Goal::None,
        "ops submitted";
    LOST = "chaos_lost", "ops", NONE,
        "submitted and never run";
    DUPLICATED = "chaos_duplicated", "ops", NONE,
        "run more than once";
    REORDERED = "chaos_reordered", "ops", NONE,
        "run out of order";
    WRONG = "chaos_wrong", "results", NONE,
        "not what plain Rust computes";
    HUNG = "chaos_hung", "calls", NONE,
        "not ended at their deadline";
    FAILED = "chaos_failed", "sessions", NONE,
        "failed though their worker was not lost";
    UNTOLD = "chaos_untold", "sessions", NONE,
        "no word to their program 5 s after their worker's death";
    FALSE_TAKEOVERS = "chaos_false_takeovers", "takeovers", NONE,
        "leaders changed though neither the leader nor a broker was hit";
    FALSE_LOSSES = "chaos_false_losses", "workers", NONE,
        "declared lost though nothing took them away";
    SKIPPED = "chaos_skipped", "positions", NONE,
        "nowhere recorded";
    ADOPTED = "chaos_adopted_share", "fraction", Goal::AtMost(0.01),
        "positions taken from workers";
    SWAPS = "chaos_swaps", "sessions", Goal::AtLeast(1.0),
        "swapped out, of those that the usage stream has";
    CHECKER = "chaos_checker", "holds", Goal::AtLeast(1.0),
        "1 where tests/checker finds all in order";
    TAKEOVER = "broker_takeover_ms", "ms", Goal::AtMost(10_000.0),
        "longest time without any program's result after a broker went, or to the next leader's first grant";
    CROSSED = "hostile_crossed", "effects", NONE,
        "effects of a hostile tenant on others, and what it got hold of";
    EVICTED = "hostile_evicted", "evictions", NONE,
        "others' sessions ended, leaders and workers lost";
    NEIGHBOUR = "hostile_neighbour_p99_ratio", "ratio", Goal::AtMost(1.5),
        "a neighbour's p99 beside a flood, over that beside the same flood at another broker";
}

/// Seconds from which on a run must have had enough to do.
const LONG_SECONDS: u64 = 300;
const LONG_OPS: f64 = 100_000.0;

/// Goal for the number of ops of a run of this length.
pub(super) fn ops_goal(seconds: u64) -> Goal {
    match seconds >= LONG_SECONDS {
        true => Goal::AtLeast(LONG_OPS),
        false => Goal::AtLeast(1.0),
    }
}

/// Makes a metric of one value.
pub(super) fn one(spec: &Spec, value: f64) -> Measurement {
    Measurement::new(spec, &[value])
}

/// As [`one`], with a goal that depends on the run.
pub(super) fn with_goal(spec: &Spec, goal: Goal, value: f64) -> Measurement {
    Measurement::new(&Spec { goal, ..*spec }, &[value])
}
