//! A device with swapped memory, its programs, and the shipped scheduler, in virtual time.
//!
//! The worker runs one slice at a time, in the order of its grants, without those of sessions that
//! are out. For a return it swaps out sessions without work to run: the lowest priority first,
//! within it the longest idle. One session moves at a time, at the device's pace; a moving session
//! runs nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bus_schemas::{
    Chain, CloseReason, CostRun, DoneReport, Grant, GrantKind, Incarnation, LeaderId, Outcome,
    Place, SealAnswer, SessionId, SessionResidency, WIRE_VERSION,
};
use scheduler_leader_core::{Effect, Input, Rows, Scheduler, TICK_NS};

use super::program::{Machine, Outcomes, Program};
use crate::model::{COSTS, launches, takeover, tenant};

pub(crate) const MIB: u64 = 1 << 20;
const WORKER: Incarnation = Incarnation(100);
/// Time between two heartbeats.
const BEAT: u64 = 100_000_000;
/// Time at which the programs that are opened together begin.
const START: u64 = BEAT;

#[derive(Debug)]
enum Event {
    Input(Input),
    Grant(u64, Grant),
    SliceEnds,
    MoveEnds,
    Begin(usize),
    Tick,
    Beat,
}

struct Running {
    program: Program,
    session: SessionId,
    place: Place,
    /// Batches submitted, and unfinished launches of these.
    batch: usize,
    left: u32,
    submitted: u64,
    /// Accepted and not done.
    accepted: u32,
    idle_since: u64,
    /// Time since which it has work and waits for its memory.
    needs: Option<u64>,
    closed: bool,
}

pub(crate) struct Device {
    machine: Machine,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    scheduler: Scheduler,
    programs: Vec<Running>,
    queue: VecDeque<(u64, Grant)>,
    running: Option<(u64, Grant)>,
    /// Received returns, in order, and the session that moves now.
    returns: VecDeque<(u64, Grant)>,
    moving: Option<usize>,
    tick_at: Option<u64>,
    /// The last report of memory, with the number of its heartbeat and of the returns before it.
    told: Option<(Vec<SessionResidency>, u64)>,
    beats: u64,
    returned: u64,
    outcomes: Outcomes,
}

/// Runs programs to their ends. All are opened together, and as many as fit are in memory.
pub(crate) fn run(machine: &Machine, programs: &[Program]) -> Outcomes {
    let mut device = Device {
        machine: machine.clone(),
        now: 0,
        events: BTreeMap::new(),
        numbers: 0,
        scheduler: Scheduler::new(),
        programs: Vec::new(),
        queue: VecDeque::new(),
        running: None,
        returns: VecDeque::new(),
        moving: None,
        tick_at: None,
        told: None,
        beats: 0,
        returned: 0,
        outcomes: Outcomes {
            through: vec![0; programs.len()],
            waited: vec![0; programs.len()],
            ..Outcomes::default()
        },
    };
    device.open(programs);
    device.go();
    device.outcomes
}

impl Device {
    fn open(&mut self, programs: &[Program]) {
        let machine = self.machine.clone();
        self.apply(takeover(1, machine.settings, &machine.tenants, Vec::new()));
        let answer = Box::new(SealAnswer {
            v: WIRE_VERSION,
            epoch: 1,
            leader: LeaderId(1),
            gpu: 0,
            capacity: machine.mib * MIB,
            position: 0,
            chain: Chain::default(),
            global: 0,
            reports: 0,
            sessions: Vec::new(),
            outstanding: Vec::new(),
            tail_epoch: 0,
            tail_recorded: 0,
            tail: Vec::new(),
            ordinals: Vec::new(),
            faults: Vec::new(),
            named: Vec::new(),
            forgotten: None,
        });
        self.apply(Input::WorkerSealed {
            incarnation: WORKER,
            answer,
        });
        let mut free = machine.mib;
        for (index, program) in programs.iter().enumerate() {
            let effects = self.apply(Input::SessionOpen {
                tenant: tenant(program.tenant),
                nonce: index as u64,
                devices: 1,
                wide: true,
            });
            let opened = effects.iter().find_map(|effect| match effect {
                Effect::Opened { placed, .. } => Some(placed.session),
                _ => None,
            });
            let fits = program.mib <= free;
            free -= if fits { program.mib } else { 0 };
            self.programs.push(Running {
                program: program.clone(),
                session: opened.expect("a session"),
                place: if fits { Place::Resident } else { Place::Out },
                batch: 0,
                left: 0,
                submitted: 0,
                accepted: 0,
                idle_since: 0,
                needs: None,
                closed: false,
            });
            let (think, _) = program.batches[0];
            self.at(START + think, Event::Begin(index));
        }
        self.at(self.machine.latency, Event::Beat);
    }

