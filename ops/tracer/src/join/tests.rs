use bus_schemas::{CostClass, CostRun, Incarnation, KernelKey, Outcome};
use scheduler_leader_core::replay::End;
use scheduler_leader_core::why::{Cause, Timing, Wait};

use super::*;

/// A request of the ops from first to last, as reported: it lasts from 1,000 to 2,000.
pub(crate) fn request(tenant: &str, session: u64, (first, last): (u64, u64)) -> Request {
    Request {
        tenant: tenant.parse().expect("a name"),
        session: SessionId(session),
        process: None,
        failure: None,
        report: RequestReport {
            thread: 1,
            launches: 2,
            began: 1_000,
            waited: 1_100,
            ended: 2_000,
            first,
            last,
            parent: None,
            error: None,
        },
        runs: Box::new([(first, last)]),
        loads: Box::default(),
        errors: Vec::new(),
    }
}

/// A slice of these ops, announced at a time, 100 ns in the queue, 50 ns on the device.
pub(crate) fn position(
    tenant: &str,
    session: u64,
    (first, last): (u64, u64),
    announced: u64,
) -> ReplayedPosition {
    let wait = Wait {
        cause: Cause::Priority,
        of: Some("other".parse().expect("a name")),
        ns: 100,
    };
    ReplayedPosition {
        gpu: 0,
        incarnation: Incarnation(9),
        position: last,
        global: last,
        epoch: 1,
        input: 1,
        tenant: tenant.parse().expect("a name"),
        ordinal: 1,
        session: SessionId(session),
        kind: GrantKind::Run,
        priority: 3,
        first,
        last,
        launches: Some(last + 1 - first),
        work: vec![CostRun {
            class: CostClass::Launch,
            key: KernelKey(7),
            bytes: 0,
            count: (last + 1 - first) as u32,
        }],
        cost: 1,
        end: Some(End {
            outcome: Outcome::Ran,
            measured: 50,
        }),
        adopted: false,
        timing: Some(Box::new(Timing {
            announced,
            granted: announced + 80,
            accepted: announced + 90,
            begun: announced + 95,
            started: announced + 100,
            ended: announced + 150,
            waited_ns: 100,
            waits: vec![wait],
            compiled: Vec::new(),
        })),
        chain: None,
    }
}

fn opens(tenant: &str, session: u64) -> ReplayedPosition {
    ReplayedPosition {
        kind: GrantKind::Open,
        timing: None,
        ..position(tenant, session, (0, 0), 0)
    }
}

fn ops(joined: &Joined<u8>) -> Vec<(u64, u64)> {
    let parts = joined.parts.iter();
    parts.map(|part| (part.first, part.last)).collect()
}

fn read() -> Join<u8> {
    let mut join = Join::new();
    join.is_read(0);
    join
}

#[test]
fn a_request_waits_for_the_record_of_its_last_op() {
    let mut join = read();
    join.position(&opens("chat", 1));
    join.position(&position("chat", 1, (1, 2), 900));
    join.request(request("chat", 1, (3, 8)), 5, 1);
    join.position(&position("chat", 1, (3, 5), 1_100));
    assert!(join.due(6).is_empty());
    join.position(&position("chat", 1, (6, 8), 1_300));
    join.position(&position("chat", 1, (9, 9), 1_400));
    let [joined] = &join.due(7)[..] else {
        panic!("one is due");
    };
    assert!(joined.is_whole);
    assert_eq!(ops(joined), [(3, 5), (6, 8)]);
    assert_eq!((join.waiting(), join.parts.1), (0, 0));
}

#[test]
fn a_request_of_a_thread_takes_only_parts_with_its_ops() {
    let mut join = read();
    for (first, last) in [(1, 3), (4, 4), (5, 9)] {
        join.position(&position("chat", 1, (first, last), 1_000 + first));
    }
    let mut of_thread = request("chat", 1, (2, 9));
    of_thread.runs = Box::new([(2, 3), (9, 9)]);
    join.request(of_thread, 0, 1);
    assert_eq!(ops(&join.due(1)[0]), [(1, 3), (5, 9)]);
}

#[test]
fn a_foreign_session_is_refused_and_one_that_never_was_has_no_parts() {
    let mut join = read();
    join.position(&position("chat", 1, (1, 4), 1_000));
    assert_eq!(
        join.request(request("mallory", 1, (1, 4)), 10, 1),
        Some((1, false))
    );
    // Reported before the record has its owner.
    join.request(request("mallory", 2, (1, 4)), 10, 2);
    join.position(&position("chat", 2, (1, 4), 1_000));
    join.request(request("chat", 7, (1, 9)), 10, 3);
    assert!(
        join.due(10 + PATIENCE).is_empty(),
        "the record stands still"
    );
    let mut due = join.due(10 + PATIENCE_MOST);
    due.sort_by_key(|it| it.mark);
    let seen: Vec<_> = due
        .iter()
        .map(|it| (it.mark, it.parts.len(), it.is_whole))
        .collect();
    assert_eq!(seen, [(2, 0, false), (3, 0, false)]);
}

