use bus_schemas::{CostClass, Incarnation, KernelKey, Outcome};
use scheduler_leader_core::replay::End;
use scheduler_leader_core::why::{Cause, Wait};

use super::*;

/// A request of the ops from first to last, as reported: it lasts from 1,000 to 2,000.
pub(crate) fn request(tenant: &str, session: u64, (first, last): (u64, u64)) -> Request {
    Request {
        tenant: tenant.parse().expect("a name"),
        session: SessionId(session),
        process: None,
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
    joined
        .parts
        .iter()
        .map(|part| (part.first, part.last))
        .collect()
}

#[test]
fn a_request_waits_for_the_record_of_its_last_op() {
    let mut join = Join::new();
    join.is_read(0);
    join.position(&opens("chat", 1));
    join.request(request("chat", 1, (3, 8)), 5, 1);
    join.position(&position("chat", 1, (1, 2), 900));
    join.position(&position("chat", 1, (3, 5), 1_100));
    assert!(join.due(6).is_empty());
    join.position(&position("chat", 1, (6, 8), 1_300));
    // A record that is read again.
    join.position(&position("chat", 1, (3, 5), 1_100));
    let [joined] = &join.due(7)[..] else {
        panic!("one is due");
    };
    assert!(joined.is_whole);
    assert_eq!(ops(joined), [(3, 5), (6, 8)]);
    assert_eq!(join.waiting(), 0);
}

#[test]
fn a_request_of_a_thread_takes_only_parts_with_its_ops() {
    let mut join = Join::new();
    join.is_read(0);
    for (first, last) in [(1, 3), (4, 4), (5, 9)] {
        join.position(&position("chat", 1, (first, last), 1_000 + first));
    }
    let mut of_thread = request("chat", 1, (2, 9));
    of_thread.runs = Box::new([(2, 3), (9, 9)]);
    join.request(of_thread, 0, 1);
    assert_eq!(ops(&join.due(1)[0]), [(1, 3), (5, 9)]);
}

#[test]
fn a_foreign_session_and_a_lost_record_join_nothing() {
    let mut join = Join::new();
    join.position(&position("chat", 1, (1, 4), 1_000));
    join.request(request("mallory", 1, (1, 4)), 10, 1);
    join.request(request("chat", 1, (1, 9)), 10, 2);
    join.request(request("chat", 7, (1, 9)), 10, 3);
    assert!(
        join.due(10 + 2 * PATIENCE).is_empty(),
        "the record is not read yet"
    );
    join.is_read(10 + 2 * PATIENCE);
    let due = join.due(10 + 3 * PATIENCE);
    let seen: Vec<_> = due
        .iter()
        .map(|it| (it.mark, it.parts.len(), it.is_whole))
        .collect();
    assert_eq!(seen, [(1, 0, false), (2, 1, false), (3, 0, false)]);
}

#[test]
fn what_no_request_needs_is_forgotten() {
    let mut join = Join::new();
    join.is_read(0);
    for first in 1..=2 * PARTS as u64 {
        join.position(&position("chat", 1, (first, first), 1_000 + first));
    }
    assert_eq!(join.parts, PARTS);
    let last = 2 * PARTS as u64;
    join.request(request("chat", 1, (last, last)), 0, 1);
    assert_eq!(ops(&join.due(1)[0]), [(last, last)]);
    join.forget(1_000 + LINGER);
    assert_eq!(join.parts, PARTS, "another thread's request may need them");
    join.forget(1_000_000 + LINGER);
    assert_eq!(join.parts, 0);
    assert_eq!(join.sessions.len(), 1);
    join.forget(1_000_000 + AFTERLIFE);
    assert_eq!(join.sessions.len(), 0);
}

#[test]
fn many_sessions_are_bounded_by_those_that_ran_least_recently() {
    let mut join: Join<u8> = Join::new();
    let sessions = 1 + ALL_PARTS as u64 / 1_000;
    for session in 1..=sessions {
        for first in 1..=1_000 {
            join.position(&position(
                "chat",
                session,
                (first, first),
                session * 10_000 + first,
            ));
        }
    }
    assert!(join.parts <= ALL_PARTS);
    assert_eq!(join.sessions[&SessionId(1)].parts.len(), 0);
    assert_eq!(join.sessions[&SessionId(sessions)].parts.len(), 1_000);
}

#[test]
fn a_request_is_told_once_and_no_more_of_them_than_a_session_has_ops() {
    let mut join = Join::new();
    join.is_read(0);
    for op in 1..=3 {
        join.position(&position("chat", 1, (op, op), 1_000 + op));
    }
    let mut told = |ops: (u64, u64), now: u64| {
        join.request(request("chat", 1, ops), now, 1);
        let due = join.due(now + PATIENCE);
        due.iter().filter(|it| !it.parts.is_empty()).count()
    };
    assert_eq!(told((1, 2), 0), 1);
    assert_eq!(told((1, 2), 1), 0, "it was told");
    assert_eq!(told((2, 2), 2), 0, "another with its last op");
    assert_eq!(told((3, 3), 3), 1);
    let claimed: usize = (0..1_000).map(|n| told((1, 10 + n), 4 + n)).sum();
    assert_eq!(claimed, INCOMPLETE);
}

#[test]
fn a_request_with_forgotten_parts_is_not_whole() {
    let mut join = Join::new();
    join.is_read(0);
    for op in 1..=PARTS as u64 + 1 {
        join.position(&position("chat", 1, (op, op), 1_000 + op));
    }
    join.request(request("chat", 1, (1, PARTS as u64 + 1)), 0, 1);
    let due = join.due(1);
    assert_eq!((due[0].parts.len(), due[0].is_whole), (PARTS, false));
}
