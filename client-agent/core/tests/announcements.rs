//! A client's announcements to the leader: when they are sent, when they are delayed because the
//! session is alone on its device, and when they are repeated.

use bus_schemas::{
    Code, Column, Failure, Intent, KernelKey, LeaderId, LeaderNotice, Op, SessionId, WIRE_VERSION,
    WorkerAck, decode,
};
use client_agent_core::{Action, Event, Outbox, OutboxSettings};

const MS: u64 = 1_000_000;

fn handle(outbox: &mut Outbox, now: u64, event: Event<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    outbox.handle(now, event, &mut actions);
    actions
}

/// Pushes and sends a sync.
fn sync(outbox: &mut Outbox, now: u64) -> Vec<Action> {
    outbox.push(&Op::Sync, 0, &[], KernelKey(0)).expect("taken");
    handle(outbox, now, Event::Flush)
}

fn notice(epoch: u64, queued: u64, alone: bool) -> LeaderNotice {
    LeaderNotice {
        v: WIRE_VERSION,
        epoch,
        leader: LeaderId(epoch * 10),
        queued,
        granted: 0,
        queue_through: 60_000,
        ended: None,
        alone,
    }
}

fn intents(actions: &[Action]) -> Vec<(u64, u32)> {
    let only = actions.iter().filter_map(|action| match action {
        Action::PublishIntent { bytes } => {
            let intent: Intent<'_> = decode(bytes).expect("an intent of ours");
            Some((intent.first, intent.count))
        }
        _ => None,
    });
    only.collect()
}

fn batches(actions: &[Action]) -> usize {
    let batch = |action: &&Action| matches!(action, Action::PublishBatch { .. });
    actions.iter().filter(batch).count()
}

/// An outbox that is alone on its device, as its leader said; its first op is announced.
fn alone() -> Outbox {
    let mut outbox = Outbox::new(OutboxSettings::new(SessionId(5), 3, LeaderId(30)));
    assert_eq!(intents(&sync(&mut outbox, 0)), [(1, 1)]);
    handle(&mut outbox, 0, Event::LeaderNotice(&notice(3, 1, true)));
    outbox
}

#[test]
fn intents_are_gathered_for_a_millisecond_and_batches_are_not() {
    let mut outbox = alone();
    for op in 0..5 {
        let actions = sync(&mut outbox, MS + op);
        assert_eq!((batches(&actions), intents(&actions).len()), (1, 0));
    }
    assert_eq!(outbox.next_wakeup(), Some(2 * MS));
    let told = handle(&mut outbox, 2 * MS, Event::Tick);
    assert_eq!(intents(&told), [(2, 5)]);
    // The next ones start a new wait.
    assert!(intents(&sync(&mut outbox, 2 * MS)).is_empty());
    let told = handle(&mut outbox, 3 * MS, Event::Tick);
    assert_eq!(intents(&told), [(7, 1)]);
}

#[test]
fn many_are_told_at_once() {
    let mut outbox = alone();
    let credit = WorkerAck {
        v: WIRE_VERSION,
        epoch: 3,
        leader: LeaderId(30),
        received: 0,
        done: 0,
        send_through: 2_000,
        staging: 0,
        results: 0,
        staged: Column::default(),
        failure: None,
        failed_op: 0,
        prepared: Column::default(),
        refused: Vec::new(),
        held: Column::default(),
    };
    handle(&mut outbox, 0, Event::WorkerAck(&credit));
    let told: usize = (0..1_024)
        .map(|_| intents(&sync(&mut outbox, MS)).len())
        .sum();
    assert_eq!(told, 1);
}

#[test]
fn all_is_told_at_once_when_it_is_not_alone_or_has_another_leader_or_ends() {
    let ended = Event::Close(bus_schemas::CloseReason::Killed);
    let (joined, other) = (notice(3, 1, false), notice(4, 1, false));
    for event in [
        Event::LeaderNotice(&joined),
        Event::LeaderNotice(&other),
        ended,
    ] {
        let mut outbox = alone();
        sync(&mut outbox, MS);
        let actions = handle(&mut outbox, MS, event);
        assert_eq!(intents(&actions).last(), Some(&(2, 1)));
    }
}

/// No wakeup is left: a task with a wakeup in the past would never rest again.
#[test]
fn what_was_gathered_goes_with_a_session_that_fails_or_ends() {
    let failure = || Failure::new(Code::Trap, "trapped");
    let gone = LeaderNotice {
        ended: Some(failure()),
        ..notice(3, 1, true)
    };
    for event in [Event::LeaderNotice(&gone), Event::Error(failure())] {
        let mut outbox = alone();
        sync(&mut outbox, MS);
        handle(&mut outbox, MS, event);
        let late = 5_000 * MS;
        handle(&mut outbox, late, Event::Tick);
        let next = outbox.next_wakeup();
        assert!(next.is_none_or(|at| at > late), "{next:?}");
    }
}

#[test]
fn what_is_said_again_goes_in_a_message_of_its_own() {
    let mut outbox = Outbox::new(OutboxSettings::new(SessionId(5), 3, LeaderId(30)));
    assert_eq!(intents(&sync(&mut outbox, 0)), [(1, 1)]);
    assert_eq!(intents(&sync(&mut outbox, 1)), [(2, 1)]);
    // No answer came: the third op, of another request, comes with the first two, which are due
    // again.
    assert_eq!(intents(&sync(&mut outbox, 100 * MS)), [(1, 2), (3, 1)]);
}
