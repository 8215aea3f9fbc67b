//! The deadline: when a session gives up on the peers that it waits for, and when it does not.

use bus_schemas::{
    CloseReason, CloseRequest, Code, Column, ContentHash, Failure, KernelKey, LeaderId,
    LeaderNotice, Op, SessionId, WIRE_VERSION, WorkerAck, decode,
};
use client_agent_core::{Action, Event, Outbox, OutboxSettings};

const MS: u64 = 1_000_000;
const DEADLINE: u64 = 30_000 * MS;

/// A session with a waiting sync, and the peers that answer it.
struct Scene {
    outbox: Outbox,
    now: u64,
    worker: bool,
    leader: bool,
    granted: u64,
    intents: usize,
    failed: Vec<Failure>,
    ended: bool,
    closes: Vec<CloseRequest>,
}

impl Scene {
    fn new() -> Self {
        let settings = OutboxSettings {
            deadline: DEADLINE,
            ..OutboxSettings::new(SessionId(5), 3, LeaderId(30))
        };
        let mut scene = Self {
            outbox: Outbox::new(settings),
            now: 7_000 * MS,
            worker: true,
            leader: true,
            granted: 0,
            intents: 0,
            failed: Vec::new(),
            ended: false,
            closes: Vec::new(),
        };
        let pushed = scene.outbox.push(&Op::Sync, 0, &[], KernelKey(0));
        assert_eq!(pushed, Ok(1));
        scene.tell(Event::Flush);
        scene
    }

    fn tell(&mut self, event: Event<'_>) {
        let mut actions = Vec::new();
        self.outbox.handle(self.now, event, &mut actions);
        for action in actions {
            match action {
                Action::PublishBatch { .. } | Action::PublishState { .. } if self.worker => {
                    self.tell(Event::WorkerAck(&WorkerAck {
                        v: WIRE_VERSION,
                        epoch: 3,
                        leader: LeaderId(30),
                        received: 1,
                        done: 0,
                        send_through: 2000,
                        staging: 0,
                        results: 0,
                        staged: Column::default(),
                        failure: None,
                        failed_op: 0,
                        prepared: Column::default(),
                        refused: Vec::new(),
                        held: Column::default(),
                    }));
                }
                Action::PublishIntent { .. } => {
                    self.intents += 1;
                    if self.leader {
                        self.notice();
                    }
                }
                Action::PublishClose { bytes } => {
                    self.closes.push(decode(&bytes).expect("a request of ours"));
                }
                Action::Failed { failure, .. } => self.failed.push(failure),
                Action::Ended => self.ended = true,
                _ => {}
            }
        }
    }

    fn notice(&mut self) {
        let granted = self.granted;
        self.tell(Event::LeaderNotice(&LeaderNotice {
            v: WIRE_VERSION,
            epoch: 3,
            leader: LeaderId(30),
            queued: 1,
            granted,
            queue_through: 2000,
            ended: None,
            alone: false,
        }));
    }

    /// Lets time pass, with a tick whenever the outbox wants one.
    fn pass(&mut self, ms: u64) {
        let end = self.now + ms * MS;
        while let Some(at) = self.outbox.next_wakeup().filter(|at| *at < end) {
            self.now = self.now.max(at);
            self.tell(Event::Tick);
        }
        self.now = end;
        self.tell(Event::Tick);
    }

    #[track_caller]
    fn fails_with(&self, code: Code) {
        let codes: Vec<_> = self.failed.iter().map(|failure| failure.code).collect();
        assert_eq!(codes, [code]);
        assert!(!self.failed[0].retryable);
        assert!(self.failed[0].detail.contains("client.deadline"));
    }
}

#[test]
fn who_answers_is_waited_for_as_long_as_it_takes() {
    let mut scene = Scene::new();
    scene.pass(3_600_000);
    assert_eq!(scene.failed, []);
    // The leader was asked occasionally if it is there, and not more often.
    assert!((100..2_000).contains(&scene.intents), "{}", scene.intents);
}

#[test]
fn a_worker_that_does_not_answer() {
    let mut scene = Scene::new();
    scene.pass(1_000);
    scene.worker = false;
    scene.pass(28_000);
    assert_eq!(scene.failed, []);
    scene.pass(3_000);
    scene.fails_with(Code::Unanswered);
}

