//! Missing ops: the waits for them, the length of each wait, and the voids after it.

use bus_schemas::Outcome;
use gpu_worker_core::sequencer::Action;

use crate::bench::{Bench, MS, ack, done, outcomes, run, starts};

#[test]
fn a_ready_slice_starts_at_once_and_an_idle_worker_reports_at_once() {
    let mut bench = Bench::new();
    bench.open(1);
    assert!(starts(&bench.batch(1, 1, 4)).is_empty());
    let started = starts(&bench.order(&[run(1, 1, 4)]));
    assert_eq!(
        (started[0].first, started[0].last, started[0].declared),
        (1, 4, Some(77))
    );
    let actions = bench.complete(started[0], &[0]);
    assert!(
        matches!(actions[0], Action::Results { first: 1, .. }),
        "results go first"
    );
    let report = done(&actions).unwrap();
    assert_eq!((report.first, report.reports.len()), (2, 1));
    assert_eq!(report.reports[0].outcome, Outcome::Ran);
    assert_eq!(report.reports[0].received, 4);
    let ack = ack(&bench.after(MS)).unwrap();
    assert_eq!((ack.received, ack.done, ack.results), (4, 4, 1));
    assert!(ack.send_through > 4);
}

#[test]
fn a_report_of_next_to_nothing_waits_a_millisecond_for_more() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.device_ns = 2_000;
    bench.batch(1, 1, 2);
    let first = starts(&bench.order(&[run(1, 1, 1)]));
    assert!(done(&bench.complete(first[0], &[0])).is_none());
    let second = starts(&bench.order(&[run(1, 2, 2)]));
    assert!(done(&bench.complete(second[0], &[0])).is_none());
    let report = done(&bench.after(MS)).expect("told by now");
    assert_eq!((report.first, report.reports.len()), (2, 2));
    // More than little work is reported at once, with the reports that waited.
    bench.batch(1, 3, 2);
    let third = starts(&bench.order(&[run(1, 3, 3)]));
    assert!(done(&bench.complete(third[0], &[0])).is_none());
    bench.device_ns = 60_000;
    let fourth = starts(&bench.order(&[run(1, 4, 4)]));
    let report = done(&bench.complete(fourth[0], &[0])).expect("told at once");
    assert_eq!((report.first, report.reports.len()), (4, 2));
}

#[test]
fn missing_ops_are_waited_for_a_little_while_others_wait_and_longer_while_none_does() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.open(2);
    bench.batch(1, 1, 2);
    bench.order(&[run(1, 1, 4)]);
    assert!(outcomes(&bench.after(49 * MS)).is_empty());
    let actions = bench.after(MS);
    assert_eq!(outcomes(&actions), [(3, Outcome::Void)]);
    let report = done(&actions).unwrap();
    assert_eq!(report.reports[0].received, 2);
    assert_eq!(report.received[0].received, 2);
    bench.batch(2, 1, 1);
    bench.order(&[run(1, 1, 4), run(2, 1, 1)]);
    assert!(starts(&bench.after(2 * MS - 1)).is_empty());
    let actions = bench.after(1);
    assert_eq!(outcomes(&actions), [(4, Outcome::Void)]);
    assert_eq!(starts(&actions)[0].position, 5, "the other goes on");
}

#[test]
fn what_follows_a_void_is_void_at_once_until_it_is_granted_again() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.order(&[run(1, 1, 2), run(1, 3, 4)]);
    let actions = bench.after(2 * MS);
    assert_eq!(outcomes(&actions), [(2, Outcome::Void), (3, Outcome::Void)]);
    bench.batch(1, 1, 4);
    let actions = bench.order(&[run(1, 1, 2), run(1, 3, 4)]);
    assert_eq!(starts(&actions).len(), 2);
}

#[test]
fn a_doubted_sessions_ops_are_told_until_the_leader_grants_them() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.order(&[run(1, 1, 2)]);
    bench.after(50 * MS);
    let told = done(&bench.batch(1, 1, 2)).expect("received is told");
    assert_eq!(told.received[0].received, 2);
    bench.reports = bench.core.accepted().0;
    let mut repeats = 0;
    for _ in 0..100 {
        let said = done(&bench.after(5 * MS));
        repeats += usize::from(said.is_some_and(|done| !done.received.is_empty()));
    }
    assert!(
        (3..30).contains(&repeats),
        "{repeats}: repeated, ever less often"
    );
    bench.order(&[run(1, 1, 2)]);
    bench.order(&[run(1, 3, 9)]);
    bench.batch(1, 3, 1);
    let later = done(&bench.after(5 * MS)).unwrap();
    assert!(
        later.received.is_empty(),
        "the leader trusts the client again"
    );
}
