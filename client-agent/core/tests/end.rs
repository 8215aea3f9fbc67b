//! Failures and ends of sessions.

use bus_schemas::{
    CloseReason, CloseRequest, Code, Column, DeviceResult, Failure, KernelKey, LeaderBeat,
    LeaderId, LeaderNotice, Op, ResultKind, SessionId, WIRE_VERSION, WorkerAck, decode, encode,
};
use client_agent_core::{Action, Event, Outbox, OutboxSettings, PushError};

fn outbox() -> Outbox {
    Outbox::new(OutboxSettings::new(SessionId(5), 3, LeaderId(30)))
}

fn handle(outbox: &mut Outbox, now: u64, event: Event<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    outbox.handle(now, event, &mut actions);
    actions
}

fn push(outbox: &mut Outbox, op: Op) -> u64 {
    outbox.push(&op, 0, &[], KernelKey(0)).expect("it is taken")
}

fn ack(epoch: u64, received: u64, failure: Option<Failure>) -> WorkerAck<'static> {
    WorkerAck {
        v: WIRE_VERSION,
        epoch,
        leader: LeaderId(epoch * 10),
        received,
        done: 0,
        send_through: 2000,
        staging: 0,
        results: 0,
        staged: Column::default(),
        failure,
        failed_op: 1,
        prepared: Column::default(),
        refused: Vec::new(),
        held: Column::default(),
    }
}

fn notice(epoch: u64, queued: u64, ended: Option<Failure>) -> LeaderNotice {
    LeaderNotice {
        v: WIRE_VERSION,
        epoch,
        leader: LeaderId(epoch * 10),
        queued,
        granted: 0,
        queue_through: 2000,
        ended,
        alone: false,
    }
}

fn intents(actions: &[Action]) -> Vec<(u64, u32)> {
    let only = actions.iter().filter_map(|action| match action {
        Action::PublishIntent { bytes } => {
            let intent: bus_schemas::Intent<'_> = decode(bytes).expect("an intent of ours");
            Some((intent.first, intent.count))
        }
        _ => None,
    });
    only.collect()
}

#[test]
fn a_fault_fails_the_session_once_and_for_all() {
    let mut outbox = outbox();
    push(&mut outbox, Op::Sync);
    handle(&mut outbox, 0, Event::Flush);
    let fault = Failure::new(Code::IllegalAddress, "at 0x0");
    let actions = handle(
        &mut outbox,
        1,
        Event::WorkerAck(&ack(3, 1, Some(fault.clone()))),
    );
    let failed = Action::Failed {
        op: 1,
        failure: fault.clone(),
    };
    assert_eq!(actions, [failed]);
    let again = handle(
        &mut outbox,
        2,
        Event::WorkerAck(&ack(3, 1, Some(fault.clone()))),
    );
    assert_eq!(again, []);
    let refused = outbox.push(&Op::Sync, 0, &[], KernelKey(0));
    assert_eq!(refused, Err(PushError::Failed(fault)));
    assert_eq!(outbox.next_wakeup(), None);

    // It still has to be closed, and others must not wait for ops that never come.
    let actions = handle(&mut outbox, 3, Event::Close(CloseReason::Asked));
    let [Action::PublishClose { bytes }] = &actions[..] else {
        panic!("{actions:?}")
    };
    let request: CloseRequest = decode(bytes).expect("a request of ours");
    assert_eq!(request.reason, CloseReason::Fault);
    let gone = Failure::new(Code::SessionGone, "closed");
    let actions = handle(
        &mut outbox,
        4,
        Event::LeaderNotice(&notice(3, 1, Some(gone))),
    );
    assert_eq!(actions, [Action::Ended]);
    assert_eq!(outbox.next_wakeup(), None);
}

/// The acknowledgement of a failure that says the session has one result; that result is lost.
fn failing(outbox: &mut Outbox) -> Failure {
    push(outbox, Op::Sync);
    handle(outbox, 0, Event::Flush);
    let fault = Failure::new(Code::IllegalAddress, "at 0x0");
    let late = WorkerAck {
        results: 1,
        ..ack(3, 1, Some(fault.clone()))
    };
    let actions = handle(outbox, 1, Event::WorkerAck(&late));
    assert_eq!(actions, []);
    fault
}

#[test]
fn a_fault_waits_for_what_was_printed_before_it() {
    let mut outbox = outbox();
    let failure = failing(&mut outbox);
    // The worker is asked for the missing result, although the leader says that the session is
    // over.
    let gone = Failure::new(Code::SessionGone, "closed");
    let ended = notice(3, 1, Some(gone));
    assert_eq!(handle(&mut outbox, 2, Event::LeaderNotice(&ended)), []);
    let now = outbox.next_wakeup().expect("it waits");
    let actions = handle(&mut outbox, now, Event::Tick);
    let asks = |action: &Action| matches!(action, Action::PublishState { .. });
    assert!(actions.iter().any(asks), "{actions:?}");
    let printed = DeviceResult {
        v: WIRE_VERSION,
        number: 1,
        op: 1,
        kind: ResultKind::Printed,
        device_ns: 7,
        total: 3,
        offset: 0,
        bytes: b"why",
        events: Column::default(),
    };
    let text = Action::Result {
        op: 1,
        kind: ResultKind::Printed,
        device_ns: 7,
        bytes: b"why".to_vec(),
        events: Vec::new(),
    };
    let failed = Action::Failed { op: 1, failure };
    let message: bytes::Bytes = encode(&printed).into();
    let printed = decode(&message).expect("a result");
    let actions = handle(&mut outbox, now + 1, Event::Result(printed, &message));
    assert_eq!(actions, [text, failed, Action::Ended]);
    assert_eq!(outbox.next_wakeup(), None);
}