    fn at(&mut self, when: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((when, self.numbers), event);
    }

    fn tell(&mut self, input: Input) {
        self.at(self.now + self.machine.latency, Event::Input(input));
    }

    fn go(&mut self) {
        while let Some(((now, _), event)) = self.events.pop_first() {
            self.now = now;
            assert!(now < 1 << 43, "it never ends: {:?}", self.outcomes);
            match event {
                Event::Input(input) => drop(self.apply(input)),
                Event::Grant(position, grant) => self.granted(position, grant),
                Event::SliceEnds => self.slice_ends(),
                Event::MoveEnds => self.move_ends(),
                Event::Begin(index) => self.begin(index),
                Event::Tick => self.tick(),
                Event::Beat => self.beat(),
            }
            self.work();
            if self.programs.iter().all(Running::is_through) {
                return;
            }
        }
        panic!("it stands still: {:?}", self.outcomes);
    }

    /// Applies an input to the scheduler; its grants are on their way.
    fn apply(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.scheduler.apply(&input, &mut effects);
        for effect in &effects {
            if let Effect::Grant {
                position, grant, ..
            } = effect
            {
                let event = Event::Grant(*position, *grant);
                self.at(self.now + self.machine.latency, event);
            }
        }
        let ticks = !effects.is_empty() || self.scheduler.awaits_tick();
        if self.tick_at.is_none() && ticks {
            self.tick_at = Some(self.now + TICK_NS);
            self.at(self.now + TICK_NS, Event::Tick);
        }
        effects
    }

    fn tick(&mut self) {
        let scheduler = &self.scheduler;
        if scheduler.is_busy() || scheduler.awaits_tick() || scheduler.has_recent() {
            self.tick_at = Some(self.now + TICK_NS);
            self.at(self.now + TICK_NS, Event::Tick);
            self.apply(Input::Tick);
        } else {
            self.tick_at = None;
        }
    }

    /// A heartbeat: reports the place of memory, if that is news.
    fn beat(&mut self) {
        self.at(self.now + BEAT, Event::Beat);
        let live = self.programs.iter().filter(|it| !it.closed);
        let held: u64 = live.clone().map(|it| it.program.mib).sum();
        let rows = live
            .filter(|_| held > self.machine.mib)
            .map(|it| SessionResidency {
                session: it.session,
                bytes: it.program.mib * MIB,
                place: it.place,
                pinned: false,
            });
        // On change, and with every tenth heartbeat; the leader takes in news only, as a term does.
        let told = (rows.collect::<Vec<_>>(), self.returned);
        self.beats += 1;
        let before = self.told.as_ref();
        let changed = before.is_none_or(|before| before.0 != told.0);
        let again = self.beats.is_multiple_of(10) && before != Some(&told);
        if changed || again {
            let rows = told.0.clone();
            self.told = Some(told);
            self.tell(Input::Residency {
                incarnation: WORKER,
                limit: 1 << 50,
                ns_per_mib: self.machine.ns_per_mib,
                sessions: Rows(rows),
            });
        }
    }

    /// A program submits its next batch.
    fn begin(&mut self, index: usize) {
        let it = &mut self.programs[index];
        let (_, count) = it.program.batches[it.batch];
        it.left = count;
        it.batch += 1;
        let (session, first) = (it.session, it.submitted + 1);
        it.submitted += u64::from(count);
        if it.place != Place::Resident {
            it.needs.get_or_insert(self.now);
        }
        let runs = Rows(vec![CostRun {
            ..launches(it.program.kernel, count)
        }]);
        self.tell(Input::Intent {
            session,
            first,
            runs,
        });
    }

    fn of(&self, session: SessionId) -> usize {
        let mut sessions = self.programs.iter();
        sessions.position(|it| it.session == session).unwrap()
    }

    fn granted(&mut self, position: u64, grant: Grant) {
        let index = self.of(grant.session);
        match grant.kind {
            GrantKind::Run => {
                let it = &mut self.programs[index];
                it.accepted += 1;
                self.outcomes.strays += u64::from(it.place == Place::Out);
                self.queue.push_back((position, grant));
            }
            GrantKind::Return => self.returns.push_back((position, grant)),
            GrantKind::Close => {
                self.programs[index].closed = true;
                self.done(position, &grant, 0);
            }
            GrantKind::Open => self.done(position, &grant, 0),
            other => panic!("{other:?} is not for this device"),
        }
    }

