//! A small world around one sequencer: leaders, clients and a device, on a bus that loses,
//! repeats and reorders.

mod leader;
mod witness;

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{
    Chain, ClientState, Code, Epoch, Failure, GpuPosition, Grant, GrantBatch, GrantKind,
    Incarnation, OpNumber, Seal, SessionId, WIRE_VERSION, decode,
};
use gpu_worker_core::Sequencer;
use gpu_worker_core::sequencer::{
    Action, BatchEvent, CompletedEvent, Event, Identity, SequencerConfig, Settled,
};

use leader::{Leader, tenant};

const MS: u64 = 1_000_000;

/// A seeded source of choices.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

#[derive(Debug, Clone)]
enum Message {
    GrantBatch(Vec<u8>),
    Seal(Seal),
    Batch(u64, OpNumber, u32, u64),
    State(u64, ClientState),
}

/// A client of one session, as simple as the protocol allows.
#[derive(Debug, Default)]
struct Client {
    submitted: OpNumber,
    received: OpNumber,
    results: u64,
    failed: bool,
}

/// The whole world, and the observed behaviour of the sequencer.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) dice: Dice,
    pub(crate) core: Sequencer,
    bus: Vec<Message>,
    clients: BTreeMap<u64, Client>,
    pub(crate) leaders: Vec<Leader>,
    device: VecDeque<(GpuPosition, u64, OpNumber, OpNumber)>,
    opening: VecDeque<u64>,
    closing: VecDeque<u64>,
    /// Accepted grants, by position, from the orders that were in force.
    pub(crate) accepted: BTreeMap<GpuPosition, Grant>,
    chain: Chain,
    begun: GpuPosition,
    begun_epoch: Epoch,
    pub(crate) ran: BTreeMap<u64, OpNumber>,
    kept: BTreeMap<u64, OpNumber>,
    /// Grants of the current leader, accepted or not.
    offered: BTreeMap<GpuPosition, Grant>,
    /// The last op started of each standing grant.
    pub(crate) parts: BTreeMap<GpuPosition, OpNumber>,
    pub(crate) settled: BTreeMap<GpuPosition, Settled>,
    pub(crate) voids: u64,
    faults: bool,
}

impl World {
    pub(crate) fn new(seed: u64, faults: bool) -> Self {
        let identity = Identity {
            incarnation: Incarnation(1),
            gpu: 0,
            capacity: 1 << 30,
        };
        let config = SequencerConfig {
            preemptive: seed.is_multiple_of(2),
            ..SequencerConfig::default()
        };
        Self {
            now: 1,
            dice: Dice::new(seed),
            core: Sequencer::new(config, identity),
            bus: Vec::new(),
            clients: BTreeMap::new(),
            leaders: Vec::new(),
            device: VecDeque::new(),
            opening: VecDeque::new(),
            closing: VecDeque::new(),
            accepted: BTreeMap::new(),
            chain: Chain::default(),
            begun: 0,
            begun_epoch: 0,
            ran: BTreeMap::new(),
            kept: BTreeMap::new(),
            offered: BTreeMap::new(),
            parts: BTreeMap::new(),
            settled: BTreeMap::new(),
            voids: 0,
            faults,
        }
    }

    /// Elects a leader of a higher epoch, or a rival of the same one.
    pub(crate) fn elect(&mut self, rival: bool) {
        let highest = self.leaders.iter().map(|leader| leader.epoch).max();
        let epoch = match highest {
            Some(epoch) if rival => epoch,
            highest => highest.unwrap_or(0) + 1,
        };
        let id = self.leaders.len() as u64 + 1;
        self.leaders.push(Leader::new(epoch, id));
    }

    /// Does one random thing.
    pub(crate) fn step(&mut self) {
        self.now += self.dice.roll(MS / 2);
        match self.dice.roll(20) {
            0..=5 => self.leader_acts(),
            6..=9 => self.client_acts(),
            10..=15 => self.bus_acts(),
            16..=18 => self.device_acts(),
            _ => {
                self.now += self.dice.roll(4 * MS);
                self.tell(Event::Timer);
            }
        }
    }

