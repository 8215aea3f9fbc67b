//! Leaders: their orders, their seals, deposed leaders, and the reports to leaders.

use bus_schemas::{Grant, GrantKind, LeaderId, encode, limits};
use gpu_worker_core::sequencer::{Action, Event};

use crate::bench::{Bench, MS, done, grant, id, open_grant, run, starts, tenant};

#[test]
fn grants_above_a_gap_wait_for_it() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.batch(1, 1, 4);
    assert!(bench.order_of(1, 1, &[run(1, 3, 4)], 3).is_empty());
    assert_eq!(bench.core.accepted().0, 1);
    let actions = bench.order_of(1, 1, &[run(1, 1, 2)], 2);
    assert_eq!(starts(&actions).len(), 2);
    assert_eq!(bench.core.accepted().0, 3);
}

#[test]
fn stale_leaders_are_refused_and_told_whom_the_worker_obeys() {
    let mut bench = Bench::new();
    bench.open(1);
    assert!(bench.seal(2, 22).sealed.is_some());
    for (epoch, leader) in [(1, 1), (2, 23)] {
        let refused = bench.seal(epoch, leader).refused.expect("refused");
        assert_eq!((refused.epoch, refused.leader), (2, LeaderId(22)));
        bench.now += 10 * MS;
        let actions = bench.order_of(epoch, leader, &[run(1, 1, 1)], 2);
        assert!(
            actions
                .iter()
                .any(|action| matches!(action, Action::Refuse(_)))
        );
        let actions = bench.order_of(epoch, leader, &[run(1, 1, 1)], 2);
        assert!(
            !actions
                .iter()
                .any(|action| matches!(action, Action::Refuse(_)))
        );
    }
    let unsealed = bench.order_of(3, 33, &[run(1, 1, 1)], 2);
    assert!(
        !unsealed
            .iter()
            .any(|action| matches!(action, Action::Refuse(_)))
    );
    assert_eq!(bench.core.accepted().0, 1);
}

#[test]
fn a_seal_says_all_that_is_accepted_and_no_more() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.batch(1, 1, 4);
    let started = starts(&bench.order(&[run(1, 1, 2), run(1, 3, 6)]));
    bench.complete(started[0], &[]);
    bench.order_of(1, 1, &[run(1, 7, 8)], 9);
    let answer = bench.seal(2, 2).sealed.unwrap();
    assert_eq!(
        (answer.position, answer.gpu, answer.capacity),
        (3, 3, 1 << 30)
    );
    assert_eq!(answer.outstanding.len(), 1);
    assert_eq!(answer.reports, 2);
    let session = &answer.sessions[0];
    let ops = (session.accepted, session.done, session.received);
    assert_eq!(ops, (6, 2, 4));
    assert_eq!((answer.tail_epoch, answer.tail.len()), (1, 3));
    assert_eq!(answer.ordinals, [(tenant(), 1)]);
    assert_eq!(
        bench.seal(2, 2).sealed.unwrap().position,
        3,
        "again, the same"
    );
    let reply = bench.seal(2, 2);
    assert!(encode(&reply).len() < limits::MESSAGE_BYTES);
    // The grant behind the gap was discarded: the new leader's own takes its place.
    bench.epoch = 2;
    bench.next = 4;
    let second = Grant {
        epoch: 2,
        ..run(1, 7, 7)
    };
    bench.order(&[second; 5]);
    assert_eq!(
        bench.core.accepted().0,
        8,
        "not the old leader's grant at 9"
    );
}

#[test]
fn a_seal_does_not_count_grants_that_will_be_void() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.open(2);
    bench.order(&[run(1, 1, 2), run(1, 5, 6), run(2, 1, 3)]);
    let answer = bench.seal(2, 2).sealed.unwrap();
    let accepted: Vec<_> = answer.sessions.iter().map(|one| one.accepted).collect();
    assert_eq!(accepted, [2, 3]);
}

