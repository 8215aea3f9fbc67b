//! Standing grants: ops that run as they arrive, and the events that close the grant.

use bus_schemas::{Grant, GrantKind, LeaderId, Leave, Outcome, WIRE_VERSION, fold};
use gpu_worker_core::sequencer::{Action, Event, ExitReason};

use crate::bench::{Bench, MS, done, grant, id, outcomes, run, starts};

/// A standing grant that allows 80 us of ops on the device.
fn standing(session: u64, first: u64) -> Grant {
    Grant {
        cost: 80_000,
        ..grant(GrantKind::Standing, session, first, 0)
    }
}

/// Position, outcome and op of each report.
fn reports(actions: &[Action]) -> Vec<(u64, Outcome, u64)> {
    let reports = done(actions).map(|done| done.reports).unwrap_or_default();
    let rows = reports.iter();
    rows.map(|row| (row.position, row.outcome, row.received))
        .collect()
}

fn stands() -> Bench {
    let mut bench = Bench::new();
    bench.open(1);
    let actions = bench.order(&[standing(1, 1)]);
    assert_eq!(reports(&actions), [(2, Outcome::Part, 0)], "told at once");
    bench
}

#[test]
fn ops_start_as_they_arrive_and_the_next_position_closes_the_grant() {
    let mut bench = stands();
    let opened = bench.core.accepted();
    assert_eq!(opened.0, 1, "accepted when closed");
    bench.device_ns = 45_000;
    let part = starts(&bench.batch(1, 1, 1))[0];
    assert_eq!((part.position, part.first, part.last), (2, 1, 1));
    assert_eq!(part.declared, None);
    let actions = bench.complete(part, &[0]);
    assert!(outcomes(&actions).is_empty(), "it stands on");
    assert!(done(&actions).is_none(), "nobody waits for so little");
    assert_eq!(reports(&bench.after(MS)), [(2, Outcome::Part, 1)]);
    let part = starts(&bench.batch(1, 2, 1))[0];
    assert_eq!((part.position, part.first, part.last), (2, 2, 2));
    bench.batch(1, 3, 2);
    // Started ops belong to it, others do not.
    let actions = bench.order(&[grant(GrantKind::Revoke, 1, 0, 0)]);
    assert_eq!(outcomes(&actions), [(3, Outcome::Ran)]);
    assert!(reports(&actions).starts_with(&[(2, Outcome::Closed, 2)]));
    let (accepted, chain) = bench.core.accepted();
    assert!(accepted == 3 && chain != opened.1);
    let actions = bench.complete(part, &[0]);
    assert_eq!(outcomes(&actions), [(2, Outcome::Ran)]);
    let started = starts(&bench.order(&[run(1, 3, 4)]));
    assert_eq!((started[0].position, started[0].first), (4, 3));
}

#[test]
fn at_most_a_window_is_on_the_device_and_a_part_ends_where_an_answer_is_due() {
    let mut bench = stands();
    bench.device_ns = 20_000;
    // An op is assumed to take 20 us: four fill the window.
    let outs: Vec<_> = [(9, 0), (12, 8)].into();
    let mut waiting = starts(&bench.batch_of(1, 1, 40, &outs, &[]));
    assert_eq!(waiting.len(), 4);
    let (mut last, mut parts) = (0, Vec::new());
    while !waiting.is_empty() {
        let part = waiting.remove(0);
        assert_eq!(part.first, last + 1);
        last = part.last;
        parts.push(part);
        // Each op takes 5 us: the estimate falls, parts grow, and the window holds.
        bench.device_ns = 5_000 * (part.last + 1 - part.first);
        waiting.extend(starts(&bench.complete(part, &[])));
        let held: u64 = waiting.iter().map(|part| part.cost).sum();
        assert!(held <= 80_000, "{held} ns on the device");
    }
    assert_eq!(last, 40);
    let longest = parts.iter().map(|part| part.last + 1 - part.first).max();
    assert!(longest >= Some(2), "{parts:?}");
    for out in [9, 12] {
        assert!(parts.iter().any(|part| part.last == out), "{parts:?}");
    }
}

#[test]
fn a_seal_closes_it_and_says_where() {
    let mut bench = stands();
    bench.device_ns = 20_000;
    let part = starts(&bench.batch(1, 1, 1))[0];
    bench.complete(part, &[]);
    let parts = starts(&bench.batch(1, 2, 3));
    let answer = bench.seal(2, 2).sealed.unwrap();
    let session = &answer.sessions[0];
    assert_eq!(answer.position, 2);
    assert_eq!((session.accepted, session.done), (4, 1));
    let row = answer.outstanding[0];
    let range = (row.position, row.grant.first, row.grant.last);
    assert_eq!((row.grant.kind, range), (GrantKind::Standing, (2, 1, 4)));
    assert!((1..80_000).contains(&row.grant.cost), "what is under way");
    let tail = answer.tail.last().unwrap();
    assert_eq!((tail.position, tail.grant.last), (2, 4));
    assert!(starts(&bench.batch(1, 5, 1)).is_empty(), "it is closed");
    let ended = parts.into_iter().flat_map(|part| bench.complete(part, &[]));
    assert_eq!(outcomes(&ended.collect::<Vec<_>>()), [(2, Outcome::Ran)]);
    assert_eq!(bench.seal(2, 2).sealed.unwrap().sessions[0].done, 4);
}

