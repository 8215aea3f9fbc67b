//! The checkers can fail: each flaw in a node is seen, and as what it is.

use simulation::{Flaw, Options, Tracing, Troubles, run};

fn shown(flaw: Flaw, troubles: Option<Troubles>, as_what: &str) {
    let options = Options {
        troubles,
        tracing: Tracing::Off,
        flaw: Some(flaw),
    };
    // Not every seed gives every flaw a chance.
    let failures = (20_001..20_200).filter_map(|seed| run(seed, &options).err());
    let mut seen = Vec::new();
    let shown = failures.map(|failure| failure.invariant).any(|invariant| {
        seen.push(invariant);
        invariant == as_what
    });
    assert!(shown, "{flaw:?} was seen as {seen:?}");
}

const CALM: Option<Troubles> = Some(Troubles::NONE);

#[test]
fn an_op_run_twice_is_seen() {
    shown(Flaw::RunsTwice, CALM, "I1");
}

#[test]
fn an_op_left_out_is_seen() {
    shown(Flaw::SkipsAnOp, CALM, "I1");
}

#[test]
fn slices_started_out_of_order_are_seen() {
    shown(Flaw::SwapsStarts, CALM, "I2");
}

#[test]
fn a_worker_that_ignores_epochs_is_seen() {
    let troubles = Troubles {
        pauses: true,
        partitions: true,
        ..Troubles::NONE
    };
    shown(Flaw::IgnoresEpochs, Some(troubles), "I3");
}

#[test]
fn grants_of_ops_never_submitted_are_seen() {
    shown(Flaw::InventsOps, CALM, "I4");
}

#[test]
fn a_false_chain_is_seen() {
    shown(Flaw::WrongChain, CALM, "I5");
}

#[test]
fn a_record_with_a_hole_is_seen() {
    shown(Flaw::LosesBlock, CALM, "I5");
}

#[test]
fn a_window_too_wide_is_seen() {
    shown(Flaw::WideWindow, CALM, "I6");
}

#[test]
fn targets_ignored_are_seen() {
    shown(Flaw::IgnoresTargets, CALM, "I6");
}

#[test]
fn unequal_shares_are_seen() {
    shown(Flaw::EqualWeights, CALM, "I7");
}

#[test]
fn a_worker_that_never_reports_is_seen() {
    shown(Flaw::NeverReports, CALM, "liveness");
}