#[test]
fn a_lost_record_is_noticed_by_the_records_own_time_or_by_the_sessions_end() {
    let mut join = read();
    join.position(&position("chat", 1, (1, 4), 1_000));
    join.request(request("chat", 1, (1, 9)), 0, 1);
    assert!(join.due(2 * PATIENCE).is_empty(), "no leader leads");
    join.position(&position("other", 2, (1, 1), 3_000 + PATIENCE));
    let due = join.due(2 * PATIENCE);
    assert_eq!((ops(&due[0]), due[0].is_whole), (vec![(1, 4)], false));
    join.request(request("chat", 1, (10, 19)), 0, 1);
    assert!(join.due(0).is_empty());
    join.position(&ReplayedPosition {
        kind: GrantKind::Close,
        ..opens("chat", 1)
    });
    assert_eq!(join.due(0).len(), 1);
}

/// The same slice, with a wait of the program at its end.
fn waits(mut position: ReplayedPosition) -> ReplayedPosition {
    position.work.push(CostRun {
        class: CostClass::Sync,
        key: KernelKey(0),
        bytes: 0,
        count: 1,
    });
    position
}

/// Checks that parts tell all that happened in a request of this number of ops, each of them a slice.
fn tell_all(one: &Joined<u8>, ops: u64) {
    assert!(one.is_whole && one.has_run);
    assert_eq!(one.parts.first().map(|part| part.first), Some(1));
    for pair in one.parts.windows(2) {
        assert_eq!(pair[0].last + 1, pair[1].first);
        assert!(pair[0].timing.ended <= pair[1].timing.ended);
    }
    assert_eq!(one.parts.last().map(|part| part.last), Some(ops));
    let sum = |of: fn(&Part) -> u64| one.parts.iter().map(|part| of(part)).sum::<u64>();
    assert_eq!(sum(|part| part.slices), ops);
    assert_eq!(sum(|part| part.launches.unwrap_or(0)), ops);
    assert_eq!(sum(|part| part.device_ns), 50 * ops);
    assert_eq!(sum(|part| part.timing.waited_ns), 100 * ops);
    let waits = |part: &Part| part.timing.waits.iter().map(|wait| wait.ns).sum();
    assert_eq!(sum(waits), 100 * ops);
    let launches = |part: &Part| part.work.iter().map(|run| run.ops).sum();
    assert_eq!(sum(launches), ops);
}

/// The request of all these ops, whole, as it comes where its report is read after the record, and before it.
fn both_ways(positions: &[ReplayedPosition]) -> [Joined<u8>; 2] {
    let ops = positions.last().map_or(0, |it| it.last);
    let mut late = read();
    for position in positions {
        late.position(position);
        assert!(late.parts.0 <= PARTS + SURPLUS);
    }
    late.request(request("chat", 1, (1, ops)), 0, 1);
    let mut early = read();
    early.request(request("chat", 1, (1, ops)), 0, 1);
    for position in positions {
        early.position(position);
        assert!(early.parts.1 <= SLICES);
    }
    [late, early].map(|mut join| {
        let due = join.due(0).remove(0);
        assert_eq!(join.parts.1, 0);
        due
    })
}

fn slice(op: u64) -> ReplayedPosition {
    position("chat", 1, (op, op), 1_000 + 1_000 * op)
}

#[test]
fn a_request_of_any_length_is_whole_and_has_the_same_slices_whenever_it_is_reported() {
    let ops = 20 * PARTS as u64;
    let positions: Vec<_> = (1..=ops).map(slice).collect();
    let all = both_ways(&positions);
    all.iter().for_each(|one| tell_all(one, ops));
    let bounds = (0, 2_000 * ops);
    let spans = all.map(|one| crate::slices::slices(&one.parts, 0, bounds));
    assert_eq!(spans[0].len(), SLICES);
    assert!(spans[0][..SLICES - 1].iter().all(|part| part.slices == 1));
    assert_eq!(spans[0], spans[1]);
}

