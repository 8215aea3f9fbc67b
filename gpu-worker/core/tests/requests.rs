//! Requests for memory: what is committed is there, what can be had is had, what cannot is refused.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{Code, OpNumber, SessionId, Tenant, TenantQuota};
use gpu_worker_core::Pager;
use gpu_worker_core::pager::{MemoryAction, MemoryDecision, MemoryRequested, Need, TenantMemory};
use proptest::prelude::*;

const CAPACITY: u64 = 1 << 20;
const QUOTA: u64 = 768 << 10;
const PAGE: u64 = 4_096;
const MS: u64 = 1_000_000;

fn tenant(name: &str) -> Tenant {
    name.parse().expect("a name")
}

/// A session of a client that asks, and its worker's device, which runs slices when it is told to.
#[derive(Default)]
struct Session {
    number: u64,
    answered: u64,
    held: u64,
    ceiling: u64,
    op: OpNumber,
    next_address: u64,
    live: VecDeque<(u64, u64)>,
    /// What it sent and the pager has not admitted.
    sent: VecDeque<(OpNumber, Need)>,
    /// What the pager has admitted and the device has not run.
    admitted: VecDeque<OpNumber>,
    /// What it allocates as soon as it may.
    wants: u64,
    /// The newest recall heard.
    recall: u64,
}

struct World {
    now: u64,
    pager: Pager,
    sessions: BTreeMap<u64, Session>,
    /// What clients were answered and have not looked at.
    answers: BTreeMap<u64, Result<u64, Code>>,
    /// Recalls on their way, where they take time: which, and since when, by session.
    on_the_way: Option<BTreeMap<u64, (u64, u64)>>,
}

impl World {
    fn new(owners: &[&str]) -> Self {
        let mut world = Self {
            now: 0,
            pager: Pager::new(CAPACITY),
            sessions: BTreeMap::new(),
            answers: BTreeMap::new(),
            on_the_way: None,
        };
        for (id, owner) in (1..).zip(owners) {
            world.pager.open(0, SessionId(id), &tenant(owner), QUOTA);
            world.sessions.insert(id, Session::default());
        }
        world
    }

    fn session(&mut self, id: u64) -> &mut Session {
        self.sessions.get_mut(&id).expect("a session")
    }

    /// A leader says what tenants may hold.
    fn set_quotas(&mut self, quotas: &[(&str, u64)]) {
        let quotas = quotas.iter().map(|(name, quota)| TenantQuota {
            tenant: tenant(name),
            quota: *quota,
        });
        let mut actions = Vec::new();
        self.pager.set_quotas(self.now, quotas, &mut actions);
        self.carry_out(actions);
    }

    /// Asks; what comes of it at once, recalls being answered by those who have something to give.
    fn request(&mut self, id: u64, least: u64, wanted: u64) -> Option<Result<u64, Code>> {
        self.ask(id, least, wanted);
        self.answers.remove(&id)
    }

    fn ask(&mut self, id: u64, least: u64, wanted: u64) {
        let session = self.session(id);
        session.number += 1;
        session.ceiling = session.held;
        let requested = MemoryRequested {
            session: SessionId(id),
            number: session.number,
            held: session.held,
            after: session.op,
            wanted,
            least,
            recall: session.recall,
        };
        let mut actions = Vec::new();
        self.pager.request(self.now, requested, &mut actions);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<MemoryAction>) {
        let mut recalled = Vec::new();
        for action in actions {
            match action {
                MemoryAction::Recall { session, number } => recalled.push((session.0, number)),
                MemoryAction::Answer {
                    session,
                    number,
                    committed,
                    refused,
                    ..
                } => {
                    let known = self.session(session.0);
                    assert_eq!(number, known.number);
                    assert!(committed >= known.held, "less than it holds");
                    (known.ceiling, known.answered) = (committed, number);
                    let wants = std::mem::take(&mut known.wants);
                    if refused.is_none() && wants > 0 {
                        self.allocate(session.0, wants);
                    }
                    let answer = refused.map_or(Ok(committed), |it| Err(it.code));
                    self.answers.insert(session.0, answer);
                }
            }
        }
        for (other, number) in recalled {
            assert!(!self.waits(other), "it has said what it holds");
            match &mut self.on_the_way {
                Some(recalls) => {
                    let sent = recalls.get(&other).map_or(self.now, |(_, at)| *at);
                    recalls.insert(other, (number, sent));
                }
                None => self.obey(other, number),
            }
        }
    }

