//! The checkers can fail: each flaw in a node is seen, and as what it is; and what shows it is made
//! small.

use sim_faults::{Flaw, Options, Scene, Script, Tracing, Troubles, play, shrink};

/// Plays that a test spends on making a scene small.
const PLAYS: u64 = 400;

fn shown(flaw: Flaw, troubles: Option<Troubles>, as_what: &str) -> String {
    let options = Options {
        troubles,
        tracing: Tracing::Off,
        flaw: Some(flaw),
    };
    // Not every seed gives every flaw a chance.
    let scene_of = |seed| {
        let mut scene = Scene::draw(seed, troubles);
        // Who stands is not granted slices: what is ahead of those is not seen.
        scene.settings.standing &= flaw != Flaw::IgnoresTargets;
        scene
    };
    let mut seen = Vec::new();
    let shown = (20_001..20_200).find(|seed| {
        let failure = play(&scene_of(*seed), &options).err();
        seen.extend(failure.iter().map(|failure| failure.invariant));
        failure.is_some_and(|failure| failure.invariant == as_what)
    });
    let Some(seed) = shown else {
        panic!("{flaw:?} was seen as {seen:?}");
    };
    let scene = scene_of(seed);
    let small = shrink(&scene, options.flaw, as_what, PLAYS).scene;
    let failure = play(&small, &options).expect_err("the small scene breaks the same");
    assert_eq!(failure.invariant, as_what);
    let text = |scene| Script::new(scene, options.flaw, None).text().unwrap();
    let (was, is) = (text(scene), text(small));
    // The format itself takes some forty lines, and each client three beside its sessions.
    let lines = is.lines().count();
    assert!(
        lines <= 140,
        "{lines} lines of {}:\n{is}",
        was.lines().count()
    );
    let again = Script::read(&is).unwrap();
    let words = failure.what.clone();
    assert_eq!(play(&again.scene, &options), Err(failure), "the same again");
    words
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

const CRASHES: Option<Troubles> = Some(Troubles {
    crashes: true,
    ..Troubles::NONE
});

#[test]
fn a_seal_that_does_not_name_what_its_tail_opens_is_seen() {
    let words = shown(Flaw::ForgetsNames, CRASHES, "I5");
    assert!(words.contains("nor a seal's tail"), "{words}");
}

#[test]
fn a_seal_without_its_tail_is_seen() {
    let words = shown(Flaw::ForgetsTail, CRASHES, "I5");
    assert!(words.contains("nor a seal's tail"), "{words}");
}

#[test]
fn an_outcome_that_is_told_wrong_is_seen() {
    let words = shown(Flaw::MisreportsOpens, CALM, "I5");
    assert!(words.contains("it ended"), "{words}");
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
fn memory_beyond_the_quota_is_seen() {
    shown(Flaw::IgnoresQuota, CALM, "I8");
}

#[test]
fn memory_of_others_is_seen() {
    shown(Flaw::SkipsAddressCheck, CALM, "I9");
}

#[test]
fn forgotten_use_is_seen() {
    shown(Flaw::ForgetsUse, CALM, "I10");
}

#[test]
fn groups_ignored_are_seen() {
    shown(Flaw::IgnoresGroups, CALM, "placement");
}

#[test]
fn an_exclusive_worker_that_is_shared_is_seen() {
    let seen = shown(Flaw::SharesExclusive, CALM, "placement");
    assert!(seen.contains("exclusive worker"), "{seen}");
}

#[test]
fn one_device_too_few_is_seen() {
    shown(Flaw::LosesADevice, CALM, "placement");
}

#[test]
fn one_device_twice_is_seen() {
    shown(Flaw::RepeatsADevice, CALM, "placement");
}

#[test]
fn a_place_refused_without_cause_is_seen_at_once_and_in_the_end() {
    shown(Flaw::RefusesPlaces, CALM, "placement");
    let troubles = Troubles {
        lease: true,
        ..Troubles::NONE
    };
    shown(Flaw::RefusesPlaces, Some(troubles), "liveness");
}

#[test]
fn a_device_called_lost_that_is_there_is_seen() {
    shown(Flaw::BlamesDevices, CALM, "placement");
}

#[test]
fn a_worker_that_never_reports_is_seen() {
    shown(Flaw::NeverReports, CALM, "liveness");
}

const DRAINS: Option<Troubles> = Some(Troubles {
    drains: true,
    ..Troubles::NONE
});

#[test]
fn sessions_placed_on_a_drained_worker_are_seen() {
    let words = shown(Flaw::IgnoresDrains, DRAINS, "placement");
    assert!(words.contains("which is drained"), "{words}");
}

#[test]
fn a_worker_that_is_sent_away_with_its_sessions_is_seen() {
    let words = shown(Flaw::DismissesAtOnce, DRAINS, "placement");
    assert!(words.contains("told to leave"), "{words}");
}

#[test]
fn a_drain_that_is_forgotten_with_its_leader_is_seen() {
    let troubles = Troubles {
        drains: true,
        crashes: true,
        ..Troubles::NONE
    };
    let words = shown(Flaw::ForgetsDrains, Some(troubles), "placement");
    assert!(words.contains("drained"), "{words}");
}

const STORES: Option<Troubles> = Some(Troubles {
    stores: true,
    ..Troubles::NONE
});

#[test]
fn a_leader_that_keeps_more_than_it_may_is_seen() {
    let words = shown(Flaw::KeepsAll, STORES, "record");
    assert!(words.contains("goes on with block"), "{words}");
}

#[test]
fn a_leader_that_gives_up_while_it_has_room_is_seen() {
    let words = shown(Flaw::GivesUpEarly, STORES, "record");
    assert!(words.contains("left inputs unrecorded"), "{words}");
}

#[test]
fn a_gap_that_is_not_named_is_seen() {
    let words = shown(Flaw::HidesGaps, STORES, "I5");
    assert!(words.contains("neither"), "{words}");
}

#[test]
fn a_gap_that_is_named_too_small_is_seen() {
    let words = shown(Flaw::NamesTooLittle, STORES, "I5");
    assert!(words.contains("neither"), "{words}");
}

#[test]
fn a_gap_without_a_reason_is_seen() {
    let words = shown(Flaw::GivesNoReason, STORES, "record");
    assert!(words.contains("a gap says"), "{words}");
}

#[test]
fn what_is_appended_long_after_it_was_decided_is_seen() {
    let words = shown(Flaw::AppendsLate, CRASHES, "record");
    assert!(words.contains("append interval"), "{words}");
}

#[test]
fn a_kernel_that_runs_on_when_its_session_is_closed_is_seen() {
    let words = shown(Flaw::IgnoresStop, CALM, "stop");
    assert!(words.contains("was closed and ran"), "{words}");
}
