//! Swapping against a model of a worker: memory on the device never exceeds it, sessions that may not leave
//! stay, and every session runs in the end.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bus_schemas::{Code, Failure, OpNumber, Place, SessionId, Tenant};
use device::Moved;
use gpu_worker_core::Pager;
use gpu_worker_core::pager::{MemoryDecision, Need, SwapAction};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const IDLE: u64 = 1_000 * MS;
const CAPACITY: u64 = 64 << 20;
const LIMIT: u64 = 3 * CAPACITY;
const MIB: u64 = 1 << 20;

fn tenant(id: u64) -> Tenant {
    format!("t{id}").parse().unwrap()
}

/// A session as a worker sees it.
#[derive(Debug, Default)]
struct Session {
    priority: u8,
    pinned: bool,
    /// Started slices: the op of each, and the bytes that it allocates.
    slices: VecDeque<(OpNumber, u64)>,
    /// True if the first of them is on the device.
    runs: bool,
    /// True if it is to leave, or has left: nothing more goes to the device.
    away: bool,
    /// True if a slice waits for its memory, and this was reported.
    wanted: bool,
    /// True if its slice asks for memory again after the next answer.
    deferred: bool,
    /// True if it is to be swapped out once nothing of it runs.
    leaves: bool,
    next: OpNumber,
    held: u64,
    /// Bytes that it holds once its slices have run.
    will_hold: u64,
}

/// A worker with a pager.
struct World {
    pager: Pager,
    now: u64,
    sessions: BTreeMap<u64, Session>,
    /// Moves in progress: the session, and true for a swap-out.
    moves: Vec<(u64, bool)>,
    outs: Vec<u64>,
    ins: usize,
}

impl World {
    fn new(priorities: &[(u8, bool)]) -> Self {
        let mut pager = Pager::new(CAPACITY).with_swap(LIMIT, IDLE);
        let mut sessions = BTreeMap::new();
        for (id, (priority, pinned)) in (1..).zip(priorities) {
            pager.open(0, SessionId(id), &tenant(id), 0);
            pager.set_priority(SessionId(id), *priority);
            if *pinned {
                pager.pin(SessionId(id));
            }
            let session = Session {
                priority: *priority,
                pinned: *pinned,
                next: 1,
                ..Session::default()
            };
            sessions.insert(id, session);
        }
        Self {
            pager,
            now: MS,
            sessions,
            moves: Vec::new(),
            outs: Vec::new(),
            ins: 0,
        }
    }

    /// Starts a slice of a session that allocates this much, as far as the session may hold it.
    fn start(&mut self, id: u64, bytes: u64) {
        let session = self.sessions.get_mut(&id).unwrap();
        let bytes = if session.will_hold + bytes > CAPACITY {
            0
        } else {
            bytes
        };
        session.will_hold += bytes;
        session.slices.push_back((session.next, bytes));
        session.next += 1;
        self.work();
    }

    /// Does the work of a worker after each change.
    fn work(&mut self) {
        let ids: Vec<u64> = self.sessions.keys().copied().collect();
        for id in ids {
            self.submit(id);
        }
        self.swap();
    }

    fn submit(&mut self, id: u64) {
        let now = self.now;
        let session = self.sessions.get_mut(&id).unwrap();
        let waits = session.runs || session.deferred;
        let next = session.slices.front_mut().filter(|_| !waits);
        let Some((op, bytes)) = next else { return };
        if session.away {
            let left = !session.leaves && !self.moves.contains(&(id, true));
            if left && !std::mem::replace(&mut session.wanted, true) {
                self.pager.want(now, SessionId(id), session.priority);
            }
            return;
        }
        if *bytes > 0 {
            let need = Need::Alloc {
                op: *op,
                address: *op * CAPACITY,
                bytes: *bytes,
            };
            match self.pager.admit(*op, SessionId(id), &[need]) {
                MemoryDecision::Wait => panic!("nothing runs that frees"),
                MemoryDecision::Later => return session.deferred = true,
                MemoryDecision::Fits => {}
                MemoryDecision::Refused(..) => {
                    session.will_hold -= *bytes;
                    *bytes = 0;
                }
            }
        }
        session.runs = true;
    }

    fn swap(&mut self) {
        let mut actions = Vec::new();
        self.pager.swap(self.now, &mut actions);
        for action in actions {
            match action {
                SwapAction::Out { session, busy_too } => self.leave(session.0, busy_too),
                SwapAction::In { session } => {
                    assert!(!self.moves.iter().any(|(id, _)| *id == session.0));
                    self.moves.push((session.0, false));
                }
                SwapAction::Returned { session } => {
                    let session = self.sessions.get_mut(&session.0).unwrap();
                    (session.away, session.wanted) = (false, false);
                    session.deferred = false;
                }
            }
        }
    }

