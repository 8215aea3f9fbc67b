//! The worker core as its shells drive it: encoded messages and device events in, publications and device
//! commands out.

mod bench;
mod copies;
mod sharing;

use std::time::Duration;

use bench::{Bench, MIB, submitted, swapped_in, swapped_out, tenant};
use bus_schemas::subject::{ToClient, ToWorker, WorkerSubject};
use bus_schemas::{Code, MemoryAnswer, Op, Rejected, SessionId, decode};
use device::Moved;
use gpu_worker_core::worker::{Action, Event, To};

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);

fn alloc(bytes: u64) -> Op {
    Op::Alloc {
        address: 1 << 40,
        bytes,
    }
}

fn moved(session: SessionId, out: bool) -> Event<'static, bench::Kept> {
    let ended = Moved {
        session,
        out,
        bytes: 80 * MIB,
        took: Duration::from_nanos(1),
        resident: if out { 0 } else { 80 * MIB },
        failure: None,
    };
    Event::Moved(vec![ended], None)
}

/// Messages to a session's client among these actions.
fn heard(actions: &[Action<bench::Kept>], session: SessionId, what: ToClient) -> Vec<&[u8]> {
    let to = To::Client(tenant(), session, what);
    let messages = actions.iter().filter_map(|action| match action {
        Action::Publish(at, message) if *at == to => Some(&message[..]),
        _ => None,
    });
    messages.collect()
}

#[test]
fn an_allocation_that_fits_goes_to_the_device_with_its_grant() {
    let mut bench = Bench::new(100 * MIB, 100 * MIB);
    bench.open(A);
    let actions = bench.run(A, 1, alloc(80 * MIB));
    assert_eq!(submitted(&actions), Some((A, 2)), "in the same call");
    assert_eq!(bench.worker.resources().held(A), 80 * MIB);
}

#[test]
fn an_allocation_beyond_the_device_swaps_and_runs_with_one_event_for_each_move() {
    let mut bench = Bench::new(100 * MIB, 200 * MIB);
    bench.open(A);
    bench.open(B);
    let actions = bench.run(A, 1, alloc(80 * MIB));
    let (_, position) = submitted(&actions).unwrap();
    bench.complete(A, position, 80 * MIB);
    bench.now += 1;
    let actions = bench.run(B, 1, alloc(80 * MIB));
    assert_eq!(submitted(&actions), None);
    assert_eq!(swapped_out(&actions), Some(A), "with the grant");
    assert!(bench.worker.next_wakeup().unwrap() <= bench.now + 20_000_000);
    let actions = bench.tell(moved(A, true));
    let (session, position) = submitted(&actions).expect("with the end of the move");
    assert_eq!(session, B);
    bench.complete(B, position, 80 * MIB);
    // Now the first session has work again.
    bench.now += 1;
    let actions = bench.run(A, 2, Op::Sync);
    assert_eq!(
        (submitted(&actions), swapped_out(&actions)),
        (None, Some(B))
    );
    let actions = bench.tell(moved(B, true));
    assert_eq!((submitted(&actions), swapped_in(&actions)), (None, Some(A)));
    let actions = bench.tell(moved(A, false));
    assert_eq!(submitted(&actions).map(|(session, _)| session), Some(A));
}

#[test]
fn a_request_for_memory_is_answered_in_the_same_call() {
    let mut bench = Bench::new(100 * MIB, 100 * MIB);
    bench.open(A);
    bench.run(A, 1, alloc(80 * MIB));
    bench.open(B);
    for (number, least, committed) in [(1, 60 * MIB, 0), (2, 15 * MIB, 15 * MIB)] {
        let actions = bench.ask(B, number, least);
        let answers = heard(&actions, B, ToClient::Memory);
        let answer: MemoryAnswer = decode(answers[0]).unwrap();
        assert_eq!((answer.number, answer.committed), (number, committed));
        assert_eq!(answer.failure.is_some(), committed == 0);
    }
}

#[test]
fn a_session_that_became_idle_makes_room_without_another_event() {
    let idle = 100_000_000;
    let mut bench = Bench::with_idle(100 * MIB, 200 * MIB, idle);
    bench.open(A);
    bench.open(B);
    bench.ask(A, 1, 80 * MIB);
    let actions = bench.run(A, 1, alloc(60 * MIB));
    let (_, position) = submitted(&actions).unwrap();
    bench.complete(A, position, 60 * MIB);
    let worked = bench.now;
    assert_eq!(
        swapped_out(&bench.ask(B, 1, 80 * MIB)),
        None,
        "it has just worked"
    );
    loop {
        bench.now = bench.worker.next_wakeup().expect("it looks again");
        let actions = bench.tell(Event::Timer);
        if swapped_out(&actions) == Some(A) {
            break;
        }
        assert!(bench.now < worked + 2 * idle);
    }
    assert!(bench.now >= worked + idle);
}

#[test]
fn a_late_want_ends_although_every_session_counts_as_idle() {
    let mut bench = Bench::with_idle(100 * MIB, 200 * MIB, 0);
    bench.open(A);
    bench.open(B);
    let actions = bench.run(A, 1, alloc(80 * MIB));
    let (_, position) = submitted(&actions).unwrap();
    bench.complete(A, position, 80 * MIB);
    bench.run(A, 2, Op::Sync);
    let actions = bench.run(B, 1, alloc(80 * MIB));
    assert_eq!(
        (submitted(&actions), swapped_out(&actions)),
        (None, None),
        "A works"
    );
    for _ in 0..100 {
        bench.now = bench.worker.next_wakeup().expect("B waits");
        let actions = bench.tell(Event::Timer);
        assert_eq!(swapped_out(&actions), None);
    }
    let actions = bench.complete(A, position + 1, 80 * MIB);
    let out = swapped_out(&actions).or_else(|| {
        bench.now = bench.worker.next_wakeup()?;
        swapped_out(&bench.tell(Event::Timer))
    });
    assert_eq!(out, Some(A));
}

#[test]
fn a_message_that_cannot_be_read_is_answered_now_and_then() {
    let mut bench = Bench::new(100 * MIB, 100 * MIB);
    bench.open(A);
    for what in [
        ToWorker::Batch,
        ToWorker::Data,
        ToWorker::State,
        ToWorker::Memory,
        ToWorker::Ipc,
        ToWorker::Offer,
    ] {
        bench.now += 20_000_000;
        let subject = WorkerSubject::Tenant(tenant(), A, what);
        let actions = bench.hear(&subject, vec![0xc1]);
        let answers = heard(&actions, A, ToClient::Error);
        let rejected: Rejected = decode(answers[0]).unwrap();
        assert_eq!(rejected.failure.code, Code::Malformed, "{what:?}");
        assert!(!bench.worker.is_sound());
        let actions = bench.hear(&subject, vec![0xc1]);
        assert_eq!(heard(&actions, A, ToClient::Error).len(), 0, "so soon");
    }
    for subject in [
        WorkerSubject::GrantBatch,
        WorkerSubject::Seal,
        WorkerSubject::Lost,
        WorkerSubject::Leave,
        WorkerSubject::Quotas,
    ] {
        let actions = bench.hear(&subject, vec![0xc1]);
        let is_noted = |action: &Action<_>| matches!(action, Action::Malformed(_));
        assert!(actions.iter().any(is_noted), "{subject:?}");
    }
}
