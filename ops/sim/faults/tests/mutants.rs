//! The checkers can fail: each mutant in a node is detected, by the right invariant, and its scene is
//! shrunk.

use sim_faults::{Mutant, Options, Scene, Script, Tracing, Troubles, play, shrink};

/// Plays that a test spends on shrinking a scene.
const PLAYS: u64 = 400;

fn shown(mutant: Mutant, troubles: Option<Troubles>, as_what: &str) -> String {
    let options = Options {
        troubles,
        tracing: Tracing::Off,
        mutant: Some(mutant),
    };
    // Not every seed gives every mutant a chance.
    let scene_of = |seed| {
        let mut scene = Scene::draw(seed, troubles);
        // Standing sessions get no grants of slices, so overtaking would not be seen.
        scene.settings.standing &= mutant != Mutant::IgnoresTargets;
        scene
    };
    let mut seen = Vec::new();
    let shown = (20_001..21_000).find(|seed| {
        let failure = play(&scene_of(*seed), &options).err();
        seen.extend(failure.iter().map(|failure| failure.invariant));
        failure.is_some_and(|failure| failure.invariant == as_what)
    });
    let Some(seed) = shown else {
        panic!("{mutant:?} was seen as {seen:?}");
    };
    let scene = scene_of(seed);
    let small = shrink(&scene, options.mutant, as_what, PLAYS).scene;
    let failure = play(&small, &options).expect_err("the small scene breaks the same");
    assert_eq!(failure.invariant, as_what);
    let text = |scene| Script::new(scene, options.mutant, None).text().unwrap();
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

const fn only(crashes: bool, drains: bool, stores: bool) -> Option<Troubles> {
    Some(Troubles {
        crashes,
        drains,
        stores,
        ..Troubles::NONE
    })
}

const CALM: Option<Troubles> = only(false, false, false);
const CRASHES: Option<Troubles> = only(true, false, false);
const DRAINS: Option<Troubles> = only(false, true, false);
const DRAINS_AND_CRASHES: Option<Troubles> = only(true, true, false);
const STORES: Option<Troubles> = only(false, false, true);
const PAUSES_AND_PARTITIONS: Option<Troubles> = Some(Troubles {
    pauses: true,
    partitions: true,
    ..Troubles::NONE
});
const HOSTILE: Option<Troubles> = Some(Troubles {
    hostile: true,
    ..Troubles::NONE
});
const SLOWNESS: Option<Troubles> = Some(Troubles {
    slowness: true,
    ..Troubles::NONE
});
const LEASES: Option<Troubles> = Some(Troubles {
    lease: true,
    ..Troubles::NONE
});

/// Each mutant with its troubles, the invariant that detects it, and the words of the failure.
macro_rules! seen {
    ($($test:ident: $mutant:ident, $troubles:expr, $as_what:literal, $said:literal;)*) => {$(
        #[test]
        fn $test() {
            let words = shown(Mutant::$mutant, $troubles, $as_what);
            assert!(words.contains($said), "{words}");
        }
    )*};
}

seen! {
    an_op_run_twice_is_seen: RunsTwice, CALM, "I1", "";
    an_op_left_out_is_seen: SkipsAnOp, CALM, "I1", "";
    slices_started_out_of_order_are_seen: SwapsStarts, CALM, "I2", "";
    grants_of_ops_never_submitted_are_seen: InventsOps, CALM, "I4", "";
    a_false_chain_is_seen: WrongChain, CALM, "I5", "";
    a_record_with_a_hole_is_seen: LosesBlock, CALM, "I5", "";
    a_seal_that_does_not_name_what_its_tail_opens_is_seen: ForgetsNames, CRASHES, "I5", "nor a seal's tail";
    a_seal_without_its_tail_is_seen: ForgetsTail, CRASHES, "I5", "nor a seal's tail";
    an_outcome_that_is_told_wrong_is_seen: MisreportsOpens, CALM, "I5", "it ended";
    a_window_too_wide_is_seen: WideWindow, CALM, "I6", "";
    targets_ignored_are_seen: IgnoresTargets, CALM, "I6", "";
    unequal_shares_are_seen: EqualWeights, CALM, "I7", "";
    memory_beyond_the_quota_is_seen: IgnoresQuota, CALM, "I8", "";
    memory_of_others_is_seen: SkipsAddressCheck, CALM, "I9", "";
    forgotten_use_is_seen: ForgetsUse, CALM, "I10", "";
    forgotten_moves_are_seen: ForgetsMoves, CALM, "I10", "blocks have";
    groups_ignored_are_seen: IgnoresGroups, CALM, "placement", "";
    an_exclusive_worker_that_is_shared_is_seen: SharesExclusive, CALM, "placement", "exclusive worker";
    one_device_too_few_is_seen: LosesADevice, CALM, "placement", "";
    one_device_twice_is_seen: RepeatsADevice, CALM, "placement", "";
    a_device_called_lost_that_is_there_is_seen: BlamesDevices, CALM, "placement", "";
    a_worker_that_never_reports_is_seen: NeverReports, CALM, "liveness", "";
    sessions_placed_on_a_drained_worker_are_seen: IgnoresDrains, DRAINS, "placement", "which is drained";
    a_worker_that_is_sent_away_with_its_sessions_is_seen: DismissesAtOnce, DRAINS, "placement", "told to leave";
    a_leader_that_keeps_more_than_it_may_is_seen: KeepsAll, STORES, "record", "goes on with block";
    a_leader_that_gives_up_while_it_has_room_is_seen: GivesUpEarly, STORES, "record", "left inputs unrecorded";
    a_gap_that_is_not_named_is_seen: HidesGaps, STORES, "I5", "neither";
    a_gap_that_is_named_too_small_is_seen: NamesTooLittle, STORES, "I5", "neither";
    a_gap_without_a_reason_is_seen: GivesNoReason, STORES, "record", "a gap says";
    what_is_appended_long_after_it_was_decided_is_seen: AppendsLate, CRASHES, "record", "append interval";
    a_kernel_that_runs_on_when_its_session_is_closed_is_seen: IgnoresStop, CALM, "stop", "was closed and ran";
    a_promise_of_memory_that_is_broken_is_seen: PromisesTooMuch, CALM, "I8", "promised";
    a_chunk_that_was_never_sent_is_seen: ClaimsChunks, CALM, "copies", "has not sent chunk";
    forgotten_bytes_that_were_not_sent_are_seen: ForgetsUnsent, CALM, "I10", "did not send";
    an_export_that_was_never_made_is_seen: InventsExports, CALM, "exports", "was not exported by";
    an_import_that_outlives_its_export_is_seen: KeepsImports, CALM, "I9", "touched";
    a_worker_that_ignores_epochs_is_seen: IgnoresEpochs, PAUSES_AND_PARTITIONS, "I3", "";
    a_place_refused_without_cause_is_seen_at_once: RefusesPlaces, CALM, "placement", "";
    a_place_refused_without_cause_is_seen_in_the_end: RefusesPlaces, LEASES, "liveness", "";
    a_leader_deposed_because_it_is_slow_is_seen: DeposesTheSlow, SLOWNESS, "steady", "leads epoch";
    a_worker_called_lost_because_it_is_slow_is_seen: LosesTheSlow, SLOWNESS, "steady", "declared lost";
    a_leader_that_believes_names_of_connections_is_seen: BelievesNames, HOSTILE, "steady", "";
    a_drain_that_is_forgotten_with_its_leader_is_seen: ForgetsDrains, DRAINS_AND_CRASHES, "placement", "drained";
}