#[test]
fn a_worker_that_does_not_answer_an_offer() {
    let mut scene = Scene::new();
    scene.worker = false;
    // The session waits for nothing else.
    scene.outbox = Outbox::new(OutboxSettings {
        deadline: DEADLINE,
        ..OutboxSettings::new(SessionId(5), 3, LeaderId(30))
    });
    let offered = scene.outbox.offer(9, &[ContentHash([7; 32])]);
    assert_eq!(offered, Ok(1));
    scene.tell(Event::Flush);
    scene.pass(29_000);
    assert_eq!(scene.failed, []);
    scene.pass(3_000);
    scene.fails_with(Code::Unanswered);
}

#[test]
fn a_leader_that_does_not_answer() {
    let mut scene = Scene::new();
    scene.pass(1_000);
    scene.leader = false;
    scene.pass(28_000);
    assert_eq!(scene.failed, []);
    scene.pass(6_000);
    scene.fails_with(Code::NoLeader);
}

#[test]
fn a_kernel_that_was_granted_needs_no_leader() {
    let mut scene = Scene::new();
    scene.granted = 1;
    scene.notice();
    scene.leader = false;
    scene.pass(300_000);
    assert_eq!(scene.failed, []);
    // Forever would be too long: the grant may have died with its leader.
    scene.pass(400_000);
    scene.fails_with(Code::NoLeader);
}

#[test]
fn a_broker_that_returns_in_time_costs_nothing() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.tell(Event::Disconnected);
        (scene.worker, scene.leader) = (false, false);
        scene.pass(29_000);
        scene.tell(Event::Reconnected);
        // Leaders and workers need time to connect, too.
        scene.pass(20_000);
        (scene.worker, scene.leader) = (true, true);
        scene.pass(1_000);
    }
    assert_eq!(scene.failed, []);
}

#[test]
fn a_broker_that_comes_and_goes_excuses_nobody() {
    let mut scene = Scene::new();
    (scene.worker, scene.leader) = (false, false);
    for round in 0.. {
        scene.tell(Event::Disconnected);
        scene.pass(2_000);
        scene.tell(Event::Reconnected);
        scene.pass(4_000);
        if !scene.failed.is_empty() {
            break;
        }
        assert!(round < 10, "it waits for ever");
    }
    scene.fails_with(Code::NoLeader);
}

#[test]
fn a_broker_that_does_not_return() {
    let mut scene = Scene::new();
    scene.tell(Event::Disconnected);
    (scene.worker, scene.leader) = (false, false);
    scene.pass(31_000);
    scene.fails_with(Code::NoBroker);
    // A peer that returns is told that the session is over.
    assert!(!scene.closes.is_empty() && !scene.ended);
    let faults = |it: &CloseRequest| it.reason == CloseReason::Fault;
    assert!(scene.closes.iter().all(faults), "{:?}", scene.closes);
    scene.pass(31_000);
    assert!(scene.ended);
    assert_eq!(scene.outbox.next_wakeup(), None);
}

#[test]
fn a_program_that_stood_still_blames_nobody() {
    let mut scene = Scene::new();
    (scene.worker, scene.leader) = (false, false);
    for _ in 0..5 {
        scene.now += 3_600_000 * MS;
        scene.tell(Event::Tick);
        assert_eq!(scene.failed, []);
    }
    (scene.worker, scene.leader) = (true, true);
    scene.pass(60_000);
    assert_eq!(scene.failed, []);
}

#[test]
fn nothing_is_counted_while_nothing_is_waited_for() {
    let mut outbox = Outbox::new(OutboxSettings {
        deadline: DEADLINE,
        ..OutboxSettings::new(SessionId(5), 3, LeaderId(30))
    });
    let mut actions = Vec::new();
    outbox.handle(1, Event::Disconnected, &mut actions);
    for second in 1..100 {
        outbox.handle(second * 1_000 * MS, Event::Tick, &mut actions);
    }
    assert_eq!(actions, []);
    assert_eq!(outbox.next_wakeup(), None);
}

#[test]
fn a_close_that_nobody_answers_ends_as_well() {
    let mut scene = Scene::new();
    (scene.worker, scene.leader) = (true, false);
    scene.tell(Event::Close(CloseReason::Killed));
    scene.pass(29_000);
    assert!(!scene.ended);
    scene.pass(3_000);
    assert!(scene.ended);
}