#[test]
fn the_tail_shrinks_with_the_record_and_survives_a_leader_that_recorded_nothing() {
    let mut bench = Bench::new();
    bench.open(1);
    for input in 2..=5 {
        let row = Grant {
            input,
            ..run(1, input - 1, input - 1)
        };
        bench.order(&[row]);
    }
    bench.recorded = 3;
    bench.order(&[]);
    let answer = bench.seal(2, 2).sealed.unwrap();
    let inputs: Vec<_> = answer.tail.iter().map(|one| one.grant.input).collect();
    assert_eq!((inputs, answer.tail_recorded), (vec![4, 5], 3));
    let answer = bench.seal(3, 3).sealed.unwrap();
    assert_eq!(
        answer.tail.len(),
        2,
        "epoch 2 may have died with what it was handed"
    );
}

#[test]
fn a_seal_names_the_closed_sessions_of_its_tail() {
    let mut bench = Bench::new();
    bench.open(1);
    for session in [2, 3] {
        bench.open(session);
        bench.order(&[grant(GrantKind::Close, session, 0, 0)]);
        bench.tell(Event::Closed {
            session: id(session),
        });
    }
    // The session was closed long ago, and is forgotten.
    bench.after(5_000 * MS);
    let answer = bench.seal(2, 2).sealed.unwrap();
    assert_eq!((answer.tail.len(), answer.sessions.len()), (5, 1));
    let named: Vec<_> = answer.named.iter().map(|it| it.session).collect();
    assert_eq!(named, [id(2), id(3)], "the first is among the sessions");
    let whose: Vec<_> = answer
        .named
        .iter()
        .map(|it| (it.tenant.clone(), it.ordinal))
        .collect();
    let opened = open_grant(id(2));
    assert_eq!(whose[0], (opened.tenant, opened.ordinal));
    // A session with recorded grants need not be named.
    let mut bench = Bench::new();
    bench.open(2);
    bench.order(&[grant(GrantKind::Close, 2, 0, 0)]);
    bench.tell(Event::Closed { session: id(2) });
    bench.recorded = 100;
    bench.order(&[]);
    let answer = bench.seal(2, 2).sealed.unwrap();
    assert!(answer.tail.is_empty() && answer.named.is_empty());
}

#[test]
fn a_large_tail_of_sessions_that_all_closed_fits_the_message() {
    let mut bench = Bench::new();
    for session in 1..=6_000 {
        bench.open(session);
        bench.order(&[grant(GrantKind::Close, session, 0, 0)]);
        bench.tell(Event::Closed {
            session: id(session),
        });
    }
    bench.after(5_000 * MS);
    let reply = bench.seal(2, 2);
    let answer = reply.sealed.as_ref().unwrap();
    let bytes = encode(&reply).len();
    assert!(
        answer.named.len() > 3_000 && bytes < limits::MESSAGE_BYTES,
        "{} in {bytes}",
        answer.named.len()
    );
}

#[test]
fn a_large_tail_fits_the_message() {
    let mut bench = Bench::new();
    bench.open(1);
    for _ in 0..30 {
        bench.order(&[run(1, 9, 9); 512]);
    }
    let reply = bench.seal(2, 2);
    let tail = reply.sealed.as_ref().unwrap().tail.len();
    let bytes = encode(&reply).len();
    assert!(
        tail > 3_000 && bytes < limits::MESSAGE_BYTES,
        "{tail} in {bytes}"
    );
}

#[test]
fn reports_are_repeated_until_heard_and_forgotten_then() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.batch(1, 1, 1);
    let started = starts(&bench.order(&[run(1, 1, 1)]));
    assert_eq!(done(&bench.complete(started[0], &[])).unwrap().first, 2);
    let again = done(&bench.after(6 * MS)).expect("nobody has heard it");
    assert_eq!((again.first, again.reports.len()), (2, 1));
    bench.reports = 2;
    bench.order(&[]);
    for _ in 0..50 {
        let quiet = done(&bench.after(10 * MS));
        assert!(quiet.is_none(), "{quiet:?}");
    }
}