    fn obey(&mut self, id: u64, number: u64) {
        self.session(id).recall = number;
        // Behind the answer that it waits for.
        if !self.waits(id) {
            let held = self.session(id).held;
            self.ask(id, held, held);
            self.answers.remove(&id);
        }
    }

    /// A recall that is on its way arrives.
    fn deliver(&mut self, id: u64) {
        let recalls = self.on_the_way.as_mut();
        if let Some((number, _)) = recalls.and_then(|it| it.remove(&id)) {
            self.obey(id, number);
        }
    }

    /// Whether a session's request is not answered.
    fn waits(&self, id: u64) -> bool {
        self.sessions
            .get(&id)
            .is_some_and(|session| session.number > session.answered)
    }

    fn settle(&mut self, id: u64) -> Option<Result<u64, Code>> {
        let mut actions = Vec::new();
        self.pager.settle(self.now, &mut actions);
        self.carry_out(actions);
        self.answers.remove(&id)
    }

    fn allocate(&mut self, id: u64, bytes: u64) {
        let session = self.session(id);
        session.held += bytes;
        assert!(session.held <= session.ceiling);
        session.op += 1;
        session.next_address += bytes;
        let (op, address) = (session.op, session.next_address);
        session.live.push_back((address, bytes));
        let need = Need::Alloc { op, address, bytes };
        session.sent.push_back((op, need));
    }

    fn free(&mut self, id: u64) {
        let session = self.session(id);
        let Some((address, bytes)) = session.live.pop_front() else {
            return;
        };
        session.held -= bytes;
        session.op += 1;
        let op = session.op;
        session.sent.push_back((op, Need::Free { address }));
    }

    /// The pager admits a session's next op, which needs no more than was committed.
    fn admit(&mut self, id: u64) {
        let session = self.session(id);
        if let Some((op, need)) = session.sent.pop_front() {
            session.admitted.push_back(op);
            let decision = self.pager.admit(op, SessionId(id), &[need]);
            assert_eq!(decision, MemoryDecision::Fits, "committed");
        }
    }

    /// The device runs a session's next op.
    fn run(&mut self, id: u64) {
        if let Some(op) = self.session(id).admitted.pop_front() {
            self.pager
                .completed(self.now, (op, op), SessionId(id), 0, false);
        }
    }

    fn run_all(&mut self, id: u64) {
        while !self.session(id).sent.is_empty() || !self.session(id).admitted.is_empty() {
            self.admit(id);
            self.run(id);
        }
    }
}

#[test]
fn what_a_tenant_has_is_said_to_the_byte() {
    let mut world = World::new(&["a", "a", "b"]);
    assert_eq!(world.request(1, PAGE, PAGE), Some(Ok(PAGE)));
    world.allocate(1, PAGE);
    assert_eq!(world.request(3, 3 * PAGE, 9 * PAGE), Some(Ok(9 * PAGE)));
    world.allocate(3, 3 * PAGE);
    world.run_all(1);
    world.run_all(3);
    let said = |total, held, free| Some(TenantMemory { total, held, free });
    let pager = &world.pager;
    assert_eq!(
        pager.memory(SessionId(1), PAGE),
        said(QUOTA, PAGE, QUOTA - PAGE)
    );
    assert_eq!(
        pager.memory(SessionId(2), 0),
        said(QUOTA, PAGE, QUOTA - PAGE)
    );
    // What is committed and not used is nobody's yet.
    let free = QUOTA - 3 * PAGE;
    assert_eq!(
        pager.memory(SessionId(3), 3 * PAGE),
        said(QUOTA, 3 * PAGE, free)
    );
    assert_eq!(pager.memory(SessionId(9), 0), None);
}