#[test]
fn a_fault_does_not_wait_for_ever() {
    let mut outbox = outbox();
    let failure = failing(&mut outbox);
    let failed = Action::Failed { op: 1, failure };
    let mut last = 0;
    while let Some(now) = outbox.next_wakeup().filter(|_| last < 2_000_000_000) {
        last = now;
        let actions = handle(&mut outbox, now, Event::Tick);
        if actions.contains(&failed) {
            break;
        }
    }
    assert!((500_000_000..2_000_000_000).contains(&last), "at {last} ns");
    assert_eq!(outbox.next_wakeup(), None);
}

#[test]
fn a_close_is_asked_for_until_it_is_answered() {
    let mut outbox = outbox();
    push(&mut outbox, Op::Free { address: 1 });
    let actions = handle(&mut outbox, 0, Event::Close(CloseReason::Asked));
    assert!(matches!(actions.last(), Some(Action::PublishClose { .. })));
    let refused = outbox.push(&Op::Sync, 0, &[], KernelKey(0));
    assert_eq!(refused, Err(PushError::Closed));
    let mut asked = 0;
    for _ in 0..5 {
        let now = outbox.next_wakeup().expect("it waits");
        let actions = handle(&mut outbox, now, Event::Tick);
        asked += actions
            .iter()
            .filter(|action| matches!(action, Action::PublishClose { .. }))
            .count();
    }
    assert!(asked >= 2, "{asked}");
    let gone = Failure::new(Code::SessionGone, "closed");
    let actions = handle(
        &mut outbox,
        1 << 40,
        Event::LeaderNotice(&notice(3, 1, Some(gone))),
    );
    assert_eq!(actions, [Action::Ended]);
}

#[test]
fn a_beat_of_an_older_term_is_ignored() {
    let mut outbox = outbox();
    push(&mut outbox, Op::Free { address: 1 });
    let first = handle(&mut outbox, 0, Event::Flush);
    assert_eq!(intents(&first), [(1, 1)]);
    handle(&mut outbox, 1, Event::LeaderNotice(&notice(3, 1, None)));
    assert_eq!(outbox.queued(), 1);

    // A new leader knows nothing yet, so it is told again at once.
    let beat = LeaderBeat {
        v: WIRE_VERSION,
        epoch: 4,
        leader: LeaderId(40),
        leaving: false,
    };
    let actions = handle(&mut outbox, 2, Event::Term(beat));
    assert_eq!(intents(&actions), [(1, 1)]);
    assert_eq!((outbox.queued(), outbox.epoch()), (0, (4, LeaderId(40))));

    let gone = Failure::new(Code::DeviceLost, "lost");
    for stale in [
        notice(3, 1, Some(gone.clone())),
        LeaderNotice {
            leader: LeaderId(41),
            ..notice(4, 1, Some(gone))
        },
    ] {
        handle(&mut outbox, 3, Event::LeaderNotice(&stale));
        assert_eq!((outbox.queued(), outbox.failure()), (0, None));
    }
    // The worker obeys one leader of an epoch and names it.
    handle(
        &mut outbox,
        4,
        Event::WorkerAck(&WorkerAck {
            leader: LeaderId(41),
            ..ack(4, 1, None)
        }),
    );
    handle(
        &mut outbox,
        5,
        Event::LeaderNotice(&LeaderNotice {
            leader: LeaderId(41),
            ..notice(4, 1, None)
        }),
    );
    assert_eq!(outbox.queued(), 1);
}

#[test]
fn what_no_worker_would_take_is_refused() {
    let mut outbox = outbox();
    let copy = |bytes, transfer| Op::CopyIn {
        address: 0,
        bytes,
        transfer,
    };
    for (op, payload) in [
        (copy(3, 0), &[1, 2][..]),
        (copy(20 << 10, 0), &[0; 20 << 10][..]),
        (copy(3, 1), &[][..]),
        (Op::Sync, &[1][..]),
        (Op::UnloadModule { slot: 4096 }, &[][..]),
    ] {
        let refused = outbox.push(&op, 0, payload, KernelKey(0));
        assert!(matches!(refused, Err(PushError::Invalid(_))), "{op:?}");
    }
    assert_eq!(outbox.last(), 0);
    assert!(matches!(
        outbox.stage(bytes::Bytes::new(), None),
        Err(PushError::Invalid(_))
    ));
    assert_eq!(outbox.stage(vec![1, 2, 3].into(), None), Ok(1));
    assert_eq!(push(&mut outbox, copy(3, 1)), 1);
}