    fn leader_acts(&mut self) {
        if self.leaders.is_empty() {
            return self.elect(false);
        }
        let index = self.dice.roll(self.leaders.len() as u64) as usize;
        let choice = self.dice.roll(8);
        let sessions = self.dice.roll(5) + 1;
        let slice = self.dice.roll(5);
        let clients = &self.clients;
        let stands = self.dice.roll(6) == 0;
        let leader = &mut self.leaders[index];
        if !leader.sealed {
            let seal = Seal {
                v: WIRE_VERSION,
                epoch: leader.epoch,
                leader: leader.id,
                after: None,
                times: true,
            };
            return self.bus.push(Message::Seal(seal));
        }
        match choice {
            0..=4 => {
                let known = leader.next.contains_key(&sessions);
                let closed = leader.closed.get(&sessions).copied().unwrap_or(false);
                if !known && !clients.contains_key(&sessions) {
                    leader.next.insert(sessions, 1);
                    leader.grant(GrantKind::Open, sessions, 0, 0);
                } else if leader.standing.contains_key(&sessions) {
                    if slice == 0 {
                        leader.grant(GrantKind::Revoke, sessions, 0, 0);
                    } else if slice == 1 && stands && !closed {
                        // It goes on behind any later grants, except the session's end.
                        leader.grant(GrantKind::Standing, sessions, 0, 0);
                    }
                } else if let (true, false, Some(client)) = (known, closed, clients.get(&sessions))
                {
                    let first = leader.next[&sessions];
                    if stands && leader.is_clear(sessions) {
                        return leader.grant(GrantKind::Standing, sessions, first, 0);
                    }
                    // An announced session is granted its submitted ops; a doubted one, the ops that the
                    // worker has.
                    let most = match leader.doubted.get(&sessions) {
                        Some(received) => *received,
                        None => client.submitted,
                    };
                    if first <= most {
                        let last = most.min(first + slice);
                        leader.next.insert(sessions, last + 1);
                        leader.grant(GrantKind::Run, sessions, first, last);
                    }
                }
            }
            _ => {
                let message = leader.order(leader.accepted + 1, 1 + slice as usize);
                self.bus.push(Message::GrantBatch(message));
            }
        }
    }

    fn client_acts(&mut self) {
        let session = self.dice.roll(5) + 1;
        let (choice, count) = (self.dice.roll(4), self.dice.roll(6) + 1);
        let Some(client) = self.clients.get_mut(&session) else {
            return;
        };
        match choice {
            0 => client.submitted += count,
            3 => {
                let state = ClientState {
                    v: WIRE_VERSION,
                    sent: client.submitted,
                    results: client.results,
                };
                self.bus.push(Message::State(session, state));
            }
            _ => {
                // Any batch from a stale repeat to one beyond a gap.
                let back = self.dice.roll(4);
                let first = (client.received + 2).saturating_sub(back).max(1);
                let last = (first + count).min(client.submitted);
                if first <= last {
                    let batch =
                        Message::Batch(session, first, (last - first + 1) as u32, client.results);
                    self.bus.push(batch);
                }
            }
        }
    }

    fn bus_acts(&mut self) {
        if self.bus.is_empty() {
            return;
        }
        let index = match self.dice.roll(3) {
            0 => self.dice.roll(self.bus.len() as u64) as usize,
            _ => 0,
        };
        match self.dice.roll(8) {
            0 => {
                self.bus.remove(index);
            }
            1 => {
                let message = self.bus[index].clone();
                self.deliver(&message);
            }
            _ => {
                let message = self.bus.remove(index);
                self.deliver(&message);
            }
        }
    }