#[test]
fn slices_are_joined_up_to_the_next_wait_or_gap() {
    let joined = |positions: &[ReplayedPosition]| {
        let mut join = read();
        positions.iter().for_each(|it| join.position(it));
        let mut parts = join.sessions[&SessionId(1)].parts.clone();
        join_tails(&mut parts);
        let parts = parts.iter().skip(SLICES - 1);
        parts
            .map(|part| (part.first, part.slices))
            .collect::<Vec<_>>()
    };
    let last = SLICES as u64;
    let mut positions: Vec<_> = (1..=last + 6).map(slice).collect();
    assert_eq!(joined(&positions), [(last, 7)]);
    positions[SLICES + 1] = waits(positions[SLICES + 1].clone());
    let single = |at| (last + at, 1);
    let after = [single(3), single(4), single(5), single(6)];
    assert_eq!(joined(&positions), [&[(last, 3)], &after[..]].concat());
    // An op that the record never had.
    positions.truncate(SLICES + 1);
    positions.remove(SLICES);
    positions.extend([slice(last + 2), slice(last + 3)]);
    assert_eq!(joined(&positions), [(last, 1), (last + 2, 2)]);
}

#[test]
fn slices_that_were_joined_with_those_of_other_requests_are_read_again() {
    let mut join = read();
    let all = 3 * PARTS as u64;
    let tell = |join: &mut Join<u8>| (1..=all).for_each(|op| join.position(&slice(op)));
    tell(&mut join);
    join.request(request("chat", 1, (500, 520)), 0, 1);
    assert!(join.due(0).is_empty());
    assert!(join.wants_again(READ_AGAIN));
    join.begins(READ_AGAIN);
    tell(&mut join);
    let due = join.due(READ_AGAIN);
    assert!(due[0].is_whole);
    assert!(due[0].parts.iter().all(|part| part.slices == 1));
    assert_eq!(due[0].parts.len(), 21);
}

#[test]
fn a_long_request_among_those_of_other_threads_is_whole() {
    let ops = 9_000;
    let mut whole = request("chat", 1, (1, 2 * ops));
    // Another thread's ops are between.
    let own = (1..=ops).map(|n| (2 * n - 1, 2 * n - 1));
    whole.runs = own.collect();
    whole.report.last = 2 * ops - 1;
    let mut join = read();
    join.request(whole, 0, 1);
    for op in 1..=2 * ops {
        let position = slice(op);
        join.position(&if op % 2 == 0 {
            waits(position)
        } else {
            position
        });
    }
    let due = join.due(0);
    assert!(due[0].is_whole);
    assert_eq!(due[0].parts.len(), SLICES);
    let sum: u64 = due[0].parts.iter().map(|part| part.slices).sum();
    assert_eq!(sum, ops);
}

#[test]
fn requests_without_room_are_cut() {
    let mut join = read();
    let mut threads = 1..;
    let mut long = |join: &mut Join<u8>| {
        let mut long = request("chat", 1, (1, u64::MAX));
        long.report.thread = threads.next().expect("a number");
        join.request(long, 0, 1);
    };
    for _ in 0..=OF_REQUESTS / SLICES {
        long(&mut join);
    }
    for op in 1..=2 * SLICES as u64 {
        join.position(&slice(op));
        assert!(join.parts.1 <= OF_REQUESTS);
    }
    long(&mut join);
    join.position(&slice(2 * SLICES as u64 + 1));
    assert!(join.parts.1 <= OF_REQUESTS);
}

#[test]
fn many_kernels_of_a_part_are_bounded_and_none_has_the_launches_of_another() {
    let mut parts: Vec<_> = (1..=100).map(slice).collect();
    for (key, position) in (1..).zip(&mut parts) {
        position.work[0].key = KernelKey(key);
    }
    let mut join = read();
    parts.iter().for_each(|it| join.position(it));
    let parts = &join.sessions[&SessionId(1)].parts;
    let mut all = Part::clone(&parts[0]);
    parts.iter().skip(1).for_each(|part| all.add(part));
    let mut others = 0;
    for run in &all.work {
        match run.key {
            KernelKey::OTHER => others = run.ops,
            _ => assert_eq!(run.ops, 1),
        }
    }
    assert_eq!(others + all.work.len() as u64 - 1, 100);
    assert!(all.work.len() <= 40);
}

#[test]
fn forgotten_parts_come_when_the_record_is_read_again() {
    let mut join = read();
    let all = |join: &mut Join<u8>| {
        for op in 1..=2 * PARTS as u64 {
            join.position(&waits(position("chat", 1, (op, op), 1_000 + op)));
        }
    };
    all(&mut join);
    assert_eq!(join.parts.0, join.sessions[&SessionId(1)].parts.len());
    assert!((PARTS..=PARTS + SURPLUS).contains(&join.parts.0));
    join.request(request("chat", 1, (5, 6)), 10, 1);
    let last = 2 * PARTS as u64;
    let mut other = request("chat", 1, (last, last));
    other.report.thread = 2;
    join.request(other, 10, 2);
    assert_eq!(join.due(11).len(), 1, "the one with its parts");
    assert!(!join.wants_again(11));
    assert!(join.wants_again(READ_AGAIN));
    join.begins(READ_AGAIN);
    assert!(!join.wants_again(READ_AGAIN));
    all(&mut join);
    assert_eq!(join.due(READ_AGAIN).len(), 1, "it is there before the end");
    join.is_read(READ_AGAIN);
    // An op that the record never had.
    join.request(request("chat", 1, (7, 8)), READ_AGAIN, 3);
    assert!(join.due(READ_AGAIN).is_empty());
    join.begins(READ_AGAIN);
    join.position(&position("chat", 1, (100, 100), 1_000));
    join.is_read(2 * READ_AGAIN);
    let due = join.due(2 * READ_AGAIN);
    let seen = (due[0].parts.len(), due[0].is_whole, due[0].has_run);
    assert_eq!(seen, (0, false, true));
}

