//! Suspended tenants: they are granted nothing more, and lose nothing. The tests also cover what
//! administrators are told of their sessions and of others. `model/rules.rs` and
//! `model/standing.rs` check at every grant of every test that none of their work runs.

use bus_schemas::{
    ClusterSettings, GrantKind, Incarnation, Place, SessionId, SessionResidency, SessionStatus,
    SessionWait, SessionsRequest, TenantSettings, limits,
};
use scheduler_leader_core::{Effect, Input};

use crate::model::{Model, launches, tenant};

const WORKER: Incarnation = Incarnation(100);

/// Two tenants with a session each on one worker.
fn two(standing: bool) -> (Model, [SessionId; 2]) {
    let settings = ClusterSettings {
        standing,
        ..ClusterSettings::default()
    };
    let mut model = Model::new(settings, vec![TenantSettings::default(); 2], 1);
    let sessions = [0, 1].map(|index| model.open(index).unwrap());
    while model.run(WORKER, 1) > 0 {}
    (model, sessions)
}

fn submit(model: &mut Model, session: SessionId, count: u32) {
    model.submit(session, &[launches(2, count)], true);
    model.announce(session, usize::MAX / 2);
}

fn status(model: &Model, session: SessionId) -> SessionStatus {
    let request = SessionsRequest {
        session: Some(session),
        ..SessionsRequest::default()
    };
    let mut answer = model.scheduler.session_page(&request);
    assert!(!answer.more);
    answer.sessions.pop().unwrap()
}

fn waits(model: &Model, session: SessionId) -> SessionWait {
    status(model, session).waits
}

#[test]
fn a_suspended_tenants_sessions_stand_still_and_go_on_without_debt_or_credit() {
    let (mut model, [one, other]) = two(false);
    submit(&mut model, one, 3_000);
    submit(&mut model, other, 3_000);
    model.suspend(0, true);
    let before = model.scheduler.session(one).unwrap();
    assert!(before.granted > 0, "what was granted ends");
    while model.run(WORKER, 1) > 0 {}
    let view = model.scheduler.session(one).unwrap();
    assert_eq!((view.granted, view.done), (before.granted, before.granted));
    assert_eq!(model.sessions[&other].done, 3_000, "others go on");
    assert_eq!(waits(&model, one), SessionWait::Suspended);
    // While it is suspended its programs may announce; those ops are granted later.
    submit(&mut model, one, 200);
    submit(&mut model, other, 3_000);
    let from = model.grants.len();
    model.suspend(0, false);
    for _ in 0..30 {
        model.run(WORKER, 1);
    }
    let granted = |id| {
        let grants = model.grants[from..].iter().map(|(_, _, grant)| grant);
        let own = grants.filter(|grant| grant.session == id);
        own.map(|grant| grant.cost).sum::<u64>()
    };
    let apart = granted(one).abs_diff(granted(other));
    assert!(apart <= 3_000_000, "{} {}", granted(one), granted(other));
    model.settle();
}

#[test]
fn no_session_is_opened_of_a_suspended_tenant() {
    let (mut model, _) = two(false);
    model.suspend(0, true);
    let effects = model.apply(Input::SessionOpen {
        tenant: tenant(0),
        nonce: 99,
        devices: 1,
        wide: false,
    });
    let [Effect::Refused { code, .. }] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(code.name(), "E-TENANT-SUSPENDED");
    assert!(model.open(1).is_some(), "others are served");
    model.suspend(0, false);
    assert!(model.open(0).is_some());
}

#[test]
fn its_standing_grant_is_closed_and_it_gets_none() {
    let (mut model, [one, other]) = two(true);
    let close = |model: &mut Model, session| {
        model.apply(Input::SessionClose {
            session,
            after: 0,
            reason: bus_schemas::CloseReason::Killed,
        });
        while model.run(WORKER, 1) > 0 {}
    };
    close(&mut model, other);
    assert!(model.scheduler.stands_for(one), "it is alone");
    assert_eq!(waits(&model, one), SessionWait::Program);
    let effects = model.suspend(0, true);
    let revoke = |effect: &Effect| matches!(effect, Effect::Grant { grant, .. } if grant.kind == GrantKind::Revoke);
    assert!(effects.iter().any(revoke), "{effects:?}");
    submit(&mut model, one, 100);
    while model.run(WORKER, 1) > 0 {}
    assert_eq!(model.sessions[&one].done, 0);
    // Its close counts as no work.
    let again = model.open(1).unwrap();
    close(&mut model, again);
    model.suspend(0, false);
    model.settle();
    model.suspend(0, true);
    close(&mut model, one);
    assert!(model.scheduler.session(one).is_none());
}

