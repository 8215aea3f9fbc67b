//! I10 of memory that moves and is shared: charged, swapped-out and saved bytes add up to the held bytes. The
//! blocks of usage have them by tenant, with every move and wait, however sessions and workers come, go and
//! die meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use bus_schemas::{
    ClusterUsage, Code, Failure, GpuId, Incarnation, MoveTotals, OpNumber, SessionId, SwapStatus,
    Tenant, UsageBlock, UseTotals, decode, encode,
};
use device::{Moved, Recharged};
use gpu_worker_core::dispatch::Claim;
use gpu_worker_core::ledger::Cut;
use gpu_worker_core::memory_report::PageLimits;
use gpu_worker_core::meter::SliceUse;
use gpu_worker_core::pager::{Need, SwapAction};
use gpu_worker_core::resources::MeteredSlice;
use gpu_worker_core::{Meter, Pager, Resources};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const KIB: u64 = 1 << 10;
const CAPACITY: u64 = 1 << 20;
const GPU: GpuId = 3;

fn tenant(slot: u64) -> Tenant {
    format!("t{}", slot % 3).parse().unwrap()
}

/// An event of a worker.
#[derive(Debug, Clone)]
enum Step {
    /// A slice of a session allocates this many KiB, if the session is on the device.
    Allocate(u64, u64),
    /// Other sessions begin or end to share with it: it is charged this many quarters of its memory.
    Share(u64, u64),
    /// The session has work.
    Want(u64),
    /// One of the moves ends, or fails.
    EndMove(usize, bool),
    Close(u64),
    /// Its tenant need not send this many bytes.
    Unsent(u64, u64),
    Pass(u64),
    Cut,
    /// The worker dies without another message, and another begins.
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = 0..6_u64;
    let step = prop_oneof![
        8 => (slot.clone(), 1..400_u64).prop_map(|(slot, kib)| Step::Allocate(slot, kib)),
        3 => (slot.clone(), 1..5_u64).prop_map(|(slot, part)| Step::Share(slot, part)),
        4 => slot.clone().prop_map(Step::Want),
        6 => (0..4_usize, prop::bool::weighted(0.1)).prop_map(|(at, fails)| Step::EndMove(at, fails)),
        1 => slot.clone().prop_map(Step::Close),
        1 => (slot, 1..5_000_u64).prop_map(|(slot, bytes)| Step::Unsent(slot, bytes)),
        4 => (1..400_u64).prop_map(Step::Pass),
        3 => Just(Step::Cut),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..150)
}

/// A session as its device and its client see it.
#[derive(Debug, Default)]
struct Session {
    id: u64,
    held: u64,
    charged: u64,
    /// True if its memory left the device and has not come back.
    out: bool,
    /// True if it moves, or is to move.
    moving: bool,
    waits_since: Option<u64>,
}

/// Byte-nanoseconds of a tenant.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    all: u128,
    charged: u128,
    out: u128,
}

struct World {
    now: u64,
    incarnation: u64,
    next: u64,
    op: OpNumber,
    resources: Resources,
    sessions: BTreeMap<u64, Session>,
    moves: Vec<(u64, bool)>,
    held: BTreeMap<Tenant, Held>,
    events: BTreeMap<Tenant, MoveTotals>,
    /// Totals in this worker's blocks.
    said: BTreeMap<Tenant, MoveTotals>,
    said_byte_ms: BTreeMap<Tenant, u64>,
    stream: Vec<Vec<u8>>,
}

fn resources(now: u64, incarnation: u64) -> Resources {
    let pager = Pager::new(CAPACITY).with_swap(4 * CAPACITY, 50 * MS);
    let meter = Meter::new(now, Incarnation(incarnation), GPU, 2, true);
    Resources::new(pager, meter, 0)
}