    fn done(&mut self, position: u64, grant: &Grant, measured: u64) {
        self.tell(Input::Done {
            incarnation: WORKER,
            reports: Rows(vec![DoneReport {
                position,
                session: grant.session,
                measured,
                received: u64::MAX >> 2,
                outcome: Outcome::Ran,
                declared: 0,
            }]),
        });
    }

    /// Starts the work that can start.
    fn work(&mut self) {
        if self.running.is_none() {
            let mut behind = BTreeSet::new();
            let next = self.queue.iter().position(|(_, grant)| {
                let there = self.programs[self.of(grant.session)].place == Place::Resident;
                behind.insert(grant.session) && there
            });
            if let Some((position, grant)) = next.and_then(|at| self.queue.remove(at)) {
                self.running = Some((position, grant));
                self.at(self.now + self.takes(&grant), Event::SliceEnds);
            }
        }
        while self.moving.is_none() && self.bring_in() {}
    }

    fn takes(&self, grant: &Grant) -> u64 {
        let program = &self.programs[self.of(grant.session)].program;
        let ops = grant.last + 1 - grant.first;
        ops * COSTS[program.kernel] * program.percent / 100
    }

    /// Does the next step of the first return. Returns true if another step can follow at once.
    fn bring_in(&mut self) -> bool {
        let Some((position, grant)) = self.returns.front().copied() else {
            return false;
        };
        let index = self.of(grant.session);
        let it = &self.programs[index];
        if it.place == Place::Resident || it.closed {
            if let Some(since) = self.programs[index].needs.take() {
                let waited = &mut self.outcomes.waited[index];
                *waited = (self.now - since).max(*waited);
            }
            self.returns.pop_front();
            self.returned += 1;
            self.done(position, &grant, 0);
            return true;
        }
        let there = self.programs.iter().filter(|it| !it.closed);
        let there = there.filter(|it| it.place != Place::Out);
        let used: u64 = there.map(|it| it.program.mib).sum();
        if used + it.program.mib <= self.machine.mib {
            self.move_to(index, Place::Coming);
        } else if let Some(victim) = self.victim() {
            self.move_to(victim, Place::Leaving);
        }
        false
    }

    /// The session to swap out, among those with nothing to run.
    fn victim(&self) -> Option<usize> {
        let priority = |it: &Running| self.machine.tenants[it.program.tenant].priority;
        let there = self
            .programs
            .iter()
            .enumerate()
            .filter(|(_, it)| it.place == Place::Resident && !it.closed && it.accepted == 0);
        let first = there.min_by_key(|(_, it)| (Reverse(priority(it)), it.idle_since));
        first.map(|(index, _)| index)
    }

    fn move_to(&mut self, index: usize, place: Place) {
        let it = &mut self.programs[index];
        it.place = place;
        let takes = it.program.mib * self.machine.ns_per_mib;
        self.outcomes.moved += it.program.mib;
        self.outcomes.moving += takes;
        self.moving = Some(index);
        self.at(self.now + takes, Event::MoveEnds);
    }

    fn move_ends(&mut self) {
        let it = &mut self.programs[self.moving.take().unwrap()];
        if it.place == Place::Leaving {
            it.place = Place::Out;
            if it.left > 0 {
                it.needs = Some(self.now);
            }
        } else {
            it.place = Place::Resident;
            it.idle_since = self.now;
        }
    }

    fn slice_ends(&mut self) {
        let (position, grant) = self.running.take().unwrap();
        self.done(position, &grant, self.takes(&grant));
        let (now, latency, index) = (self.now, self.machine.latency, self.of(grant.session));
        let it = &mut self.programs[index];
        it.accepted -= 1;
        it.idle_since = now;
        it.left -= (grant.last + 1 - grant.first) as u32;
        if it.left > 0 {
            return;
        }
        if let Some((think, _)) = it.program.batches.get(it.batch) {
            let at = now + latency + think;
            self.at(at, Event::Begin(index));
            return;
        }
        self.outcomes.through[index] = now - START;
        if it.program.closes {
            let (session, after) = (it.session, it.submitted);
            let close = Input::SessionClose {
                session,
                after,
                reason: CloseReason::Asked,
            };
            self.at(now + 2 * latency, Event::Input(close));
        }
    }
}

impl Running {
    fn is_through(&self) -> bool {
        self.left == 0 && self.batch == self.program.batches.len()
    }
}