    fn leave(&mut self, id: u64, busy_too: bool) {
        let session = self.sessions.get_mut(&id).unwrap();
        assert!(
            !session.pinned || self.pager_pinned_more_than_fit(),
            "pinned"
        );
        let session = self.sessions.get_mut(&id).unwrap();
        if !session.slices.is_empty() && !busy_too {
            return self.pager.kept(self.now, SessionId(id));
        }
        assert!(!session.away, "it is there");
        session.away = true;
        self.outs.push(id);
        session.deferred = false;
        if session.runs {
            session.leaves = true;
        } else {
            self.moves.push((id, true));
        }
    }

    fn pager_pinned_more_than_fit(&self) -> bool {
        let pinned = self.sessions.values().filter(|it| it.pinned);
        pinned.map(|it| it.will_hold).sum::<u64>() > CAPACITY / 2
    }

    fn complete(&mut self, id: u64) {
        let session = self.sessions.get_mut(&id).unwrap();
        if !std::mem::take(&mut session.runs) {
            return;
        }
        let (op, bytes) = session.slices.pop_front().unwrap();
        session.held += bytes;
        let held = session.held;
        self.pager
            .completed(self.now, (op, op), SessionId(id), held, false);
        if std::mem::take(&mut session.leaves) {
            self.moves.push((id, true));
        }
        self.work();
    }

    fn end_move(&mut self, which: usize, failed: bool) {
        if self.moves.is_empty() {
            return;
        }
        let (id, out) = self.moves.remove(which % self.moves.len());
        let ended = Moved {
            session: SessionId(id),
            out,
            bytes: self.sessions[&id].held,
            took: Duration::from_millis(10),
            resident: 0,
            failure: failed.then(|| Failure::new(Code::Device, "no room")),
        };
        self.ins += usize::from(!out && !failed);
        self.pager.moved(self.now, &ended);
        if out && failed {
            // Its memory is where it was: slices need not wait.
            let session = self.sessions.get_mut(&id).unwrap();
            (session.away, session.wanted) = (false, false);
        }
        self.work();
    }

    fn on_device(&self) -> u64 {
        let there = self
            .sessions
            .iter()
            .filter(|(id, _)| self.pager.place_of(SessionId(**id)) != Place::Out);
        there.map(|(_, session)| session.held).sum()
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Start(id, mib) => self.start(id, mib * MIB),
            Step::Complete(id) => self.complete(id),
            Step::EndMove(which, failed) => self.end_move(which, failed),
            Step::Pass(ms) => {
                self.now += ms * MS;
                self.work();
            }
        }
        assert!(self.on_device() <= CAPACITY, "more than there is");
    }

    /// Lets everything go on that can.
    fn finish(&mut self) {
        for _ in 0..2_000 {
            self.now += 50 * MS;
            self.work();
            self.end_move(0, false);
            for id in 1..=self.sessions.len() as u64 {
                self.complete(id);
            }
            assert!(self.on_device() <= CAPACITY);
            if self.sessions.values().all(|it| it.slices.is_empty()) {
                return;
            }
        }
        panic!("somebody waits for ever: {:?}", self.sessions);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Start(u64, u64),
    Complete(u64),
    EndMove(usize, bool),
    Pass(u64),
}

