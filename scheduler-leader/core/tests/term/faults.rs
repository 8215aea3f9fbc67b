//! Sessions that failed: the record tells why, beside the order.

use bus_schemas::{Code, Failure, SessionFault};
use scheduler_leader_core::replay::{Replay, ReplayedFault};

use crate::world::{MS, World, opened, tenant};

const WORDS: &str = "illegal address in kernel `saxpy`, src/saxpy.cu:12, PTX line 34, block [1, 0, 0], thread \
                     [5, 0, 0], read of 4 bytes at 0x7f0000001000: at the end of an allocation";

/// Makes the session's worker tell that it failed.
fn fail(world: &mut World, words: &str) {
    let opened = world.opened.clone().expect("a session");
    let mut workers = world.workers.iter_mut();
    let of = workers.find(|worker| worker.incarnation == opened.incarnation);
    of.expect("its worker").fault = Some(SessionFault {
        session: opened.session,
        op: 7,
        failure: Failure::new(Code::IllegalAddress, words),
    });
}

/// The faults of the record, which a replay hands over once.
fn told(world: &World) -> Vec<ReplayedFault> {
    let mut replay = Replay::forgetful().telling_faults();
    for (epoch, number, bytes) in world.record() {
        replay.add(epoch, number, &bytes).expect("a block");
    }
    replay.advance(|_| {}).expect("the record replays");
    let told = replay.take_faults();
    assert_eq!(replay.take_faults(), []);
    told
}

#[test]
fn the_record_tells_of_a_fault_with_its_words_and_time() {
    let mut world = opened(1);
    world.submit(500);
    world.pass(30);
    let before = world.now;
    fail(&mut world, WORDS);
    world.pass(2_000);
    let faults = told(&world);
    let [fault] = &faults[..] else {
        panic!("{faults:?}");
    };
    let session = world.opened.as_ref().expect("a session").session;
    assert_eq!(
        (fault.session, &fault.tenant, fault.op),
        (session, &tenant(), 7)
    );
    assert_eq!(
        (fault.code, fault.words.as_str()),
        (Code::IllegalAddress, WORDS)
    );
    let at = fault.at.expect("a time");
    assert!((before..before + 1_000 * MS).contains(&at), "{before} {at}");
    world.check();
}

#[test]
fn long_words_are_cut_and_change_no_order() {
    let orders = [WORDS.to_owned(), WORDS.repeat(900)].map(|words| {
        let mut world = opened(1);
        world.submit(500);
        world.pass(30);
        fail(&mut world, &words);
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
    fail(&mut world, WORDS);
    world.go_on();
    world.pass(5_000);
    let faults = told(&world);
    assert!(!faults.is_empty());
    for fault in faults {
        assert_eq!((fault.epoch, fault.words.as_str()), (2, WORDS));
    }
}
