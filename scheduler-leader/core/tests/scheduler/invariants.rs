//! The order's invariants, held against a naive model. See `src/policy/README.md`.

use crate::model::{COSTS, Model, launches, tenant};
use crate::steps::{run_strategy, settings_strategy, step, step_strategy, tenant_strategy};
use bus_schemas::{ClusterSettings, GrantKind, Incarnation, SessionId, TenantSettings};
use proptest::prelude::*;
use scheduler_leader_core::{Effect, Input};

/// Settings that make every op wait for the leader.
fn waiting() -> ClusterSettings {
    ClusterSettings {
        standing: false,
        ..ClusterSettings::default()
    }
}

/// Runs until this many grants were made, or a session has no work left to grant. The grants since
/// are dropped then: not all sessions were backlogged.
fn run_while_backlogged(model: &mut Model, sessions: &[SessionId], grants: usize) {
    while model.grants.len() < grants {
        let before = model.grants.len();
        assert!(model.run(Incarnation(100), 1) > 0);
        let empty = |id: &SessionId| {
            let view = model.scheduler.session(*id).unwrap();
            view.queued == view.granted
        };
        if sessions.iter().any(empty) {
            model.grants.truncate(before);
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// I1, I2, I4, I5, I6 (window), cut points, addresses, for any steps.
    #[test]
    fn whatever_happens_the_rules_hold(
        settings in settings_strategy(),
        tenants in prop::collection::vec(tenant_strategy(), 4),
        steps in prop::collection::vec(step_strategy(false), 1..120),
    ) {
        let mut model = Model::new(settings, tenants, 2);
        steps.iter().for_each(|one| step(&mut model, one));
        model.apply(Input::Hold { held: false });
        (0..4).for_each(|tenant| drop(model.suspend(tenant, false)));
        // After any reports of workers, all memory fits at last.
        model.tell_memory(Incarnation(100), 0, Vec::new());
        model.tell_memory(Incarnation(101), 0, Vec::new());
        model.settle();
    }

    /// The same with leaders coming and going: every op still runs once.
    #[test]
    fn leaders_come_and_go(
        settings in settings_strategy(),
        tenants in prop::collection::vec(tenant_strategy(), 4),
        steps in prop::collection::vec(step_strategy(true), 1..160),
    ) {
        let mut model = Model::new(settings, tenants, 2);
        steps.iter().for_each(|one| step(&mut model, one));
        model.apply(Input::Hold { held: false });
        (0..4).for_each(|tenant| drop(model.suspend(tenant, false)));
        // After any reports of workers, all memory fits at last.
        model.tell_memory(Incarnation(100), 0, Vec::new());
        model.tell_memory(Incarnation(101), 0, Vec::new());
        model.settle();
    }

    /// I6: a lower priority is never granted while a higher one is eligible.
    #[test]
    fn priorities_are_strict(
        settings in settings_strategy(),
        priorities in prop::collection::vec(0..5u8, 4),
        steps in prop::collection::vec(step_strategy(false), 1..120),
    ) {
        let tenants = priorities.iter().map(|priority| TenantSettings {
            priority: *priority, ..TenantSettings::default()
        });
        let mut model = Model::new(settings, tenants.collect(), 2);
        for one in &steps {
            let before = model.grants.len();
            step(&mut model, one);
            // The last of the grants made together: all work eligible then is still eligible.
            if let Some((worker, _, grant)) = model.grants[before..].last().copied()
                && grant.kind == GrantKind::Run
            {
                let higher = model.higher_eligible(worker, grant.priority);
                prop_assert_eq!(higher, Vec::<SessionId>::new());
            }
        }
    }

    /// I7, and newcomers: once all are backlogged, each has its share, with any earlier history.
    #[test]
    fn shares_follow_weights(
        settings in settings_strategy(),
        weights in prop::collection::vec(1..50u32, 3),
        kernels in prop::collection::vec(0..COSTS.len(), 3),
        head_start in 0..200usize,
        grants in 20..300usize,
    ) {
        let tenants = weights.iter().map(|weight| TenantSettings {
            weight: *weight, ..TenantSettings::default()
        });
        let quantum = settings.quantum_ns;
        let mut model = Model::new(settings, tenants.collect(), 1);
        let sessions: Vec<_> = (0..3).map(|index| model.open(index).unwrap()).collect();
        let endless = |model: &mut Model, index: usize| {
            model.submit(sessions[index], &[launches(kernels[index], 20_000)], true);
            model.announce(sessions[index], 20_000);
        };
        // The first has the device alone for a while. It does not pay for that, and the others get
        // no credit for their absence.
        endless(&mut model, 0);
        for _ in 0..head_start {
            model.run(Incarnation(100), 1);
        }
        endless(&mut model, 1);
        endless(&mut model, 2);
        let from = model.grants.len();
        run_while_backlogged(&mut model, &sessions, from + grants);
        let mut served = [0u128; 3];
        for (_, _, grant) in &model.grants[from..] {
            let of = sessions.iter().position(|id| *id == grant.session).unwrap();
            served[of] += u128::from(grant.cost);
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                let longest = |of: usize| u128::from(quantum.max(COSTS[kernels[of]]));
                let (wa, wb) = (u128::from(weights[a]), u128::from(weights[b]));
                let apart = (served[a] * wb).abs_diff(served[b] * wa);
                prop_assert!(apart <= longest(a) * wb + longest(b) * wa + wa * wb, "{served:?}");
            }
        }
    }

    /// A floor is kept over any time in which its priority has work, and costs no more than it.
    #[test]
    fn floors_are_kept(
        settings in settings_strategy(),
        floor in 1..60u8,
        kernels in prop::collection::vec(0..5usize, 2),
        slo_ns in prop_oneof![Just(0), Just(1)],
    ) {
        let mut settings = settings;
        settings.floors = [0, 0, 0, 0, floor];
        let (quantum, window) = (settings.quantum_ns, settings.window_ns);
        let mut priorities = [0, 4].map(|priority| TenantSettings { priority, ..TenantSettings::default() });
        // A target sets long work aside, and the floor keeps it going.
        priorities[0].slo_ns = slo_ns;
        let mut model = Model::new(settings, priorities.to_vec(), 1);
        let sessions: Vec<_> = (0..2).map(|index| model.open(index).unwrap()).collect();
        for (session, kernel) in sessions.iter().zip(&kernels) {
            model.submit(*session, &[launches(*kernel, 30_000)], true);
            model.announce(*session, 30_000);
        }
        let from = model.grants.len();
        run_while_backlogged(&mut model, &sessions, from + 200);
        let longest = quantum.max(COSTS[kernels[0]]).max(COSTS[kernels[1]]);
        let (mut low, mut all) = (0u64, 0u64);
        for (_, _, grant) in &model.grants[from..] {
            all += grant.cost;
            low += grant.cost * u64::from(grant.session == sessions[1]);
            // Both always have work: the floor's slices go at the priority that they displace.
            prop_assert_eq!(grant.priority, 0);
            let share = all * u64::from(floor) / 100;
            prop_assert!(low + window + 2 * longest >= share, "{low} of {all} at {floor} %");
            prop_assert!(low <= share + window + 2 * longest, "{low} of {all} at {floor} %");
        }
    }

    /// With all work queued behind a hold, the order depends only on the work.
    #[test]
    fn held_work_is_ordered_the_same_however_it_came(
        settings in settings_strategy(),
        tenants in prop::collection::vec(tenant_strategy(), 4),
        work in prop::collection::vec(prop::collection::vec(run_strategy(), 1..8), 4),
        ways in prop::collection::vec(prop::collection::vec((0..4usize, 1..300usize), 0..40), 2),
    ) {
        let orders: Vec<_> = ways.iter().map(|arrivals| {
            let mut model = Model::new(settings.clone(), tenants.clone(), 2);
            model.apply(Input::Hold { held: true });
            let sessions: Vec<_> = (0..4).map(|index| model.open(index).unwrap()).collect();
            for (session, runs) in sessions.iter().zip(&work) {
                model.submit(*session, runs, true);
            }
            for (session, most) in arrivals {
                model.announce(sessions[*session], *most);
            }
            for session in &sessions {
                model.announce(*session, usize::MAX / 2);
            }
            model.apply(Input::Hold { held: false });
            model.settle();
            let tails = model.workers.values();
            tails.map(|worker| (worker.position, worker.chain)).collect::<Vec<_>>()
        }).collect();
        prop_assert_eq!(&orders[0], &orders[1]);
    }
}

/// A client that announces and never sends costs one void, then nothing: others go on.
#[test]
fn a_client_that_never_sends_is_doubted() {
    let tenants = vec![TenantSettings::default(); 2];
    let mut model = Model::new(ClusterSettings::default(), tenants, 1);
    let (liar, other) = (model.open(0).unwrap(), model.open(1).unwrap());
    model.submit(liar, &[launches(2, 1_000)], false);
    model.submit(other, &[launches(2, 10_000)], true);
    model.announce(liar, 1_000);
    model.announce(other, 10_000);
    while model.run(Incarnation(100), 1) > 0 {}
    assert_eq!(model.sessions[&other].done, 10_000);
    let lies = model
        .grants
        .iter()
        .filter(|(_, _, grant)| grant.session == liar);
    let lies = lies
        .filter(|(_, _, grant)| grant.kind == GrantKind::Run)
        .count();
    assert!((1..=6).contains(&lies), "{lies} grants of what never came");
    // The ops that it sends at last run.
    model.sessions.get_mut(&liar).unwrap().received = 700;
    model.tell_received(liar);
    while model.run(Incarnation(100), 1) > 0 {}
    assert_eq!(model.sessions[&liar].done, 700);
    model.settle();
}

#[test]
fn opens_are_refused_with_a_reason() {
    let limited = TenantSettings {
        sessions: 1,
        ..TenantSettings::default()
    };
    let mut model = Model::new(ClusterSettings::default(), vec![limited], 1);
    assert!(model.open(0).is_some());
    let refused = |model: &mut Model, index: usize| {
        let input = Input::SessionOpen {
            tenant: tenant(index),
            nonce: 99,
            devices: 1,
            wide: false,
        };
        match model.apply(input).as_slice() {
            [Effect::Refused { code, .. }] => code.name(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(&mut model, 0), "E-TENANT-SESSIONS");
    assert_eq!(refused(&mut model, 7), "E-TENANT-UNKNOWN");
    let incarnation = Incarnation(100);
    model.tenants[0].sessions = 0;
    model.apply(Input::TenantSet {
        tenant: tenant(0),
        settings: Some(TenantSettings::default()),
    });
    model.apply(Input::Draining {
        incarnation,
        draining: true,
    });
    assert_eq!(refused(&mut model, 0), "E-CLUSTER-NO-WORKER");
}

/// Ops granted again after a void are cut at the same points as before.
#[test]
fn a_rewound_session_keeps_its_cut_points() {
    let mut model = Model::new(waiting(), vec![TenantSettings::default()], 1);
    let session = model.open(0).unwrap();
    model.run(Incarnation(100), 1);
    // A fragment of the first slice (25 ops of 20 microseconds) runs.
    model.submit(session, &[launches(2, 5)], true);
    model.announce(session, 5);
    model.run(Incarnation(100), 1);
    assert_eq!(model.sessions[&session].done, 5);
    // The rest of it is announced and not there: void, and granted again once it arrives.
    model.submit(session, &[launches(2, 60)], false);
    model.announce(session, 60);
    while model.run(Incarnation(100), 1) > 0 {}
    model.sessions.get_mut(&session).unwrap().received = 65;
    model.tell_received(session);
    while model.run(Incarnation(100), 1) > 0 {}
    assert_eq!(model.sessions[&session].done, 65);
    let ranges: Vec<_> = model
        .grants
        .iter()
        .map(|(_, _, grant)| (grant.first, grant.last))
        .collect();
    assert_eq!(
        ranges,
        [
            (0, 0),
            (1, 5),
            (6, 25),
            (26, 50),
            (51, 65),
            (6, 25),
            (26, 50),
            (51, 65)
        ],
    );
}

/// Of several void grants on their way, the first rewinds; the others are granted again with it,
/// not twice.
#[test]
fn later_voids_rewind_nothing_more() {
    let mut model = Model::new(waiting(), vec![TenantSettings::default()], 1);
    let session = model.open(0).unwrap();
    model.run(Incarnation(100), 1);
    model.submit(session, &[launches(2, 75)], false);
    model.announce(session, 75);
    // The ops arrive just after the first void is reported.
    model.run(Incarnation(100), 1);
    model.sessions.get_mut(&session).unwrap().received = 75;
    model.tell_received(session);
    while model.run(Incarnation(100), 1) > 0 {}
    assert_eq!(model.sessions[&session].done, 75);
    let view = model.scheduler.worker(Incarnation(100)).unwrap();
    assert_eq!(
        (view.grants, view.voids),
        (1 + 3 + 3, 3),
        "{:?}",
        model.grants
    );
}