fn steps(sessions: u64) -> impl Strategy<Value = Vec<Step>> {
    let id = 1..=sessions;
    let step = prop_oneof![
        6 => (id.clone(), prop_oneof![Just(0), 1..40_u64]).prop_map(|(id, mib)| Step::Start(id, mib)),
        8 => id.prop_map(Step::Complete),
        4 => (0..4_usize, prop::bool::weighted(0.1)).prop_map(|(at, failed)| Step::EndMove(at, failed)),
        3 => (1..1_500_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}

#[test]
fn room_that_a_slice_took_by_itself_is_kept_for_it_no_longer() {
    let mut world = World::new(&[1, 4, 1, 1, 2].map(|priority| (priority, false)));
    let start = |id, mib| Step::Start(id, mib);
    let before = [
        start(2, 1),
        start(5, 22),
        start(3, 29),
        start(3, 7),
        start(2, 6),
    ];
    let between = [
        Step::Complete(3),
        start(4, 26),
        Step::Complete(2),
        start(4, 26),
    ];
    let after = [
        start(3, 2),
        Step::Complete(3),
        Step::Pass(200),
        Step::Complete(5),
    ];
    for step in before.iter().chain(&between).chain(&after) {
        world.step(step);
    }
    // Two sessions leave for session 4. The move of session 2 fails, while a slice of it waits for room too.
    world.step(&Step::EndMove(1, false));
    world.step(&Step::EndMove(0, true));
    world.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn everybody_runs_and_nothing_is_on_the_device_that_does_not_fit(
        priorities in prop::collection::vec(1..5_u8, 5),
        pins in any::<bool>(),
        steps in steps(5),
    ) {
        let mut sessions: Vec<_> = priorities.into_iter().map(|it| (it, false)).collect();
        sessions[0].1 = pins;
        let mut world = World::new(&sessions);
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }

    #[test]
    fn priority_0_leaves_for_nothing_else(
        others in prop::collection::vec(1..5_u8, 3),
        steps in steps(4),
    ) {
        let mut sessions = vec![(0, false)];
        sessions.extend(others.into_iter().map(|it| (it, false)));
        let mut world = World::new(&sessions);
        for step in &steps {
            world.step(step);
            prop_assert!(!world.outs.contains(&1), "it left");
        }
    }
}

/// A world in which these sessions hold this many MiB and nothing runs.
fn holding(sessions: &[(u8, u64)]) -> World {
    let of: Vec<_> = sessions
        .iter()
        .map(|(priority, _)| (*priority, false))
        .collect();
    let mut world = World::new(&of);
    for (id, (_, mib)) in (1..).zip(sessions) {
        world.now += MS;
        world.start(id, mib * MIB);
        settle(&mut world);
    }
    world
}

/// Ends the moves in progress, until there are none.
fn settle(world: &mut World) {
    for _ in 0..100 {
        world.now += MS;
        world.end_move(0, false);
        for id in 1..=world.sessions.len() as u64 {
            world.complete(id);
        }
        world.work();
    }
}

#[test]
fn idle_sessions_leave_the_least_urgent_first_then_the_longest_idle() {
    let mut world = holding(&[(2, 16), (3, 16), (2, 16), (1, 16)]);
    assert_eq!(world.outs, []);
    // The third has run something lately; the others are idle.
    world.now += 2 * IDLE;
    world.start(3, 0);
    world.complete(3);
    world.start(3, 0);
    world.start(4, 20 * MIB);
    assert_eq!(world.outs, [2, 1]);
    settle(&mut world);
    world.now += 2 * IDLE;
    world.start(2, 0);
    settle(&mut world);
    assert_eq!(world.outs, [2, 1, 3], "one leaves for the one that returns");
}

#[test]
fn a_session_that_works_is_left_alone_for_a_while_and_then_leaves_too() {
    let mut world = holding(&[(2, 40), (2, 20)]);
    world.now += 2 * IDLE;
    world.start(1, 0);
    world.start(2, 40 * MIB);
    assert!(world.outs.is_empty(), "the first has something to run");
    let mut waited = 0;
    while world.outs.is_empty() {
        // The session always has room.
        world.start(1, 0);
        world.complete(1);
        (world.now, waited) = (world.now + 5 * MS, waited + 5);
        world.work();
        assert!(waited < 1_000);
    }
    assert!(waited >= 200);
    settle(&mut world);
    world.finish();
}

#[test]
fn without_overcommit_nobody_leaves_and_whoever_is_wanted_is_there() {
    let mut pager = Pager::new(CAPACITY);
    pager.open(0, SessionId(1), &tenant(1), 0);
    pager.want(0, SessionId(1), 2);
    let mut actions = Vec::new();
    pager.swap(0, &mut actions);
    let session = SessionId(1);
    assert_eq!(actions, [SwapAction::Returned { session }]);
    assert_eq!(pager.residency_report(), None);
}

#[test]
fn leaders_are_told_where_memory_is_only_where_it_does_not_fit() {
    let mut world = holding(&[(2, 40), (2, 20)]);
    let told = world.pager.residency_report().expect("it is overcommitted");
    assert_eq!((told.limit, told.sessions.len()), (LIMIT, 0));
    world.now += 2 * IDLE;
    world.start(2, 20 * MIB);
    settle(&mut world);
    let told = world.pager.residency_report().expect("it is overcommitted");
    let rows = told
        .sessions
        .iter()
        .map(|row| (row.session.0, row.bytes / MIB, row.place));
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [(1, 40, Place::Out), (2, 40, Place::Resident)]
    );
}

#[test]
fn no_session_holds_more_than_the_device_nor_all_more_than_the_limit() {
    let mut pager = Pager::new(CAPACITY).with_swap(LIMIT, IDLE);
    for id in 1..=4 {
        pager.open(0, SessionId(id), &tenant(id), 0);
    }
    let alloc = |bytes| {
        [Need::Alloc {
            op: 1,
            address: 0,
            bytes,
        }]
    };
    let refused = pager.admit(1, SessionId(1), &alloc(CAPACITY + 1));
    assert!(
        matches!(refused, MemoryDecision::Refused(1, _)),
        "{refused:?}"
    );
    pager.close(0, SessionId(1));
    let total = pager.memory(SessionId(2), 0).unwrap();
    assert_eq!((total.total, total.free), (CAPACITY, CAPACITY));
    assert_eq!(pager.tenant_memory(&tenant(2)).unwrap().free, LIMIT);
    assert_eq!(pager.device_memory().free, LIMIT);
}