    fn deliver(&mut self, message: &Message) {
        let tenant = tenant();
        match message {
            Message::GrantBatch(bytes) => {
                let batch: GrantBatch<'_> = decode(bytes).expect("own batches decode");
                let before = self.core.accepted().0;
                let obeyed = self.core.sealed() == (batch.epoch, batch.leader);
                if obeyed {
                    let rows = (batch.first..).zip(batch.grants.iter());
                    self.offered.extend(rows);
                }
                let actions = self.ask(Event::GrantBatch(&batch));
                let after = self.core.accepted().0;
                assert!(
                    obeyed || before == after,
                    "accepted from a leader not obeyed"
                );
                self.note_accepted(before, after);
                actions.into_iter().for_each(|action| self.see(action));
            }
            Message::Seal(seal) => {
                let before = self.core.accepted().0;
                let actions = self.ask(Event::Seal(seal));
                self.note_accepted(before, self.core.accepted().0);
                actions.into_iter().for_each(|action| self.see(action));
            }
            Message::Batch(session, first, count, results) => {
                self.tell(Event::Batch(BatchEvent {
                    tenant: &tenant,
                    session: SessionId(*session),
                    first: *first,
                    count: *count,
                    results: *results,
                    bytes: 48 * u64::from(*count),
                    outs: &[],
                    staged: &[],
                    loads: &[],
                }));
            }
            Message::State(session, state) => self.tell(Event::ClientState {
                tenant: &tenant,
                session: SessionId(*session),
                state: *state,
            }),
        }
    }

    fn device_acts(&mut self) {
        if let Some(session) = self.opening.pop_front() {
            self.clients.entry(session).or_default();
            return self.tell(Event::Opened {
                session: SessionId(session),
                failure: None,
            });
        }
        if let Some(session) = self.closing.pop_front() {
            return self.tell(Event::Closed {
                session: SessionId(session),
            });
        }
        if self.device.is_empty() {
            return;
        }
        // The oldest slice of any session may complete.
        let at = self.dice.roll(self.device.len() as u64) as usize;
        let session = self.device[at].1;
        let at = self
            .device
            .iter()
            .position(|slice| slice.1 == session)
            .unwrap();
        let (position, session, first, last) = self.device.remove(at).unwrap();
        let failure = Failure::new(Code::Trap, "the kernel trapped");
        let broken = self
            .clients
            .get(&session)
            .is_some_and(|client| client.failed);
        let fails = broken || (self.faults && self.dice.roll(25) == 0);
        let op = first + self.dice.roll(last - first + 1);
        if let Some(client) = self.clients.get_mut(&session) {
            client.failed |= fails;
        }
        if !broken {
            let done = if fails { op - 1 } else { last };
            self.ran.insert(session, done);
        }
        let result = [8];
        self.tell(Event::Completed(CompletedEvent {
            position,
            session: SessionId(session),
            began: None,
            device_ns: 1_000,
            results: if fails { &[] } else { &result },
            compiled: &[],
            declared: 0,
            fault: fails.then_some((op, &failure)),
        }));
    }

    pub(crate) fn tell(&mut self, event: Event<'_>) {
        let actions = self.ask(event);
        actions.into_iter().for_each(|action| self.see(action));
    }

    fn ask(&mut self, event: Event<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        self.core.handle(self.now, event, &mut actions);
        let wakeup = self.core.next_wakeup().expect("a worker always beats");
        assert!(wakeup > self.now, "{wakeup} is not after {}", self.now);
        actions
    }

    /// Runs all submitted ops, with a calm bus and a live last leader.
    pub(crate) fn calm(&mut self) {
        self.bus.clear();
        self.faults = false;
        self.elect(false);
        let keep = self.leaders.len() - 1;
        self.leaders.drain(..keep);
        for _ in 0..4_000 {
            self.now += MS / 4;
            self.leader_acts();
            let sessions: Vec<_> = self.clients.keys().copied().collect();
            for session in sessions {
                let client = &self.clients[&session];
                let received = client.received;
                if received < client.submitted {
                    let count = (client.submitted - received).min(64) as u32;
                    let batch = Message::Batch(session, received + 1, count, client.results);
                    self.bus.push(batch);
                }
            }
            for message in std::mem::take(&mut self.bus) {
                self.deliver(&message);
            }
            self.device_acts();
            self.tell(Event::Timer);
        }
    }

    /// Sessions that did not fail and have ops that never ran.
    pub(crate) fn unfinished(&self) -> Vec<(u64, OpNumber, OpNumber)> {
        let left = self.clients.iter().filter(|(_, client)| !client.failed);
        left.map(|(session, client)| (*session, self.ran[session], client.submitted))
            .filter(|(_, ran, submitted)| ran < submitted)
            .collect()
    }
}
