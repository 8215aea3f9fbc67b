//! Tenants with a target: the work that goes ahead of them, and the work that waits, and its wait.
//! The naive view in `model/targets.rs` checks at every grant of every test that no grant breaks
//! the rules.

use bus_schemas::{ClusterSettings, CostRun, Incarnation, SessionId, TenantSettings};
use scheduler_leader_core::Input;

use crate::model::{COSTS, Model, launches, sync, tenant};

const WORKER: Incarnation = Incarnation(100);
/// A kernel of 1.2 ms: longer than a target of 2 ms lets ahead.
const LONG: usize = 5;
const SHORT: usize = 2;
/// Maximum number of ticks that a slice set aside waits.
const WAIT: u32 = 20;

/// Tenant 0 with a target above tenants 1 and 2, with one session each.
fn three(settings: ClusterSettings, slo_ns: u64) -> (Model, [SessionId; 3]) {
    let tenants = [(0, slo_ns), (4, 0), (4, 0)].map(|(priority, slo_ns)| TenantSettings {
        priority,
        slo_ns,
        ..TenantSettings::default()
    });
    let mut model = Model::new(settings, tenants.to_vec(), 1);
    let sessions = [0, 1, 2].map(|index| model.open(index).unwrap());
    drain(&mut model);
    (model, sessions)
}

fn submit(model: &mut Model, session: SessionId, runs: &[CostRun]) {
    model.submit(session, runs, true);
    model.announce(session, 100_000);
}

fn drain(model: &mut Model) {
    while model.run(WORKER, 1) > 0 {}
}

fn tick(model: &mut Model) {
    model.apply(Input::Tick);
}

/// Launches of a session that were granted.
fn granted(model: &Model, session: SessionId) -> u64 {
    model.scheduler.session(session).unwrap().granted
}

/// A request of 200.5 microseconds, run at once.
fn request(model: &mut Model, session: SessionId) {
    submit(model, session, &[launches(SHORT, 10), sync()]);
    drain(model);
}

#[test]
fn what_is_long_waits_while_a_target_is_active_and_ten_ticks_more() {
    let (mut model, [urgent, long, short]) = three(ClusterSettings::default(), 2_000_000);
    assert!(!model.scheduler.awaits_tick(), "nobody was active");
    request(&mut model, urgent);
    submit(&mut model, long, &[launches(LONG, 3)]);
    submit(&mut model, short, &[launches(SHORT, 30)]);
    drain(&mut model);
    assert_eq!(granted(&model, long), 0, "set aside");
    assert_eq!(granted(&model, short), 30, "others go on");
    for _ in 0..9 {
        assert!(model.scheduler.awaits_tick());
        tick(&mut model);
        assert_eq!(granted(&model, long), 0);
    }
    tick(&mut model);
    drain(&mut model);
    assert_eq!(granted(&model, long), 3, "the target is active no more");
    assert!(!model.scheduler.awaits_tick(), "and asks for no more ticks");
}

#[test]
fn what_was_set_aside_for_long_enough_goes_once() {
    let (mut model, [urgent, long, short]) = three(ClusterSettings::default(), 2_000_000);
    request(&mut model, urgent);
    submit(&mut model, long, &[launches(LONG, 40)]);
    submit(&mut model, short, &[launches(SHORT, 40_000)]);
    let rounds = 10 * WAIT;
    for _ in 0..rounds {
        request(&mut model, urgent);
        tick(&mut model);
        drain(&mut model);
    }
    assert_eq!(granted(&model, long), u64::from(rounds / WAIT));
    // The use of earlier rounds of its priority is neither made up for nor held against it.
    (0..10).for_each(|_| tick(&mut model));
    drain(&mut model);
    assert_eq!(granted(&model, long), 40);
}

#[test]
fn a_longest_wait_of_nothing_sets_nothing_aside() {
    let settings = ClusterSettings {
        slo_wait_ticks: 0,
        ..ClusterSettings::default()
    };
    let (mut model, [urgent, long, _]) = three(settings, 2_000_000);
    request(&mut model, urgent);
    submit(&mut model, long, &[launches(LONG, 3)]);
    drain(&mut model);
    assert_eq!(granted(&model, long), 3);
}

#[test]
fn the_limit_is_half_of_what_a_request_leaves() {
    // 1.2 ms are half of 2.4 ms, and the request takes 200.5 microseconds.
    for (slo_ns, goes) in [(2_600_499, false), (2_600_500, true)] {
        let (mut model, [urgent, long, _]) = three(ClusterSettings::default(), slo_ns);
        request(&mut model, urgent);
        submit(&mut model, long, &[launches(LONG, 1)]);
        drain(&mut model);
        assert_eq!(granted(&model, long) > 0, goes, "a target of {slo_ns}");
    }
}

#[test]
fn a_target_that_is_raised_or_taken_away_holds_nothing_back() {
    for slo_ns in [5_000_000, 0] {
        let (mut model, [urgent, long, _]) = three(ClusterSettings::default(), 2_000_000);
        request(&mut model, urgent);
        submit(&mut model, long, &[launches(LONG, 1)]);
        drain(&mut model);
        assert_eq!(granted(&model, long), 0);
        model.tenants[0].slo_ns = slo_ns;
        model.apply(Input::TenantSet {
            tenant: tenant(0),
            settings: Some(model.tenants[0].clone()),
        });
        drain(&mut model);
        assert_eq!(granted(&model, long), 1, "a target of {slo_ns}");
        assert_eq!(model.scheduler.awaits_tick(), slo_ns > 0);
    }
}

#[test]
fn lower_priorities_get_a_small_window_while_a_target_is_active() {
    let small = 100_000;
    for (slo_ns, slo_window_ns, room) in [
        (100_000_000, small, 5),
        (100_000_000, 0, 50),
        (0, small, 50),
    ] {
        let settings = ClusterSettings {
            window_ns: 1_000_000,
            quantum_ns: COSTS[SHORT],
            slo_window_ns,
            standing: false,
            ..ClusterSettings::default()
        };
        let (mut model, [urgent, low, _]) = three(settings, slo_ns);
        request(&mut model, urgent);
        submit(&mut model, low, &[launches(SHORT, 1_000)]);
        assert_eq!(granted(&model, low), room, "{slo_ns} and {slo_window_ns}");
        // Its own window is unchanged.
        submit(&mut model, urgent, &[launches(SHORT, 1_000)]);
        assert_eq!(granted(&model, urgent), 11 + 50);
    }
}

#[test]
fn a_tenant_that_announces_and_never_sends_is_not_active_for_ever() {
    let settings = ClusterSettings {
        standing: false,
        ..ClusterSettings::default()
    };
    let (mut model, [urgent, long, _]) = three(settings, 2_000_000);
    model.submit(urgent, &[launches(SHORT, 10), sync()], false);
    model.announce(urgent, 100_000);
    drain(&mut model);
    submit(&mut model, long, &[launches(LONG, 3)]);
    (0..10).for_each(|_| tick(&mut model));
    drain(&mut model);
    assert_eq!(granted(&model, long), 3);
}

#[test]
fn a_floor_lifts_over_a_target() {
    let settings = ClusterSettings {
        floors: [0, 0, 0, 0, 10],
        ..ClusterSettings::default()
    };
    let (mut model, [urgent, long, _]) = three(settings, 2_000_000);
    request(&mut model, urgent);
    submit(&mut model, long, &[launches(LONG, 3)]);
    // A tenth of 12 ms is one of the long slices; no tick passes.
    for _ in 0..60 {
        request(&mut model, urgent);
    }
    assert_eq!(granted(&model, long), 1);
}