#[test]
fn what_others_do_not_use_is_recalled_and_what_they_use_is_refused() {
    let mut world = World::new(&["a", "a", "b"]);
    assert_eq!(world.request(1, PAGE, QUOTA), Some(Ok(QUOTA)));
    world.allocate(1, PAGE);
    // Its own tenant's quota is committed whole, and one page of it is used.
    let rest = QUOTA - PAGE;
    assert_eq!(world.request(2, rest + PAGE, QUOTA), Some(Err(Code::Quota)));
    // The op that took the page has to run before the rest is free.
    assert_eq!(world.request(2, rest, rest), None);
    world.run_all(1);
    assert_eq!(world.settle(2), Some(Ok(rest)));
    world.allocate(2, rest);
    // Another tenant has what the device has left.
    let left = CAPACITY - QUOTA;
    assert_eq!(
        world.request(3, left + PAGE, left + PAGE),
        Some(Err(Code::OutOfMemory))
    );
    assert_eq!(world.request(3, left, 2 * left), Some(Ok(left)));
}

#[test]
fn who_may_not_be_swapped_out_is_recalled_from_before_others_are_refused() {
    let mut world = World::new(&["a", "b", "c"]);
    world.pager = Pager::new(CAPACITY).with_swap(4 * CAPACITY, 1_000 * MS);
    for (id, owner) in [(1, "a"), (2, "b"), (3, "c")] {
        world.pager.open(0, SessionId(id), &tenant(owner), CAPACITY);
    }
    world.pager.pin_tenants([tenant("a"), tenant("c")]);
    // Both have much committed, and use a page of it.
    for id in [1, 2] {
        let half = CAPACITY / 2;
        assert_eq!(world.request(id, PAGE, half), Some(Ok(half)));
        world.allocate(id, PAGE);
        world.run_all(id);
    }
    // What is left beside those that stay, once they have given back what they do not use.
    let left = CAPACITY - 2 * PAGE;
    assert_eq!(world.request(3, left, left), Some(Ok(left)));
    let too_much = world.request(3, left + PAGE, left + PAGE);
    assert_eq!(too_much, Some(Err(Code::OutOfMemory)));
}

#[test]
fn what_was_freed_and_not_run_is_waited_for_but_not_for_ever() {
    let mut world = World::new(&["a", "a"]);
    assert_eq!(world.request(1, QUOTA, QUOTA), Some(Ok(QUOTA)));
    world.allocate(1, QUOTA);
    world.run_all(1);
    world.free(1);
    assert_eq!(world.request(2, QUOTA, QUOTA), None);
    world.now += 9_900 * MS;
    assert_eq!(world.settle(2), None, "the free is on its way");
    world.now += 100 * MS;
    assert_eq!(world.settle(2), Some(Err(Code::Quota)), "it takes too long");
    assert_eq!(world.request(2, QUOTA, QUOTA), None);
    world.run_all(1);
    assert_eq!(world.settle(2), Some(Ok(QUOTA)));
}

#[test]
fn a_client_that_does_not_answer_keeps_what_it_has() {
    let mut world = World::new(&["a", "a"]);
    assert_eq!(world.request(1, PAGE, QUOTA), Some(Ok(QUOTA)));
    let session = world.session(2);
    session.number += 1;
    let requested = MemoryRequested {
        session: SessionId(2),
        number: 1,
        held: 0,
        after: 0,
        wanted: QUOTA,
        least: QUOTA,
        recall: 0,
    };
    let mut actions = Vec::new();
    world.pager.request(0, requested, &mut actions);
    let recall = MemoryAction::Recall {
        session: SessionId(1),
        number: 1,
    };
    assert_eq!(actions, std::slice::from_ref(&recall));
    actions.clear();
    world.pager.settle(1_000 * MS, &mut actions);
    assert_eq!(actions, [recall], "it may have been lost");
    actions.clear();
    world.pager.settle(1_199 * MS, &mut actions);
    assert_eq!(actions, [], "it may still answer");
    world.pager.settle(2_000 * MS, &mut actions);
    assert!(
        matches!(
            &actions[..],
            [
                MemoryAction::Recall { .. },
                MemoryAction::Answer {
                    refused: Some(_),
                    ..
                }
            ]
        ),
        "{actions:?}"
    );
    // Said again with the same number it is answered again.
    actions.clear();
    world.pager.request(2_001 * MS, requested, &mut actions);
    assert!(matches!(&actions[..], [MemoryAction::Answer { .. }]));
}