#[test]
fn who_is_suspended_stays_so_under_the_next_leader() {
    let (mut model, [one, _]) = two(true);
    submit(&mut model, one, 1_000);
    model.suspend(0, true);
    while model.run(WORKER, 1) > 0 {}
    let done = model.sessions[&one].done;
    assert!(done < 1_000);
    model.take_over();
    model.announce(one, usize::MAX / 2);
    while model.run(WORKER, 1) > 0 {}
    assert_eq!(model.sessions[&one].done, done);
    model.suspend(0, false);
    model.settle();
}

#[test]
fn its_memory_makes_room_and_does_not_return() {
    let (mut model, [one, other]) = two(false);
    let tell = |model: &mut Model, places: [Place; 2]| {
        let rows = [one, other].into_iter().zip(places);
        let rows = rows.map(|(session, place)| SessionResidency {
            session,
            bytes: 5 << 30,
            place,
            pinned: false,
        });
        model.tell_memory(WORKER, 1_000, rows.collect());
    };
    tell(&mut model, [Place::Out, Place::Resident]);
    submit(&mut model, one, 100);
    submit(&mut model, other, 100);
    assert_eq!(waits(&model, one), SessionWait::Memory);
    model.suspend(0, true);
    for _ in 0..1_000 {
        model.apply(Input::Tick);
        model.run(WORKER, 1);
    }
    assert_eq!(model.sessions[&other].done, 100);
    let returned = |model: &Model| {
        let mut grants = model.grants.iter();
        grants.any(|(_, _, grant)| grant.kind == GrantKind::Return && grant.session == one)
    };
    assert!(!returned(&model));
    assert!(!model.scheduler.session(one).unwrap().waiting);
    model.suspend(0, false);
    for _ in 0..1_000 {
        model.apply(Input::Tick);
        model.run(WORKER, 1);
    }
    assert!(returned(&model));
    assert_eq!(model.sessions[&one].done, 100);
}

#[test]
fn what_a_session_waits_for_is_told() {
    let (mut model, [one, other]) = two(false);
    assert_eq!(waits(&model, one), SessionWait::Program);
    submit(&mut model, one, 20);
    assert_eq!(waits(&model, one), SessionWait::Nothing, "all is granted");
    let told = status(&model, one);
    assert_eq!((told.queued, told.outstanding_ns), (0, 20 * 20_000));
    assert_eq!((told.ordinal, told.incarnation), (1, WORKER));
    submit(&mut model, one, 3_000);
    submit(&mut model, other, 3_000);
    let both = [waits(&model, one), waits(&model, other)];
    assert!(both.contains(&SessionWait::Window), "{both:?}");
    assert!(both.contains(&SessionWait::Order), "{both:?}");
    let view = model.scheduler.session(one).unwrap();
    assert_eq!(status(&model, one).queued, view.queued - view.granted);
    model.apply(Input::Hold { held: true });
    assert_eq!(waits(&model, one), SessionWait::Hold);
    model.apply(Input::Hold { held: false });
    for (cap, outstanding_ns, wait) in [(1, 0, SessionWait::Cap), (0, 1, SessionWait::Bound)] {
        (model.tenants[0].cap, model.tenants[0].outstanding_ns) = (cap, outstanding_ns);
        model.suspend(0, false);
        for _ in 0..40 {
            model.run(WORKER, 1);
        }
        assert_eq!(waits(&model, one), wait);
    }
}

#[test]
fn sessions_are_told_in_pages() {
    let mut model = Model::new(
        ClusterSettings::default(),
        vec![TenantSettings::default(); 2],
        2,
    );
    model.judged = false;
    for index in 0..limits::SESSION_ROWS + 20 {
        model.open(index % 2).unwrap();
    }
    let mut request = SessionsRequest::default();
    let first = model.scheduler.session_page(&request);
    assert_eq!(
        (first.sessions.len(), first.more),
        (limits::SESSION_ROWS, true)
    );
    request.after = first.sessions.last().map(|row| row.session);
    let second = model.scheduler.session_page(&request);
    assert_eq!((second.sessions.len(), second.more), (20, false));
    request.after = None;
    request.tenant = Some(tenant(1));
    request.gpu = Some(1);
    let some = model.scheduler.session_page(&request);
    let of = |row: &SessionStatus| row.tenant == tenant(1) && row.gpu == 1;
    assert!(!some.sessions.is_empty() && some.sessions.iter().all(of));
    request.after = Some(SessionId(u64::MAX));
    assert_eq!(model.scheduler.session_page(&request).sessions, []);
}
