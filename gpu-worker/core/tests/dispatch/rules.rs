//! Rules of waiting in the dispatch: the slices that each slice waits for.

use bus_schemas::{Code, Op, SessionId};
use gpu_worker_core::dispatch::{ClaimAnswer, Event, ImageState, TransferState};

use crate::shell::{Did, Shell, declared, did, fails, failure, image, load, staged, submitted};

const ALLOC: Op = Op::Alloc {
    address: 0,
    bytes: 256,
};

#[test]
fn what_needs_nothing_goes_to_the_device_at_once() {
    let mut shell = Shell::new([1]);
    let ops = [Op::Sync, Op::Sync];
    let submission = submitted(shell.start(1, &ops));
    assert_eq!((submission.start.first, submission.start.last), (1, 2));
    assert_eq!(submission.declared, declared(&ops));
    assert_eq!(submission.ops, ops);
    assert_eq!(fails(&submission), None);
    assert_eq!(shell.dispatch.waiting(), 0);
    assert_eq!(shell.changed(), [], "once");
}

#[test]
fn what_waits_holds_back_its_session_and_nobody_else() {
    let mut shell = Shell::new([1, 2, 3]);
    shell.image(1, 7, ImageState::Preparing);
    shell.session(2).transfers.insert(5, TransferState::Coming);
    assert_eq!(did(&shell.start(1, &[load(0, 7)])), []);
    assert_eq!(did(&shell.start(2, &[staged(5, 8)])), []);
    assert_eq!(did(&shell.start(1, &[Op::Sync])), []);
    assert_eq!(did(&shell.start(2, &[Op::Sync])), []);
    assert_eq!(did(&shell.start(3, &[Op::Sync])), [Did::Submits(3, 1)]);
    shell
        .session(2)
        .transfers
        .insert(5, TransferState::Whole(8));
    let all = [Did::Submits(2, 1), Did::Submits(2, 2)];
    assert_eq!(did(&shell.changed()), all);
    shell.ready(1, 7);
    let all = [Did::Submits(1, 1), Did::Submits(1, 2)];
    assert_eq!(did(&shell.changed()), all);
}

#[test]
fn the_pager_is_asked_one_question_at_a_time_the_oldest_that_is_ready_first() {
    let mut shell = Shell::new([1, 2, 3, 4]);
    shell.image(1, 7, ImageState::Preparing);
    assert_eq!(did(&shell.start(1, &[load(0, 7), ALLOC])), []);
    assert_eq!(did(&shell.start(2, &[ALLOC])), [Did::Asks(2, 1)]);
    assert_eq!(did(&shell.start(3, &[ALLOC])), []);
    assert_eq!(did(&shell.start(2, &[ALLOC])), []);
    // A slice that needs no memory does not wait for one that does.
    assert_eq!(did(&shell.start(4, &[Op::Sync])), [Did::Submits(4, 1)]);
    shell.ready(1, 7);
    assert_eq!(did(&shell.changed()), [], "a question is open");
    let all = [Did::Asks(1, 1), Did::Submits(2, 1)];
    assert_eq!(did(&shell.admit(2, 1)), all);
    let all = [Did::Submits(1, 1), Did::Asks(3, 1)];
    assert_eq!(did(&shell.admit(1, 1)), all);
    let all = [Did::Submits(3, 1), Did::Asks(2, 2)];
    assert_eq!(did(&shell.admit(3, 1)), all);
    assert_eq!(did(&shell.admit(2, 2)), [Did::Submits(2, 2)]);
}

#[test]
fn what_the_pager_says_goes_with_the_slice() {
    let mut shell = Shell::new([1]);
    shell.start(1, &[ALLOC, Op::Sync]);
    let submission = submitted(shell.tell(Event::Admitted(ClaimAnswer {
        session: SessionId(1),
        first: 1,
        refused: Some((1, failure(Code::Quota))),
        launch_bytes: vec![(1, 4_096)],
        later: false,
    })));
    assert_eq!(fails(&submission), Some((1, Code::Quota)));
    assert_eq!(submission.launch_bytes, [(1, 4_096)]);
    assert_eq!(
        submission.declared,
        declared(&[ALLOC, Op::Sync]),
        "what it declares does not depend on what there was room for"
    );
}

