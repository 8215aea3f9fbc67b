//! Sessions that failed: the record tells why, beside the order.

use bus_schemas::subject::ToLeader;
use bus_schemas::{CloseReason, CloseRequest, Code, Failure, SessionFault, WIRE_VERSION, encode};
use scheduler_leader_core::replay::{Replay, ReplayedFailure};

use crate::world::{MS, World, opened, tenant};

const WORDS: &str = "illegal address in kernel `saxpy`, src/saxpy.cu:12, PTX line 34, block [1, 0, 0], thread \
                     [5, 0, 0], read of 4 bytes at 0x7f0000001000: at the end of an allocation";

/// Makes the session's worker tell that an op of it failed.
fn fail(world: &mut World, op: u64, words: &str) {
    let opened = world.opened.clone().expect("a session");
    let mut workers = world.workers.iter_mut();
    let of = workers.find(|worker| worker.incarnation == opened.incarnation);
    of.expect("its worker").fault = Some(SessionFault {
        session: opened.session,
        op,
        failure: Failure::new(Code::IllegalAddress, words),
    });
}

/// The faults of the record, which a replay hands over once.
fn told(world: &World) -> Vec<ReplayedFailure> {
    let mut replay = Replay::forgetful().telling_failures();
    for (epoch, number, bytes) in world.record() {
        replay.add(epoch, number, &bytes).expect("a block");
    }
    replay.advance(|_| {}).expect("the record replays");
    let told = replay.take_failures();
    assert_eq!(replay.take_failures(), []);
    told
}

#[test]
fn the_record_tells_of_a_fault_with_its_words_and_time() {
    let mut world = opened(1);
    world.submit(500);
    world.pass(30);
    let before = world.now;
    fail(&mut world, 7, WORDS);
    world.pass(2_000);
    let failures = told(&world);
    let [failure] = &failures[..] else {
        panic!("{failures:?}");
    };
    let session = world.opened.as_ref().expect("a session").session;
    assert_eq!(
        (failure.session, &failure.tenant, failure.op),
        (session, &tenant(), 7)
    );
    assert_eq!(
        (failure.code, failure.words.as_str()),
        (Code::IllegalAddress, WORDS)
    );
    let at = failure.at.expect("a time");
    assert!((before..before + 1_000 * MS).contains(&at), "{before} {at}");
    world.check();
}

#[test]
fn a_fault_of_a_session_that_is_closing_is_recorded_once() {
    let mut world = opened(1);
    world.submit(500);
    let session = world.opened.as_ref().expect("a session").session;
    let close = CloseRequest {
        v: WIRE_VERSION,
        session,
        after: world.submitted,
        reason: CloseReason::Asked,
    };
    let subject = world.subjects.to_leader(&tenant(), ToLeader::Close);
    world.bus.push_back((subject, None, encode(&close)));
    let last = world.submitted;
    fail(&mut world, last, WORDS);
    world.pass(2_000);
    let failures = told(&world);
    let words: Vec<_> = failures.iter().map(|it| it.words.as_str()).collect();
    assert_eq!(words, [WORDS]);
    world.check();
}

#[test]
fn long_words_are_cut_and_change_no_order() {
    let orders = [WORDS.to_owned(), WORDS.repeat(900)].map(|words| {
        let mut world = opened(1);
        world.submit(500);
        world.pass(30);
        fail(&mut world, 7, &words);
        world.pass(2_000);
        world.check();
        assert!(told(&world)[0].words.len() <= 1_024);
        world.replay().expect("the record replays").digest
    });
    assert_eq!(orders[0], orders[1]);
}

#[test]
fn the_next_leader_tells_of_a_fault_that_none_has_recorded() {
    let mut world = opened(2);
    world.submit(500);
    world.pass(30);
    world.kill_leader(0);
    fail(&mut world, 7, WORDS);
    world.go_on();
    world.pass(5_000);
    let failures = told(&world);
    assert!(!failures.is_empty());
    for failure in failures {
        assert_eq!((failure.epoch, failure.words.as_str()), (2, WORDS));
    }
}
