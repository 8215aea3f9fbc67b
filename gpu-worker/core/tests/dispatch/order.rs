//! Random events against a naive model: the order in which slices go and are asked about, and that each goes
//! once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Code, Op, OpNumber, SessionId};
use gpu_worker_core::dispatch::{ClaimAnswer, Event, ImageState, TransferState};
use proptest::prelude::*;

use crate::shell::{Did, Shell, Todo, did, fails, failure, image, launch, load, slice, staged};
use crate::steps::{IMAGES, SESSIONS, Step, What, steps};

const BYTES: u64 = 64;

/// A started slice that was not submitted.
struct Waiting {
    session: u64,
    first: OpNumber,
    ops: Vec<Op>,
    answered: bool,
    /// True if the pager is to be asked again after the memory's return.
    deferred: bool,
}

/// A session with its memory away: whether the device was told, and whether the wait of a slice was reported.
#[derive(Default)]
struct Away {
    out: bool,
    wanted: bool,
}

/// The result that a scan of a slice would have.
#[derive(PartialEq)]
enum Look {
    NotReady,
    /// True if the slice needs memory, and the filled slots behind it.
    Ready(bool, BTreeSet<u32>),
}

/// The shell, and its expected state, kept in the plainest way.
struct World {
    shell: Shell,
    waiting: Vec<Waiting>,
    slots: BTreeMap<u64, BTreeSet<u32>>,
    stopped: BTreeSet<u64>,
    /// Slices that the device has and has not completed.
    on_device: BTreeMap<u64, usize>,
    away: BTreeMap<u64, Away>,
    open: Option<(u64, OpNumber)>,
    next: BTreeMap<u64, OpNumber>,
    coming: BTreeMap<u64, Vec<u64>>,
    transfers: u64,
    /// Numbers of slices started, submitted, and dropped with their sessions.
    counts: [usize; 3],
    all: Vec<Todo>,
}

impl World {
    fn new() -> Self {
        let mut shell = Shell::new(1..=SESSIONS);
        for (session, name) in (1..=SESSIONS).flat_map(|s| (0..IMAGES).map(move |i| (s, i))) {
            shell.image(session, name, ImageState::Preparing);
        }
        Self {
            shell,
            waiting: Vec::new(),
            slots: BTreeMap::new(),
            stopped: BTreeSet::new(),
            on_device: BTreeMap::new(),
            away: BTreeMap::new(),
            open: None,
            next: BTreeMap::new(),
            coming: BTreeMap::new(),
            transfers: 0,
            counts: [0; 3],
            all: Vec::new(),
        }
    }