#[test]
fn what_was_closed_is_kept_until_the_leader_has_recorded_that() {
    let mut bench = stands();
    bench.order(&[grant(GrantKind::Revoke, 1, 0, 0)]);
    bench.recorded = 9;
    bench.order(&[]);
    // The grants' inputs are recorded, but it is not known to be recorded at which op the first was closed.
    let kept = |bench: &mut Bench, epoch| {
        let tail = bench.seal(epoch, epoch).sealed.unwrap().tail;
        tail.iter().map(|row| row.position).collect::<Vec<_>>()
    };
    let mut other = stands();
    other.order(&[grant(GrantKind::Revoke, 1, 0, 0)]);
    other.reports = 3;
    other.order(&[]);
    other.recorded = 9;
    other.order(&[]);
    assert_eq!(kept(&mut bench, 2), [2, 3]);
    assert_eq!(kept(&mut other, 2), [0; 0]);
}

#[test]
fn one_that_never_began_ends_where_it_would_have_begun() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.open(2);
    bench.batch(2, 1, 1);
    // The ops of the head are missing: nothing behind it begins.
    bench.order(&[run(1, 1, 1), standing(2, 1), run(1, 2, 2)]);
    assert_eq!(bench.core.accepted().0, 5);
    let actions = bench.after(2 * MS);
    assert_eq!(
        outcomes(&actions),
        [(3, Outcome::Void), (4, Outcome::Ran), (5, Outcome::Void)]
    );
    assert!(starts(&actions).is_empty());
}

#[test]
fn declarations_are_added_up_for_the_leader() {
    let mut bench = stands();
    bench.device_ns = 2_000;
    let mut sum = 0_u64;
    for op in 1..=3 {
        let part = starts(&bench.batch(1, op, 1))[0];
        sum = sum.wrapping_add(op << 40);
        bench.complete_declared(part, op << 40);
        let actions = bench.after(MS);
        assert_eq!(done(&actions).unwrap().reports[0].declared, fold(sum));
    }
}

#[test]
fn nothing_more_of_a_failed_session_starts_and_a_draining_worker_closes_it() {
    let mut bench = stands();
    bench.batch(1, 1, 1);
    let failure = bus_schemas::Failure::new(bus_schemas::Code::Trap, "trapped");
    let fault = Event::Fault {
        session: id(1),
        op: 1,
        failure: &failure,
    };
    bench.tell(fault);
    assert!(starts(&bench.batch(1, 2, 1)).is_empty());

    let mut bench = stands();
    let part = starts(&bench.batch(1, 1, 1))[0];
    let actions = bench.tell(Event::Drain);
    assert!(reports(&actions).contains(&(2, Outcome::Closed, 1)));
    assert_eq!(bench.core.accepted().0, 2);
    assert!(starts(&bench.batch(1, 2, 1)).is_empty());
    bench.complete(part, &[]);
    bench.reports = 9;
    bench.order(&[]);
    let noted = Leave {
        noted: true,
        taken: false,
        v: WIRE_VERSION,
        epoch: 1,
        leader: LeaderId(1),
    };
    let actions = bench.tell(Event::Leave(&noted));
    assert!(actions.contains(&Action::Exit(ExitReason::Drained)));
}

#[test]
fn one_without_a_first_op_goes_on_where_the_last_was_closed() {
    let mut bench = Bench::new();
    (1..=2).for_each(|session| bench.open(session));
    bench.order(&[standing(1, 1)]);
    let part = starts(&bench.batch(1, 1, 2))[0];
    // Ops on the device belong to the first grant, and the second stands behind the other session's slice.
    let mut told = reports(&bench.order(&[run(2, 1, 1), standing(1, 0)]));
    assert!(
        starts(&bench.batch(1, 3, 1)).is_empty(),
        "the other's slice is not here"
    );
    let started = starts(&bench.batch(2, 1, 1));
    let places: Vec<_> = started.iter().map(|it| (it.position, it.first)).collect();
    assert_eq!(places, [(4, 1), (5, 3)], "both begin, in order");
    for part in [part, started[1]] {
        told.extend(reports(&bench.complete(part, &[0])));
        told.extend(reports(&bench.after(MS)));
    }
    assert!(told.contains(&(3, Outcome::Closed, 2)), "{told:?}");
    assert_eq!(told.last(), Some(&(5, Outcome::Part, 3)), "all ran");
}

#[test]
fn one_that_goes_on_ends_after_those_that_it_goes_on_from() {
    let mut bench = Bench::new();
    (1..=2).for_each(|session| bench.open(session));
    bench.order(&[standing(1, 1)]);
    let part = starts(&bench.batch(1, 1, 1))[0];
    // Everything behind is closed without ops of its own: a grant that has begun, and one that has not
    // because the ops of the other's slice are missing.
    let mut actions = bench.order(&[grant(GrantKind::Revoke, 1, 0, 0), standing(1, 0)]);
    actions.extend(bench.order(&[run(2, 1, 1), standing(1, 0)]));
    actions.extend(bench.order(&[grant(GrantKind::Revoke, 1, 0, 0)]));
    assert_eq!(bench.core.accepted().0, 8);
    let started = starts(&bench.batch(2, 1, 1));
    assert_eq!(started[0].position, 6);
    actions.extend(bench.complete(started[0], &[]));
    let ended = [(4, Outcome::Ran), (6, Outcome::Ran)];
    assert!(outcomes(&actions).iter().all(|it| ended.contains(it)));
    // If it ended sooner, the leader would take the first grant's ops for done. Later grants of the session
    // would then begin their sums anew among them.
    let actions = bench.complete_declared(part, 7 << 40);
    assert_eq!(
        outcomes(&actions),
        [(3, Outcome::Ran), (5, Outcome::Ran), (7, Outcome::Ran)]
    );
    let actions = bench.after(MS);
    assert!(reports(&actions).is_empty(), "all is told: {actions:?}");
}