#[test]
fn a_session_that_is_closed_is_waited_for() {
    let mut world = World::new(&["a", "b"]);
    assert_eq!(world.request(1, QUOTA, QUOTA), Some(Ok(QUOTA)));
    world.allocate(1, QUOTA);
    world.run_all(1);
    assert_eq!(world.request(2, QUOTA, QUOTA), Some(Err(Code::OutOfMemory)));
    world.pager.closing(SessionId(1));
    assert_eq!(world.request(2, QUOTA, QUOTA), None);
    world.pager.close(1, SessionId(1));
    assert_eq!(world.settle(2), Some(Ok(QUOTA)));
}

#[test]
fn a_lower_quota_takes_nothing_away_and_lets_nothing_grow() {
    let mut world = World::new(&["a"]);
    assert_eq!(world.request(1, 8 * PAGE, 16 * PAGE), Some(Ok(16 * PAGE)));
    world.allocate(1, 8 * PAGE);
    world.run_all(1);
    world.set_quotas(&[("a", 4 * PAGE)]);
    assert_eq!(world.session(1).ceiling, 8 * PAGE, "recalled");
    assert_eq!(world.request(1, 9 * PAGE, 9 * PAGE), Some(Err(Code::Quota)));
    let memory = world.pager.memory(SessionId(1), 8 * PAGE);
    let said = TenantMemory {
        total: 4 * PAGE,
        held: 8 * PAGE,
        free: 0,
    };
    assert_eq!(memory, Some(said));
    // It keeps running: the blocks of a launch find room, one at a time.
    let launch = |op, least, most| [Need::Launch { op, least, most }];
    let fits = world
        .pager
        .admit(2, SessionId(1), &launch(2, PAGE, 8 * PAGE));
    assert_eq!(fits, MemoryDecision::Fits);
    assert_eq!(world.pager.take_granted(), [(2, PAGE)]);
    world.pager.completed(2, (2, 2), SessionId(1), 0, false);
    world.free(1);
    world.run_all(1);
    world.now += 101 * MS;
    world.settle(1);
    assert_eq!(world.session(1).ceiling, 0, "recalled as it frees");
    assert_eq!(world.request(1, 4 * PAGE, 8 * PAGE), Some(Ok(4 * PAGE)));
    // An open grant that is carried out later does not raise it again.
    world.pager.open(2, SessionId(7), &tenant("a"), QUOTA);
    assert_eq!(
        world.pager.memory(SessionId(7), 0).map(|it| it.total),
        Some(4 * PAGE)
    );
    let total = |world: &World, session| {
        let memory = world.pager.memory(SessionId(session), 0);
        memory.map(|it| it.total)
    };
    // What is named counts for those who come later, and who is not named has all there is.
    world.set_quotas(&[("b", 2 * PAGE)]);
    world.pager.open(3, SessionId(8), &tenant("b"), QUOTA);
    assert_eq!(total(&world, 8), Some(2 * PAGE));
    assert_eq!(total(&world, 7), Some(CAPACITY));
}