    fn lives(&self, session: u64) -> bool {
        self.shell.sessions.contains_key(&SessionId(session))
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each step")]
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Start(session, ref whats) => self.start(session, whats),
            Step::Prepared(session, name, ready) if self.lives(session) => {
                let before = self.shell.session(session).images[&image(name)].clone();
                let state = match before {
                    ImageState::Preparing if ready => ImageState::Ready(image(name)),
                    ImageState::Preparing => ImageState::Refused(failure(Code::NoBinary)),
                    settled => settled,
                };
                self.shell.image(session, name, state);
                self.tell(Event::Changed);
            }
            Step::Whole(session) if self.lives(session) => {
                let coming = self.coming.entry(session).or_default();
                if !coming.is_empty() {
                    let (transfer, whole) = (coming.remove(0), TransferState::Whole(BYTES));
                    let have = self.shell.session(session);
                    have.transfers.insert(transfer, whole);
                }
                self.tell(Event::Changed);
            }
            Step::Answer(refused) => {
                if let Some((session, first)) = self.open {
                    self.answer((session, first), refused.then_some(first));
                }
            }
            Step::Later => {
                if let Some(of) = self.open.take() {
                    let mut waiting = self.waiting.iter_mut();
                    let slice = waiting.find(|slice| (slice.session, slice.first) == of);
                    slice.expect("it waits").deferred = true;
                    self.tell(Event::Admitted(ClaimAnswer {
                        session: SessionId(of.0),
                        first: of.1,
                        refused: None,
                        launch_bytes: Vec::new(),
                        later: true,
                    }));
                }
            }
            Step::Stop(session) if self.lives(session) => {
                self.stopped.insert(session);
                self.forget_question(session);
                let (session, why) = (SessionId(session), failure(Code::SessionGone));
                self.tell(Event::Stopped { session, why });
            }
            Step::StopAsked => {
                if let Some((session, _)) = self.open {
                    self.step(&Step::Stop(session));
                }
            }
            Step::Gone(session) if self.lives(session) => {
                self.shell.sessions.remove(&SessionId(session));
                let before = self.waiting.len();
                self.waiting.retain(|slice| slice.session != session);
                self.counts[2] += before - self.waiting.len();
                self.away.remove(&session);
                self.forget_question(session);
                let session = SessionId(session);
                self.tell(Event::Gone { session });
            }
            Step::Leave(session) if self.lives(session) => self.leave(session),
            Step::Complete(session) => {
                let slices = self.on_device.entry(session).or_default();
                if *slices > 0 {
                    *slices -= 1;
                    let session = SessionId(session);
                    self.tell(Event::Completed { session });
                }
            }
            Step::Return(session) => self.returns(session),
            _ => {}
        }
    }

    fn leave(&mut self, session: u64) {
        let Entry::Vacant(away) = self.away.entry(session) else {
            return;
        };
        away.insert(Away::default());
        self.forget_question(session);
        self.look_again(session);
        let waiting = self.waiting.iter().filter(|it| it.session == session);
        let running = waiting.count() + self.on_device.get(&session).unwrap_or(&0);
        let session = SessionId(session);
        self.tell(Event::Leave { session, running });
    }

    /// The session's memory is on the device, or was all the time.
    fn returns(&mut self, session: u64) {
        if self.away.get(&session).is_some_and(|away| !away.out) {
            return;
        }
        self.away.remove(&session);
        self.look_again(session);
        let session = SessionId(session);
        self.tell(Event::Returned { session });
    }

    /// The worker withdraws the question of a session that leaves or ends.
    fn forget_question(&mut self, session: u64) {
        self.open.take_if(|(of, _)| *of == session);
    }

    fn look_again(&mut self, session: u64) {
        let own = self.waiting.iter_mut().filter(|it| it.session == session);
        own.for_each(|slice| slice.deferred = false);
    }

    fn start(&mut self, session: u64, whats: &[What]) {
        let mut ops = Vec::new();
        for what in whats {
            ops.push(match *what {
                What::Sync => Op::Sync,
                What::Alloc => Op::Alloc {
                    address: 0,
                    bytes: 1,
                },
                What::Free => Op::Free { address: 0 },
                What::Launch(slot) => launch(slot, 0),
                What::Load(slot, name) => load(slot, name),
                What::Staged => {
                    self.transfers += 1;
                    let (transfer, coming) = (self.transfers, TransferState::Coming);
                    if self.lives(session) {
                        let have = self.shell.session(session);
                        have.transfers.insert(transfer, coming);
                    }
                    self.coming.entry(session).or_default().push(transfer);
                    staged(transfer, BYTES)
                }
            });
        }
        let next = self.next.entry(session).or_insert(1);
        let first = *next;
        *next += ops.len() as u64;
        self.counts[0] += 1;
        if self.lives(session) {
            self.waiting.push(Waiting {
                session,
                first,
                ops: ops.clone(),
                answered: false,
                deferred: false,
            });
        } else {
            self.counts[2] += 1;
        }
        self.tell(Event::Started(slice(session, first, &ops), ops));
    }

    fn answer(&mut self, of: (u64, OpNumber), refused: Option<OpNumber>) {
        if self.open == Some(of) {
            self.open = None;
            let mut waiting = self.waiting.iter_mut();
            let slice = waiting.find(|slice| (slice.session, slice.first) == of);
            slice
                .expect("the question is of a slice that waits")
                .answered = true;
        }
        self.tell(Event::Admitted(ClaimAnswer {
            session: SessionId(of.0),
            first: of.1,
            refused: refused.map(|op| (op, failure(Code::Quota))),
            launch_bytes: Vec::new(),
            later: false,
        }));
    }

    fn look(&self, slice: &Waiting) -> Look {
        let have = &self.shell.sessions[&SessionId(slice.session)];
        let mut slots = self.slots.get(&slice.session).cloned().unwrap_or_default();
        let mut needs = false;
        for op in &slice.ops {
            match *op {
                Op::Alloc { .. } | Op::Free { .. } => needs = true,
                Op::CopyIn { transfer, .. }
                    if have.transfers[&transfer] == TransferState::Coming =>
                {
                    return Look::NotReady;
                }
                Op::Launch(launch) if !slots.contains(&launch.module) => break,
                Op::LoadModule { slot, hash } => match have.images[&hash] {
                    ImageState::Preparing => return Look::NotReady,
                    ImageState::Ready(_) => drop(slots.insert(slot)),
                    _ => break,
                },
                _ => {}
            }
        }
        Look::Ready(needs, slots)
    }

    /// The sessions' oldest slices, the oldest first.
    fn foremost(&self) -> Vec<&Waiting> {
        let mut seen = BTreeSet::new();
        let waiting = self.waiting.iter();
        waiting.filter(|it| seen.insert(it.session)).collect()
    }

    /// True if the slice would be asked about if no question were open.
    fn wants_memory(&self, slice: &Waiting) -> bool {
        let there = !self.away.contains_key(&slice.session);
        there
            && !slice.answered
            && !slice.deferred
            && matches!(self.look(slice), Look::Ready(true, _))
    }

    fn tell(&mut self, event: Event<Vec<Op>>) {
        // One by one: the shell carries out each action before the next.
        self.shell.dispatch.handle(event);
        loop {
            let sessions = &self.shell.sessions;
            let action = self.shell.dispatch.next_action(|id| sessions.get(&id));
            let Some(action) = action else { break };
            self.check(&action);
            self.all.push(action);
        }
        self.settled();
    }

    fn check(&mut self, action: &Todo) {
        match did(std::slice::from_ref(action))[..] {
            [Did::Asks(session, first)] => {
                assert_eq!(self.open, None, "one question at a time");
                let foremost = self.foremost();
                let oldest = foremost.iter().find(|it| self.wants_memory(it));
                let oldest = oldest.map(|it| (it.session, it.first));
                assert_eq!(oldest, Some((session, first)), "the oldest first");
                self.open = Some((session, first));
            }
            [Did::Submits(session, first)] => {
                let next = self.waiting.iter().position(|it| it.session == session);
                let slice = self.waiting.remove(next.expect("handed on once"));
                assert_eq!(slice.first, first, "in a session's order");
                self.counts[1] += 1;
                // The device does not run a failing slice of a session with its memory elsewhere.
                let out = self.away.get(&session).is_some_and(|away| away.out);
                *self.on_device.entry(session).or_default() += usize::from(!out);
                if let Todo::Submit(submission) = action {
                    self.submitted(&slice, submission);
                }
            }
            [Did::SwapsOut(session)] => {
                let away = self.away.get_mut(&session).expect("it is to leave");
                assert!(!std::mem::replace(&mut away.out, true), "once");
                assert_eq!(self.on_device.get(&session).unwrap_or(&0), &0);
            }
            [Did::Wants(session)] => {
                let away = self.away.get_mut(&session).expect("it is away");
                assert!(away.out && !std::mem::replace(&mut away.wanted, true));
                assert!(self.waiting.iter().any(|it| it.session == session));
            }
            _ => unreachable!("one action"),
        }
    }

    fn submitted(
        &mut self,
        slice: &Waiting,
        submission: &gpu_worker_core::dispatch::Submission<Vec<Op>>,
    ) {
        assert_eq!(submission.ops, slice.ops);
        if self.stopped.contains(&slice.session) {
            let gone = Some((slice.first, Code::SessionGone));
            assert_eq!(fails(submission), gone, "it waits for nothing");
            return;
        }
        let away = self.away.contains_key(&slice.session);
        assert!(!away, "handed on while its memory is elsewhere");
        let Look::Ready(needs, slots) = self.look(slice) else {
            panic!("handed on before it was ready");
        };
        assert!(!needs || slice.answered, "handed on without its memory");
        self.slots.insert(slice.session, slots);
    }

    /// Checks after all actions that each slice waits for something of its own, or for the pager.
    fn settled(&self) {
        for slice in self.foremost() {
            assert!(!self.stopped.contains(&slice.session), "stopped and waits");
            let waits = match self.look(slice) {
                _ if self.away.contains_key(&slice.session) || slice.deferred => true,
                Look::NotReady => true,
                Look::Ready(needs, _) => needs && !slice.answered && self.open.is_some(),
            };
            assert!(waits, "{} waits for nothing", slice.session);
        }
        for (session, away) in &self.away {
            let has_none = self.on_device.get(session).unwrap_or(&0) == &0;
            assert_eq!(away.out, has_none, "it leaves once nothing of it runs");
            let mut waiting = self.waiting.iter();
            let waits = waiting.any(|it| it.session == *session);
            assert_eq!(away.wanted, away.out && (waits || away.wanted));
        }
        let dispatch = &self.shell.dispatch;
        assert_eq!(dispatch.has_away(), !self.away.is_empty());
        assert_eq!(
            dispatch.waiting(),
            self.waiting.len(),
            "nothing else is kept"
        );
        let live = self.shell.sessions.len();
        assert!(
            dispatch.sessions() <= live,
            "sessions that are gone are kept"
        );
        let [started, submitted, dropped] = self.counts;
        assert_eq!(started, submitted + dropped + self.waiting.len());
    }

    /// Makes everything ready and answers every question.
    fn finish(&mut self) {
        for session in 1..=SESSIONS {
            while self
                .on_device
                .get(&session)
                .is_some_and(|slices| *slices > 0)
            {
                self.step(&Step::Complete(session));
            }
            self.step(&Step::Return(session));
            for name in 0..IMAGES {
                self.step(&Step::Prepared(session, name, true));
            }
            for _ in 0..self.coming.get(&session).map_or(0, Vec::len) {
                self.step(&Step::Whole(session));
            }
        }
        while self.open.is_some() {
            self.step(&Step::Answer(false));
        }
        assert!(self.waiting.is_empty(), "everything goes in the end");
    }
}

fn run(steps: &[Step]) -> Vec<Todo> {
    let mut world = World::new();
    for step in steps {
        world.step(step);
    }
    world.finish();
    world.all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn everybody_goes_once_in_order_and_waits_for_nobody_else(steps in steps()) {
        let all = run(&steps);
        prop_assert!(all == run(&steps), "equal events, equal actions");
    }
}

#[test]
fn the_steps_come_to_everything_there_is() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let (mut runner, mut seen) = (TestRunner::deterministic(), [0_usize; 6]);
    for _ in 0..100 {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        for action in run(&steps) {
            match &action {
                Todo::Ask(_) => seen[0] += 1,
                Todo::Submit(it) if it.fail_at.is_some() => seen[1] += 1,
                Todo::Submit(it) if !it.copies.is_empty() => seen[2] += 1,
                Todo::Submit(it) => seen[3] += usize::from(!it.loaded.is_empty()),
                Todo::SwapOut { .. } => seen[4] += 1,
                Todo::Want { .. } => seen[5] += 1,
            }
        }
    }
    assert!(seen.iter().all(|seen| *seen > 10), "{seen:?}");
}
