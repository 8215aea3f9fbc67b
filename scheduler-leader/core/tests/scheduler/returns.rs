//! Sessions with memory that is away: their returns, and the work that goes on meanwhile.
//! `model/away.rs` checks at every grant of every test that no session runs before it has returned.

use bus_schemas::{
    ClusterSettings, Grant, GrantKind, Incarnation, Place, SessionId, SessionResidency,
    TenantSettings,
};
use scheduler_leader_core::Input;

use crate::model::{Model, launches};

const WORKER: Incarnation = Incarnation(100);

/// Two sessions of one tenant; the first is out.
fn two() -> (Model, [SessionId; 2]) {
    let settings = ClusterSettings {
        standing: false,
        ..ClusterSettings::default()
    };
    let mut model = Model::new(settings, vec![TenantSettings::default()], 1);
    let sessions = [0, 0].map(|index| model.open(index).unwrap());
    while model.run(WORKER, 1) > 0 {}
    tell(&mut model, sessions[0], Place::Out);
    (model, sessions)
}

fn tell(model: &mut Model, session: SessionId, place: Place) {
    let row = SessionResidency {
        session,
        bytes: 5 << 30,
        place,
        pinned: false,
    };
    model.tell_memory(WORKER, 1_000, vec![row]);
}

fn submit(model: &mut Model, session: SessionId, count: u32) {
    model.submit(session, &[launches(2, count)], true);
    model.announce(session, usize::MAX / 2);
}

fn returns(model: &Model) -> usize {
    let grants = model.grants.iter().map(|(_, _, grant)| grant);
    let is_return = |grant: &&Grant| {
        let range = (grant.first, grant.last, grant.cost);
        assert!(grant.kind != GrantKind::Return || range == (0, 0, 0));
        grant.kind == GrantKind::Return
    };
    grants.filter(is_return).count()
}

#[test]
fn who_is_out_returns_once_and_others_of_its_tenant_go_on() {
    let (mut model, [out, other]) = two();
    assert_eq!(returns(&model), 0, "it has no work");
    submit(&mut model, out, 100);
    submit(&mut model, other, 1_000);
    assert_eq!(returns(&model), 1);
    let granted = |model: &Model, id| model.scheduler.session(id).unwrap().granted;
    assert_eq!(granted(&model, out), 0);
    assert!(granted(&model, other) > 0);
    let inspection = model.scheduler.inspect();
    let away = inspection.sessions.iter().map(|it| (it.away, it.eligible));
    assert_eq!(away.collect::<Vec<_>>(), [(true, false), (false, true)]);
    model.settle();
    assert_eq!(returns(&model), 1);
    assert!(!model.scheduler.session(out).unwrap().away);
}

#[test]
fn nothing_returns_while_grants_are_held() {
    let (mut model, [out, _]) = two();
    model.apply(Input::Hold { held: true });
    submit(&mut model, out, 1);
    assert_eq!(returns(&model), 0);
    assert!(model.scheduler.session(out).unwrap().waiting);
    model.apply(Input::Hold { held: false });
    assert_eq!(returns(&model), 1);
    model.settle();
}

#[test]
fn a_return_of_the_leader_before_counts() {
    let (mut model, [out, _]) = two();
    submit(&mut model, out, 10);
    assert_eq!(returns(&model), 1);
    model.take_over();
    tell(&mut model, out, Place::Out);
    submit(&mut model, out, 10);
    assert_eq!(returns(&model), 1, "that one is on its way");
    model.settle();
    assert_eq!(returns(&model), 1);
}

#[test]
fn who_ends_while_it_waits_is_forgotten() {
    let (mut model, [out, _]) = two();
    submit(&mut model, out, 10);
    model.apply(Input::Fault {
        session: out,
        op: 0,
        code: bus_schemas::Code::Protocol,
    });
    while model.run(WORKER, 1) > 0 {}
    assert!(model.scheduler.session(out).is_none());
    assert!(!model.scheduler.awaits_tick());
}