#[derive(Debug, Clone)]
enum Step {
    Allocate(u64, u64, u64),
    Free(u64),
    Admit(u64),
    Run(u64),
    Deliver(u64),
    Wait(u64),
    Quota(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || 1..5_u64;
    let step = prop_oneof![
        4 => (id(), 1..90_u64, 0..60_u64).prop_map(|(id, need, more)| Step::Allocate(id, need, more)),
        3 => id().prop_map(Step::Free),
        4 => id().prop_map(Step::Admit),
        4 => id().prop_map(Step::Run),
        3 => id().prop_map(Step::Deliver),
        1 => (0..400_u64).prop_map(Step::Wait),
        1 => (1..QUOTA / PAGE).prop_map(Step::Quota),
    ];
    prop::collection::vec(step, 1..150)
}

proptest! {
    /// I8 of what is committed; what clients allocate within it is always admitted; a refusal is true.
    #[test]
    fn what_is_committed_is_there_and_a_refusal_is_true(steps in steps(), takes_time: bool) {
        let owners = ["a", "a", "b", "c"];
        let mut world = World::new(&owners);
        world.on_the_way = takes_time.then(BTreeMap::new);
        let mut waiting: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut quota, mut before) = (QUOTA, [0; 3]);
        for step in steps {
            world.now += 1;
            match step {
                Step::Allocate(id, need, more) => {
                    if waiting.contains_key(&id) {
                        continue;
                    }
                    let bytes = need * PAGE;
                    let least = world.session(id).held + bytes;
                    if least > world.session(id).ceiling {
                        waiting.insert(id, least);
                        world.session(id).wants = bytes;
                        world.ask(id, least, least + more * PAGE);
                    } else {
                        world.allocate(id, bytes);
                    }
                }
                Step::Free(id) if !waiting.contains_key(&id) => world.free(id),
                Step::Free(_) => {}
                Step::Admit(id) => world.admit(id),
                Step::Run(id) => world.run(id),
                Step::Deliver(id) => world.deliver(id),
                Step::Wait(ms) => world.now += ms * MS,
                Step::Quota(pages) => {
                    quota = pages * PAGE;
                    world.set_quotas(&[("a", quota), ("b", quota), ("c", quota)]);
                }
            }
            world.settle(0);
            for (id, answer) in std::mem::take(&mut world.answers) {
                let Some(least) = waiting.remove(&id) else { continue };
                match answer {
                    Ok(committed) => prop_assert!(committed >= least, "{committed} of {least}"),
                    Err(code) => {
                        // Nobody has anything to give back that was not asked for it.
                        let own = owners[id as usize - 1];
                        let ceilings = |of: &dyn Fn(&str) -> bool| -> u64 {
                            let others = world.sessions.iter().filter(|(other, _)| **other != id);
                            others
                                .filter(|(other, _)| of(owners[**other as usize - 1]))
                                .map(|(_, session)| session.held)
                                .sum()
                        };
                        let lacks = match code {
                            Code::Quota => ceilings(&|owner| owner == own) + least > quota,
                            _ => ceilings(&|_| true) + least > CAPACITY,
                        };
                        let pending = world.sessions.values().any(|it| {
                            !it.sent.is_empty() || !it.admitted.is_empty()
                        });
                        let late = |(_, at): &(u64, u64)| world.now - at >= 2_000 * MS;
                        let silent = world.on_the_way.iter().any(|it| it.values().any(late));
                        prop_assert!(lacks || pending || silent, "{code:?}: {least} would fit");
                    }
                }
            }
            let all: u64 = world.sessions.values().map(|session| session.ceiling).sum();
            prop_assert!(all <= CAPACITY, "{all} of {CAPACITY} are committed");
            for (own, before) in ["a", "b", "c"].into_iter().zip(&mut before) {
                let sessions = world.sessions.iter().filter(|(id, _)| owners[**id as usize - 1] == own);
                let has = sessions.map(|(_, it)| it.ceiling).sum::<u64>();
                // Above a quota that was lowered nobody grows.
                prop_assert!(has <= quota.max(*before), "{has} of {quota}, before {before}");
                *before = has;
            }
        }
    }
}