#[test]
fn the_first_of_two_failures_counts() {
    let mut shell = Shell::new([1]);
    let refuse = |first, op| {
        Event::Admitted(ClaimAnswer {
            session: SessionId(1),
            first,
            refused: Some((op, failure(Code::Quota))),
            launch_bytes: Vec::new(),
            later: false,
        })
    };
    shell.start(1, &[ALLOC, load(0, 1)]);
    let submission = submitted(shell.tell(refuse(1, 1)));
    assert_eq!(fails(&submission), Some((1, Code::Quota)));
    shell.start(1, &[ALLOC, load(0, 1)]);
    let submission = submitted(shell.admit(1, 3));
    assert_eq!(fails(&submission), Some((4, Code::BadModule)));
}

#[test]
fn a_stopped_session_waits_for_nothing() {
    let mut shell = Shell::new([1, 2]);
    shell.image(1, 7, ImageState::Preparing);
    shell.start(1, &[load(0, 7), ALLOC]);
    shell.start(2, &[ALLOC]);
    shell.start(1, &[ALLOC]);
    let actions = shell.stop(1);
    let all = [Did::Submits(1, 1), Did::Submits(1, 3)];
    assert_eq!(did(&actions), all, "the question is another session's");
    for action in actions {
        let submission = submitted(vec![action]);
        let first = submission.start.first;
        assert_eq!(fails(&submission), Some((first, Code::SessionGone)));
        assert_eq!(submission.declared, 0);
        assert_eq!(submission.loaded, []);
    }
    let late = submitted(shell.start(1, &[ALLOC]));
    assert_eq!(fails(&late), Some((4, Code::SessionGone)));
}

#[test]
fn a_stopped_sessions_question_makes_room_for_the_next() {
    let mut shell = Shell::new([1, 2]);
    assert_eq!(did(&shell.start(1, &[ALLOC])), [Did::Asks(1, 1)]);
    assert_eq!(did(&shell.start(2, &[ALLOC])), []);
    let all = [Did::Submits(1, 1), Did::Asks(2, 1)];
    assert_eq!(did(&shell.stop(1)), all);
    assert_eq!(did(&shell.admit(1, 1)), [], "no slice waits for it");
    assert_eq!(did(&shell.admit(2, 1)), [Did::Submits(2, 1)]);
}

#[test]
fn of_a_session_that_is_gone_nothing_is_kept() {
    let mut shell = Shell::new([1, 2]);
    shell.ready(1, 7);
    shell.start(1, &[load(0, 7)]);
    assert!(shell.dispatch.has_loaded(SessionId(1), image(7)));
    assert_eq!(did(&shell.start(1, &[ALLOC])), [Did::Asks(1, 2)]);
    shell.start(2, &[ALLOC]);
    shell.sessions.remove(&SessionId(1));
    let gone = Event::Gone {
        session: SessionId(1),
    };
    assert_eq!(did(&shell.tell(gone)), [Did::Asks(2, 1)]);
    assert_eq!(
        (shell.dispatch.waiting(), shell.dispatch.sessions()),
        (1, 0)
    );
    assert_eq!(did(&shell.start(1, &[Op::Sync])), [], "nobody knows it");
    assert_eq!(shell.dispatch.waiting(), 1);
}

#[test]
fn each_slice_is_judged_by_what_the_one_before_has_left() {
    let mut shell = Shell::new([1]);
    let have = shell.session(1);
    have.spare_images = Some(1);
    have.transfers.insert(5, TransferState::Coming);
    for name in [1, 2] {
        have.images
            .insert(image(name), ImageState::Ready(image(name)));
    }
    shell.start(1, &[staged(5, 8)]);
    shell.start(1, &[load(0, 1)]);
    shell.start(1, &[load(1, 2)]);
    shell
        .session(1)
        .transfers
        .insert(5, TransferState::Whole(8));
    let actions = shell.changed();
    let failures = actions.into_iter().map(|it| fails(&submitted(vec![it])));
    let failures: Vec<_> = failures.collect();
    // The session was charged for the second image before the third was looked at.
    assert_eq!(failures, [None, None, Some((3, Code::ModuleShare))]);
}
