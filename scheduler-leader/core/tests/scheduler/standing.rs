//! Standing grants: the sessions that get one, the events that end it, and the accounts of ops that
//! ran under it. The model's worker checks in every test that all ops run once and in order.

use bus_schemas::{
    CloseReason, ClusterSettings, DoneReport, GrantKind, Incarnation, Outcome, SessionId,
    TenantSettings,
};
use scheduler_leader_core::{Effect, Input, Rows};

use crate::model::{COSTS, Model, launches, sync, tenant};

const WORKER: Incarnation = Incarnation(100);
/// A kernel of 20 us.
const KERNEL: usize = 2;

fn standing() -> ClusterSettings {
    ClusterSettings {
        standing: true,
        ..ClusterSettings::default()
    }
}

fn model(tenants: usize) -> Model {
    let tenants = vec![TenantSettings::default(); tenants];
    Model::new(standing(), tenants, 1)
}

/// A session of the highest priority, and one of a lower one.
fn pair(settings: ClusterSettings) -> (Model, SessionId, SessionId) {
    let of = |priority| TenantSettings {
        priority,
        ..TenantSettings::default()
    };
    let mut model = Model::new(settings, vec![of(0), of(3)], 1);
    let (urgent, other) = (model.open(0).unwrap(), model.open(1).unwrap());
    drain(&mut model);
    (model, urgent, other)
}

fn drain(model: &mut Model) {
    while model.run(WORKER, 1) > 0 {}
}

/// Kinds of all grants so far.
fn kinds(model: &Model) -> Vec<GrantKind> {
    let grants = model.grants.iter();
    grants.map(|(_, _, grant)| grant.kind).collect()
}

fn close(model: &mut Model, session: SessionId) {
    let (after, reason) = (0, CloseReason::Killed);
    model.apply(Input::SessionClose {
        session,
        after,
        reason,
    });
    drain(model);
}

#[test]
fn the_only_session_stands_until_another_opens_and_again_once_that_has_ended() {
    use GrantKind::{Close, Open, Revoke, Run, Standing};
    let mut model = model(2);
    let alone = model.open(0).unwrap();
    assert_eq!(kinds(&model), [Open, Standing]);
    model.submit(alone, &[launches(KERNEL, 10), sync()], true);
    drain(&mut model);
    assert_eq!(model.sessions[&alone].done, 11, "before it was announced");
    model.announce(alone, 100);
    let view = model.scheduler.session(alone).unwrap();
    assert_eq!((view.granted, view.done), (11, 11));
    // A second session, of the same tenant or another.
    let other = model.open(0).unwrap();
    model.submit(alone, &[sync()], true);
    model.announce(alone, 100);
    assert_eq!(
        kinds(&model),
        [Open, Standing, Open],
        "not before it was closed"
    );
    drain(&mut model);
    assert_eq!(kinds(&model), [Open, Standing, Open, Run]);
    close(&mut model, other);
    assert_eq!(kinds(&model)[4..], [Close, Standing]);
    model.apply(Input::Hold { held: true });
    assert_eq!(kinds(&model).last(), Some(&Revoke));
    model.settle();
}

#[test]
fn on_a_worker_that_is_drained_sessions_stand_as_before() {
    use GrantKind::{Open, Standing};
    let mut model = model(1);
    let alone = model.open(0).unwrap();
    drain(&mut model);
    let effects = model.apply(Input::Cordon {
        incarnation: WORKER,
        cordoned: true,
    });
    assert!(effects.is_empty(), "{effects:?}");
    model.submit(alone, &[launches(KERNEL, 10), sync()], true);
    drain(&mut model);
    assert_eq!(model.sessions[&alone].done, 11, "before it was announced");
    model.announce(alone, 100);
    assert_eq!(kinds(&model), [Open, Standing]);
    model.settle();
}

#[test]
fn whatever_ends_the_right_to_it_revokes_it() {
    let capped = |settings: TenantSettings| Input::TenantSet {
        tenant: tenant(0),
        settings: Some(settings),
    };
    let plain = TenantSettings::default;
    let changes = [
        Input::Hold { held: true },
        Input::Settings(ClusterSettings {
            standing: false,
            ..ClusterSettings::default()
        }),
        capped(TenantSettings { cap: 50, ..plain() }),
        capped(TenantSettings {
            outstanding_ns: 1_000_000,
            ..plain()
        }),
    ];
    for change in changes {
        let mut model = model(1);
        model.open(0).unwrap();
        drain(&mut model);
        let effects = model.apply(change.clone());
        let revoked = effects.iter().any(
            |effect| matches!(effect, Effect::Grant { grant, .. } if grant.kind == GrantKind::Revoke),
        );
        assert!(revoked, "{change:?}");
        drain(&mut model);
        assert_eq!(kinds(&model).last(), Some(&GrantKind::Revoke), "{change:?}");
    }
    // At another priority its parts run under a new grant.
    let mut model = model(1);
    model.open(0).unwrap();
    drain(&mut model);
    model.tenants[0].priority = 1;
    let urgent = model.tenants[0].clone();
    model.apply(capped(urgent));
    drain(&mut model);
    let (_, _, last) = model.grants.last().unwrap();
    assert_eq!((last.kind, last.priority), (GrantKind::Standing, 1));
}

