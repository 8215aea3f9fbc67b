//! Urgency, on a device that parks overtaken slices and on one that cannot.

use bus_schemas::{Grant, Outcome};

use crate::bench::{Bench, MS, outcomes, run, starts};

fn at(priority: u8, grant: Grant) -> Grant {
    Grant { priority, ..grant }
}

/// Session 1 has six long slices of one op at positions 4 to 9, session 2 one op at position 10.
fn backlog(preemptive: bool, low: u8, high: u8) -> (Bench, Vec<u64>) {
    let mut bench = Bench::on_device(preemptive);
    for session in 1..=3 {
        bench.open(session);
        bench.batch(session, 1, 8);
    }
    let rows: Vec<_> = (1..=6).map(|op| at(low, run(1, op, op))).collect();
    let first = starts(&bench.order(&rows));
    let positions: Vec<_> = first.iter().map(|start| start.position).collect();
    assert_eq!(positions, [4, 5, 6, 7], "the device holds four");
    let more = starts(&bench.order(&[at(high, run(2, 1, 1))]));
    let positions = more.iter().map(|start| start.position).collect();
    (bench, positions)
}

#[test]
fn what_is_urgent_starts_at_once_where_the_device_parks_what_it_overtakes() {
    // Positions start in order: those before it have started too.
    assert_eq!(backlog(true, 4, 0).1, [8, 9, 10]);
    for (preemptive, low, high) in [(false, 4, 0), (true, 2, 2), (true, 1, 3)] {
        let (_, started) = backlog(preemptive, low, high);
        assert!(started.is_empty(), "{preemptive}, {high} behind {low}");
    }
}

#[test]
fn what_is_less_urgent_takes_no_room_from_what_is_more_so() {
    let (mut bench, _) = backlog(true, 4, 0);
    let rows: Vec<_> = (2..=6).map(|op| at(0, run(2, op, op))).collect();
    let started = starts(&bench.order(&rows));
    // Four slices of its own run beside any number of the other's; the fifth and sixth wait.
    assert_eq!(started.len(), 3);
    let done = bench.complete(started[0], &[]);
    assert!(starts(&done).len() == 1, "one ended, one starts");
    // Another slice of low priority waits behind them.
    let low = bench.order(&[at(4, run(3, 1, 1))]);
    assert!(starts(&low).is_empty());
}

#[test]
fn an_urgent_position_waits_for_nobodys_missing_ops_for_long() {
    for (urgent, patience) in [(0, MS / 4), (4, 2 * MS)] {
        let mut bench = Bench::on_device(true);
        bench.open(1);
        bench.open(2);
        bench.batch(1, 1, 2);
        bench.batch(2, 1, 1);
        let rows = [at(4, run(1, 1, 4)), at(urgent, run(2, 1, 1))];
        assert!(starts(&bench.order(&rows)).is_empty());
        assert!(starts(&bench.after(patience - 1)).is_empty());
        let actions = bench.after(1);
        assert_eq!(outcomes(&actions), [(3, Outcome::Void)]);
        assert_eq!(starts(&actions)[0].position, 4);
        assert_eq!(starts(&actions)[0].priority, urgent);
    }
}