#[test]
fn an_end_that_no_leader_recorded_is_told_without_it() {
    let mut join = read();
    join.position(&position("chat", 1, (1, 4), 1_000));
    join.request(request("chat", 1, (5, 6)), 0, 1);
    join.position(&position("chat", 1, (7, 9), 1_500));
    let due = join.due(0);
    let seen = (due[0].parts.len(), due[0].is_whole, due[0].has_run);
    assert_eq!(seen, (0, false, true));
}

#[test]
fn a_thread_has_one_request_at_a_time() {
    let mut join = read();
    for op in 1..=3 {
        join.position(&position("chat", 1, (op, op), 1_000 + op));
    }
    let mut refused = |ops: (u64, u64), thread: u32| {
        let mut one = request("chat", 1, ops);
        one.report.thread = thread;
        join.request(one, 0, 1).is_some()
    };
    assert!(!refused((1, 2), 1));
    assert!(refused((1, 2), 1), "it was told");
    assert!(refused((2, 3), 1), "it overlaps");
    assert!(!refused((2, 3), 2));
    assert!(!refused((3, 3), 1));
}

#[test]
fn many_sessions_and_requests_are_bounded() {
    let mut join = read();
    let sessions = 1 + ALL_PARTS as u64 / 1_000;
    for session in 1..=sessions {
        for first in 1..=1_000 {
            let at = session * 10_000 + first;
            join.position(&position("chat", session, (first, first), at));
        }
    }
    assert!(join.parts.0 <= ALL_PARTS);
    assert_eq!(join.sessions[&SessionId(1)].parts.len(), 0);
    assert_eq!(join.sessions[&SessionId(sessions)].parts.len(), 1_000);
    join.forget(1_000_000 + AFTERLIFE);
    assert!(join.sessions.values().all(|it| !it.parts.is_empty()));
    for n in 0..10 {
        let mut long = request("chat", 99, (1, u64::MAX));
        long.report.thread = n;
        join.request(long, 0, 1);
    }
    assert_eq!(join.waiting_of(&"chat".parse().expect("a name")), 10);
    for op in 1..=2 * SLICES as u64 {
        join.position(&position("chat", 99, (op, op), 1));
    }
    assert_eq!(join.parts.1, 10 * SLICES);
    let due = join.due(u64::MAX);
    assert!(
        due.iter()
            .all(|it| !it.is_whole && it.parts.len() == SLICES)
    );
    assert_eq!((join.parts.1, join.waiting()), (0, 0));
}

#[test]
fn threads_come_and_go() {
    let mut join = read();
    join.position(&position("chat", 1, (1, 1), 1_000));
    for thread in 1..=2 * THREADS as u32 {
        let op = u64::from(thread);
        let mut one = request("chat", 1, (op, op));
        one.report.thread = thread;
        assert_eq!(join.request(one, 0, 1), None, "{thread}");
    }
    assert_eq!(join.sessions[&SessionId(1)].reported.len(), THREADS);
}

#[test]
fn a_request_with_ops_between_others_that_no_part_holds_is_not_whole() {
    for (parts, runs, is_whole) in [
        (&[(1, 4), (5, 6)][..], &[(1, 6)][..], true),
        (&[(1, 4), (6, 6)], &[(1, 6)], false),
        (&[(1, 4), (5, 5)], &[(1, 6)], false),
        // Those between are another thread's.
        (&[(1, 4), (6, 6)], &[(1, 4), (6, 6)], true),
        (&[(1, 2), (3, 9)], &[(2, 3), (6, 6)], true),
    ] {
        let mut join = read();
        for part in parts {
            join.position(&position("chat", 1, *part, 1_000));
        }
        // Its session has run later ops.
        join.position(&position("chat", 1, (10, 11), 1_000));
        let (first, last) = (runs[0].0, runs[runs.len() - 1].1);
        let mut of = request("chat", 1, (first, last));
        of.runs = runs.into();
        assert_eq!(join.request(of, 10, 1), None);
        let joined = join.due(10).remove(0);
        assert_eq!(
            (joined.is_whole, joined.has_run),
            (is_whole, true),
            "{parts:?} {runs:?}"
        );
    }
}