#[test]
fn who_stood_alone_neither_pays_for_it_nor_saved_anything() {
    let mut model = model(2);
    let alone = model.open(0).unwrap();
    for _ in 0..50 {
        model.submit(alone, &[launches(KERNEL, 100), sync()], true);
        model.announce(alone, 200);
        drain(&mut model);
    }
    let view = model.scheduler.tenants();
    let charged = 50 * (100 * COSTS[KERNEL] + 500);
    assert_eq!(view[0].granted_ns, charged, "all of it is accounted");
    assert_eq!(view[0].outstanding_ns, 0);
    let other = model.open(1).unwrap();
    for session in [alone, other] {
        model.submit(session, &[launches(KERNEL, 20_000)], true);
        model.announce(session, 20_000);
    }
    let from = model.grants.len();
    let mut served = [0u64; 2];
    while model.grants.len() < from + 100 {
        assert!(model.run(WORKER, 1) > 0);
    }
    for (_, _, grant) in &model.grants[from..] {
        served[usize::from(grant.session == other)] += grant.cost;
    }
    let quantum = model.settings.quantum_ns;
    // The ops that ran before the grant was closed come on top.
    assert!(served[0].abs_diff(served[1]) <= 3 * quantum, "{served:?}");
}

#[test]
fn who_runs_other_ops_than_announced_is_closed() {
    for honest in [true, false] {
        let mut model = model(1);
        let session = model.open(0).unwrap();
        drain(&mut model);
        model.submit(session, &[launches(KERNEL, 4)], true);
        model.announce(session, 4);
        let sum = (0..4).fold(0u64, |sum, _| {
            sum.wrapping_add(launches(KERNEL, 1).declared())
        });
        let report = DoneReport {
            position: 2,
            session,
            measured: 1,
            received: 4,
            outcome: Outcome::Part,
            declared: bus_schemas::fold(sum) ^ u32::from(!honest),
        };
        let mut effects = Vec::new();
        let reports = Rows(vec![report]);
        let incarnation = WORKER;
        let input = Input::Done {
            incarnation,
            reports,
        };
        model.scheduler.apply(&input, &mut effects);
        let lied = effects.contains(&Effect::Lied { session });
        assert_eq!(lied, !honest);
        let closing = model.scheduler.session(session).unwrap().closing;
        assert_eq!(closing, !honest);
    }
}

#[test]
fn the_only_one_of_the_highest_priority_stands_on_behind_the_others() {
    use GrantKind::{Open, Revoke, Run, Standing};
    let (mut model, urgent, other) = pair(ClusterSettings::default());
    assert_eq!(kinds(&model), [Open, Standing, Open, Standing]);
    model.submit(other, &[launches(KERNEL, 10), sync()], true);
    model.announce(other, 100);
    assert_eq!(kinds(&model)[4..], [Run, Standing], "in one input");
    let (_, _, last) = model.grants.last().unwrap();
    assert_eq!((last.session, last.first), (urgent, 0), "where it left off");
    // It runs before it is announced; its ops under all of these grants are accounted as one.
    for _ in 0..5 {
        model.submit(urgent, &[launches(KERNEL, 10), sync()], true);
        model.submit(other, &[launches(KERNEL, 10), sync()], true);
        drain(&mut model);
        model.announce(other, 100);
        model.announce(urgent, 100);
        drain(&mut model);
    }
    let view = model.scheduler.session(urgent).unwrap();
    assert_eq!((view.granted, view.done), (55, 55));
    let tenants = model.scheduler.tenants();
    assert_eq!(tenants[0].granted_ns, 5 * (10 * COSTS[KERNEL] + 500));
    assert_eq!(tenants[0].outstanding_ns, 0);
    assert_eq!(tenants[1].granted, 66);
    // Another session of the highest priority: no session is foremost.
    model.open(0).unwrap();
    assert_eq!(kinds(&model).last(), Some(&Open));
    drain(&mut model);
    model.submit(urgent, &[sync()], true);
    model.announce(urgent, 1);
    drain(&mut model);
    assert_eq!(kinds(&model).last(), Some(&Run));
    assert!(!kinds(&model).contains(&Revoke));
    model.settle();
}

#[test]
fn others_turns_are_for_the_leader_to_give() {
    let settings = ClusterSettings {
        floors: [0, 0, 0, 10, 0],
        ..ClusterSettings::default()
    };
    let (model, ..) = pair(settings);
    let standing = kinds(&model);
    let standing = standing.iter().filter(|kind| **kind == GrantKind::Standing);
    assert_eq!(standing.count(), 1, "while it was alone");
}

#[test]
fn who_announces_and_does_not_send_stands_no_more() {
    let (mut model, urgent, other) = pair(ClusterSettings::default());
    model.submit(urgent, &[launches(KERNEL, 10), sync()], false);
    model.announce(urgent, 100);
    for _ in 0..20 {
        model.submit(other, &[launches(KERNEL, 10), sync()], true);
        model.announce(other, 100);
        drain(&mut model);
    }
    assert!(model.scheduler.session(urgent).unwrap().doubted);
    assert!(!model.stands(urgent));
}
