//! Staged bytes: those of a tenant's sessions are bounded, and are freed with the sessions.

use bus_schemas::{Allowance, Code, GrantKind};
use gpu_worker_core::sequencer::Action;

use crate::bench::{Bench, MS, ack, grant, id};

const MIB: u64 = 1 << 20;

/// Sessions 1 and 2 of one tenant, 100 of another; each tenant may have 64 MiB staged.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.staged = Allowance::of(64 * MIB);
    for session in [1, 2, 100] {
        bench.open(session);
    }
    bench
}

fn stores(actions: &[Action]) -> bool {
    actions.iter().any(|it| matches!(it, Action::Store { .. }))
}

fn failure(actions: &[Action]) -> Option<Code> {
    Some(ack(actions)?.failure?.1.code)
}

#[test]
fn a_tenant_stages_no_more_than_it_may_whatever_its_credit_and_others_do() {
    let mut bench = bench();
    for transfer in 1..=4 {
        assert!(stores(&bench.chunk(1, transfer, 15 * MIB, 0)), "{transfer}");
    }
    assert_eq!(bench.core.staged(), 60 * MIB);
    assert!(!stores(&bench.chunk(1, 5, 15 * MIB, 0)), "75 MiB");
    assert!(
        !stores(&bench.chunk(2, 1, 15 * MIB, 0)),
        "of another session"
    );
    assert!(stores(&bench.chunk(2, 1, 4 * MIB, 0)), "64 MiB");
    assert!(
        stores(&bench.chunk(100, 1, 64 * MIB, 0)),
        "of another tenant"
    );
    assert_eq!(bench.core.staged(), 128 * MIB);
    // A transfer that has begun goes on.
    assert!(stores(&bench.chunk(1, 1, 15 * MIB, MIB)));
}

#[test]
fn what_a_tenant_can_never_stage_fails_at_once_and_says_how_much_it_may() {
    let mut bench = bench();
    let actions = bench.chunk(1, 1, 65 * MIB, 0);
    let (_, failure) = ack(&actions).unwrap().failure.unwrap();
    assert_eq!((failure.code, failure.code.cuda()), (Code::StagedShare, 2));
    for part in [
        "65 MiB",
        "0 MiB staged of the 64 MiB",
        "tenant set a --staged",
    ] {
        assert!(failure.detail.contains(part), "{failure}");
    }
    assert!(stores(&bench.chunk(2, 1, 64 * MIB, 0)), "the others go on");
}

#[test]
fn who_waits_for_room_fails_when_its_tenant_gets_on_with_nothing() {
    let mut bench = bench();
    assert!(stores(&bench.chunk(1, 1, 60 * MIB, 0)));
    let stall = 10_000 * MS;
    assert!(!stores(&bench.chunk(2, 1, 8 * MIB, 0)));
    bench.after(stall - 2 * MS);
    // A part of a transfer that has begun arrives: there will be room at some time.
    assert!(stores(&bench.chunk(1, 1, 60 * MIB, MIB)));
    bench.after(stall - 2 * MS);
    assert_eq!(failure(&bench.chunk(2, 1, 8 * MIB, 0)), None);
    bench.after(3 * MS);
    assert_eq!(
        failure(&bench.chunk(2, 1, 8 * MIB, 0)),
        Some(Code::StagedShare)
    );
    assert!(
        stores(&bench.chunk(1, 1, 60 * MIB, 2 * MIB)),
        "and nobody else"
    );
}

#[test]
fn what_is_staged_goes_when_the_close_begins() {
    let mut bench = bench();
    for transfer in 1..=3 {
        assert!(stores(&bench.chunk(1, transfer, 20 * MIB, 0)));
    }
    let actions = bench.order(&[grant(GrantKind::Close, 1, 0, 0)]);
    let forgets = |it: &Action| matches!(it, Action::Forget { session, through: u64::MAX } if *session == id(1));
    assert!(actions.iter().any(forgets), "{actions:?}");
    assert_eq!(bench.core.staged(), 0);
    assert!(
        stores(&bench.chunk(2, 1, 64 * MIB, 0)),
        "there is room again"
    );
}