impl World {
    fn new() -> Self {
        Self {
            now: 0,
            incarnation: 1,
            next: 0,
            op: 0,
            resources: resources(0, 1),
            sessions: BTreeMap::new(),
            moves: Vec::new(),
            held: BTreeMap::new(),
            events: BTreeMap::new(),
            said: BTreeMap::new(),
            said_byte_ms: BTreeMap::new(),
            stream: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        self.pass(MS);
        match *step {
            Step::Allocate(slot, kib) => self.allocate(slot, kib * KIB),
            Step::Share(slot, quarters) => self.share(slot, quarters),
            Step::Want(slot) => self.want(slot),
            Step::EndMove(which, failed) => self.end_move(which, failed),
            Step::Close(slot) => self.close(slot),
            Step::Unsent(slot, bytes) => {
                self.resources.unsent(&tenant(slot), bytes);
                self.count(slot, |events| events.unsent_bytes += bytes);
            }
            Step::Pass(ms) => self.pass(ms * MS),
            Step::Cut => self.cut(false),
            Step::Crash => self.crash(),
        }
        self.swap();
    }

    fn count(&mut self, slot: u64, count: impl Fn(&mut MoveTotals)) {
        count(self.events.entry(tenant(slot)).or_default());
    }

    fn pass(&mut self, ns: u64) {
        for (slot, session) in &self.sessions {
            let held = self.held.entry(tenant(*slot)).or_default();
            held.all += u128::from(session.held) * u128::from(ns);
            match session.out {
                true => held.out += u128::from(session.held) * u128::from(ns),
                false => held.charged += u128::from(session.charged) * u128::from(ns),
            }
        }
        self.now += ns;
    }

    fn open(&mut self, slot: u64) {
        if !self.sessions.contains_key(&slot) {
            self.next += 1;
            let id = SessionId(self.next);
            self.resources.open(self.now, id, &tenant(slot), 0);
            self.resources.set_priority(id, 1);
            let session = Session {
                id: self.next,
                ..Session::default()
            };
            self.sessions.insert(slot, session);
        }
    }

    fn allocate(&mut self, slot: u64, bytes: u64) {
        self.open(slot);
        let session = &self.sessions[&slot];
        if session.out || session.moving {
            return self.want(slot);
        }
        self.op += 1;
        let (op, address) = (self.op, self.op << 32);
        let claim = Claim {
            session: SessionId(session.id),
            first: op,
            needs: vec![Need::Alloc { op, address, bytes }],
        };
        let answer = self.resources.ask(claim).expect("nothing runs that frees");
        let session = self.sessions.get_mut(&slot).unwrap();
        if answer.later {
            session.waits_since.get_or_insert(self.now);
            return;
        }
        // A slice that goes on by itself waits no longer.
        let waited = session
            .waits_since
            .take()
            .map_or(0, |since| self.now - since);
        if answer.refused.is_none() {
            // It goes on sharing the bytes that it shares.
            session.held += bytes;
            session.charged += bytes;
        }
        let used = SliceUse {
            session: SessionId(session.id),
            device_ns: 10,
            launches: 1,
            sm_ns: 20,
            kernels: &[],
        };
        let slice = MeteredSlice {
            first: op,
            last: op,
            resident: session.charged,
            faulted: false,
            used,
        };
        self.resources.completed(self.now, [slice]);
        self.count(slot, |events| events.waited_ns += waited);
    }

    fn share(&mut self, slot: u64, quarters: u64) {
        if let Some(session) = self.sessions.get_mut(&slot)
            && !session.out
        {
            session.charged = session.held / 4 * quarters;
            let changed = [Recharged {
                session: SessionId(session.id),
                charged: session.charged,
                saved: session.held - session.charged,
            }];
            self.resources.recharged(self.now, &changed, 0);
        }
    }

    fn want(&mut self, slot: u64) {
        if let Some(session) = self.sessions.get_mut(&slot) {
            session.waits_since.get_or_insert(self.now);
            self.resources.want(self.now, SessionId(session.id), 1);
        }
    }

    fn swap(&mut self) {
        for action in self.resources.swap_actions(self.now) {
            let (SwapAction::Out { session, .. }
            | SwapAction::In { session }
            | SwapAction::Returned { session }) = action;
            let mut sessions = self.sessions.iter_mut();
            let Some((slot, known)) = sessions.find(|(_, it)| it.id == session.0) else {
                continue;
            };
            let slot = *slot;
            match action {
                SwapAction::Out { .. } | SwapAction::In { .. } => {
                    known.moving = true;
                    let out = matches!(action, SwapAction::Out { .. });
                    self.moves.push((slot, out));
                }
                SwapAction::Returned { .. } => {
                    let since = known.waits_since.take().expect("it waited");
                    let ns = self.now - since;
                    self.count(slot, |events| events.waited_ns += ns);
                }
            }
        }
    }

    fn end_move(&mut self, which: usize, failed: bool) {
        if self.moves.is_empty() {
            return;
        }
        let (slot, out) = self.moves.remove(which % self.moves.len());
        let session = self.sessions.get_mut(&slot).unwrap();
        session.moving = false;
        if !failed {
            session.out = out;
            session.charged = if out { 0 } else { session.held };
        }
        let (bytes, id, charged) = (session.held, SessionId(session.id), session.charged);
        let ended = Moved {
            session: id,
            out,
            bytes,
            took: Duration::from_millis(1),
            resident: charged,
            failure: failed.then(|| Failure::new(Code::Device, "no room")),
        };
        self.resources.moved(self.now, &ended);
        if !failed {
            self.count(slot, |events| {
                let (times, moved) = match out {
                    true => (&mut events.outs, &mut events.out_bytes),
                    false => (&mut events.ins, &mut events.in_bytes),
                };
                *times += 1;
                *moved += bytes;
            });
        }
    }

    fn close(&mut self, slot: u64) {
        if let Some(session) = self.sessions.remove(&slot) {
            self.moves.retain(|(of, _)| *of != slot);
            self.resources.close(self.now, SessionId(session.id));
            let waited = session.waits_since.map_or(0, |since| self.now - since);
            self.count(slot, |events| events.waited_ns += waited);
        }
    }

    /// Cuts blocks: if there are any, they have everything that happened until now.
    fn cut(&mut self, last: bool) {
        let at_ms = self.now / MS;
        let blocks = self.resources.cut(self.now, &Cut { at_ms, last });
        let has_news = !blocks.is_empty();
        for block in blocks {
            for row in &block.moves {
                assert!(!row.moves.is_zero());
                let said = self.said.entry(row.tenant.clone()).or_default();
                said.add(&row.moves);
            }
            for row in &block.memory {
                *self.said_byte_ms.entry(row.tenant.clone()).or_default() += row.byte_ms;
            }
            self.stream.push(encode(&block));
        }
        self.check_events(has_news);
        if has_news {
            self.check_held();
        }
    }

    /// Checks that moves and waits in blocks are those that happened. If no block was cut, nothing happened
    /// since.
    fn check_events(&self, has_news: bool) {
        for (tenant, events) in &self.events {
            let said = self.said.get(tenant).copied().unwrap_or_default();
            let said = MoveTotals {
                swapped_byte_ms: 0,
                saved_byte_ms: 0,
                ..said
            };
            assert_eq!(said, *events, "{tenant}, cut: {has_news}");
        }
        let worker = (Incarnation(self.incarnation), GPU);
        let running = BTreeMap::new();
        let report = self.resources.memory_report(self.now, worker, &running);
        let swap: SwapStatus = report.page(None, PageLimits::default()).swap.unwrap();
        let mut sum = MoveTotals::default();
        self.events.values().for_each(|events| sum.add(events));
        assert_eq!(swap.outs, (sum.outs, sum.out_bytes));
        assert_eq!(swap.ins, (sum.ins, sum.in_bytes));
        assert_eq!(swap.waited_ns, sum.waited_ns);
    }

    /// Checks that charged, swapped-out and saved bytes add up to the held ones; every session's charge is
    /// rounded down.
    fn check_held(&self) {
        for (tenant, held) in &self.held {
            let said = self.said.get(tenant).copied().unwrap_or_default();
            let charged = self.said_byte_ms.get(tenant).copied().unwrap_or(0);
            let ms = |byte_ns: u128| (byte_ns / u128::from(MS)) as u64;
            assert_eq!(said.swapped_byte_ms, ms(held.out), "{tenant}");
            let saved = held.all - held.charged - held.out;
            assert_eq!(said.saved_byte_ms, ms(saved), "{tenant}");
            let sum = said.swapped_byte_ms + said.saved_byte_ms + charged;
            let rounded = ms(held.all) - sum;
            assert!(rounded <= self.next + 2, "{tenant}: {rounded} of {sum}");
        }
    }

    fn crash(&mut self) {
        self.incarnation += 1;
        self.resources = resources(self.now, self.incarnation);
        self.sessions.clear();
        self.moves.clear();
        self.held.clear();
        self.events.clear();
        self.said.clear();
        self.said_byte_ms.clear();
    }
}

/// Checks that everything in the stream adds up, and that with one block lost the rest shows the loss.
fn check_stream(stream: &[Vec<u8>]) {
    let blocks = stream.iter().map(|bytes| decode(bytes).unwrap());
    let blocks: Vec<UsageBlock> = blocks.collect();
    let mut usage = ClusterUsage::default();
    blocks.iter().for_each(|block| assert!(usage.take(block)));
    for (_, worker) in usage.workers() {
        assert_eq!(worker.missing(true), Ok(UseTotals::default()));
    }
    for lost in 0..blocks.len() {
        let mut usage = ClusterUsage::default();
        let rest = blocks.iter().enumerate().filter(|(at, _)| *at != lost);
        rest.for_each(|(_, block)| assert!(usage.take(block)));
        let lost = &blocks[lost];
        let worker = usage.workers().find(|(id, _)| **id == lost.incarnation);
        let Some((_, worker)) = worker else { continue };
        let missing = worker.missing(true).unwrap();
        // After a worker's last block no later block shows that it is missing.
        let behind = blocks
            .iter()
            .any(|block| block.incarnation == lost.incarnation && block.number > lost.number);
        let expected = if behind {
            lost.sum()
        } else {
            UseTotals::default()
        };
        assert_eq!(missing, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_memory_does_is_counted_once_and_for_whom_it_was(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.cut(true);
        check_stream(&world.stream);
    }
}

#[test]
fn two_tenants_that_do_not_fit_together_take_turns_and_are_told_apart() {
    let mut world = World::new();
    world.step(&Step::Allocate(0, 700));
    world.step(&Step::Pass(100));
    for turn in 0..10 {
        let (comes, leaves) = (1 - turn % 2, turn % 2);
        for _ in 0..4 {
            world.step(&Step::Allocate(comes, if turn == 0 { 700 } else { 1 }));
            world.step(&Step::EndMove(0, false));
            world.step(&Step::Pass(250));
        }
        assert!(
            world.sessions[&leaves].out && !world.sessions[&comes].out,
            "{turn}"
        );
        world.step(&Step::Cut);
    }
    let said: Vec<_> = world.said.values().collect();
    assert_eq!((said[0].outs, said[1].outs), (5, 5));
    assert_eq!((said[0].ins, said[1].ins), (5, 4));
    assert!(
        said.iter()
            .all(|it| it.waited_ns > 0 && it.swapped_byte_ms > 0)
    );
    assert!(said.iter().all(|it| it.saved_byte_ms == 0), "nobody shares");
    check_stream(&world.stream);
}
