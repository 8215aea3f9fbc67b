//! An outbox against a worker and a leader over a link that loses, duplicates and reorders
//! messages. Both get exactly the ops, in order, once, and the program gets every result.

mod peer;

use std::collections::{BTreeSet, HashMap};

use client_agent_core::{Event, Outbox, OutboxSettings, PushError};
use proptest::prelude::*;

use bus_schemas::{
    CloseReason, ContentHash, KernelKey, LeaderId, ModuleHash, Op, ResultKind, SessionId, limits,
};
use peer::{Network, Peers, Random};

/// The next step of the program.
#[derive(Debug, Clone)]
enum Step {
    Launch(u64),
    Sync,
    CopyOut(u16),
    CopyIn(u16),
    /// Stages a transfer, and pushes its copy this many microseconds later.
    Stage(u32, u16),
    Module(u32),
    /// Offers a copy by its hashes, with chunks that begin with different numbers.
    Offer(u32, u8),
    /// Lets this many microseconds pass.
    Pause(u16),
    /// The leader is replaced.
    Takeover,
    /// All messages on their way are lost, and the client is told that its connection is back.
    Reconnect,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => (0_u64..3).prop_map(Step::Launch),
        4 => Just(Step::Sync),
        4 => (0_u16..2000).prop_map(Step::CopyOut),
        4 => (1_u16..500).prop_map(Step::CopyIn),
        2 => (1_u32..700_000, prop_oneof![Just(0), 0_u16..3000])
            .prop_map(|(bytes, micros)| Step::Stage(bytes, micros)),
        1 => (1_u32..3_000_000, any::<u8>())
            .prop_map(|(bytes, seed)| Step::Offer(bytes, seed)),
        1 => (1_u32..40_000).prop_map(Step::Module),
        4 => (0_u16..3000).prop_map(Step::Pause),
        1 => Just(Step::Takeover),
        1 => Just(Step::Reconnect),
    ];
    prop::collection::vec(step, 1..150)
}

/// The program, its outbox and its peers.
struct World {
    outbox: Outbox,
    network: Network,
    peers: Peers,
    pushed: Vec<Op>,
    program: Program,
}

/// The results that the program asked for and got.
#[derive(Default)]
struct Program {
    wanted: Vec<(u64, Vec<u8>)>,
    arrived: HashMap<u64, Vec<u8>>,
    given: Vec<(u64, Vec<u8>)>,
    ended: bool,
    /// Transfers of images, and those with a verdict of the worker.
    images: BTreeSet<u64>,
    judged: BTreeSet<u64>,
}

impl World {
    fn new(seed: u64, loss: u8, window: u64) -> Self {
        let mut settings = OutboxSettings::new(SessionId(7), 1, LeaderId(1));
        settings.flush_ops = 16;
        settings.unreceived_bytes = 16 << 10;
        settings.staged_bytes = 1 << 20;
        Self {
            outbox: Outbox::new(settings),
            network: Network::new(Random(seed), loss),
            peers: Peers::new(window),
            pushed: Vec::new(),
            program: Program::default(),
        }
    }

    fn tell(&mut self, event: Event<'_>) {
        let mut actions = Vec::new();
        self.outbox.handle(self.network.now, event, &mut actions);
        for action in actions {
            self.program.take(&action);
            self.network.client_does(&self.outbox, &self.peers, &action);
        }
    }

    /// Pushes like a program: waits for room, flushes when asked to.
    fn push(&mut self, op: Op, payload: &[u8], key: u64) {
        let number = loop {
            match self.outbox.push(&op, 0, payload, KernelKey(key)) {
                Ok(number) => break number,
                Err(PushError::Full) => {
                    self.tell(Event::Flush);
                    self.step();
                }
                Err(other) => panic!("{other}"),
            }
        };
        self.pushed.push(op);
        assert_eq!(number, self.pushed.len() as u64);
        if self.outbox.wants_flush() {
            self.tell(Event::Flush);
        }
    }

    fn stage(&mut self, bytes: Vec<u8>, module: Option<ModuleHash>) -> u64 {
        let bytes = bytes::Bytes::from(bytes);
        loop {
            match self.outbox.stage(bytes.clone(), module) {
                Ok(transfer) => return transfer,
                Err(PushError::Full) => {
                    self.tell(Event::Flush);
                    self.step();
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// Offers a copy, waits for the answers, and supplies the wanted bytes.
    fn offer(&mut self, bytes: usize, seed: u8) {
        let chunks = (0_u8..).zip((0..bytes).step_by(limits::CONTENT_BYTES));
        let chunks = chunks.map(|(at, _)| ContentHash::of([&[seed, at][..]]));
        let hashes: Vec<_> = chunks.collect();
        let first = loop {
            match self.outbox.offer(bytes as u64, &hashes) {
                Ok(first) => break first,
                Err(PushError::Full) => {
                    self.tell(Event::Flush);
                    self.step();
                }
                Err(other) => panic!("{other}"),
            }
        };
        self.tell(Event::Flush);
        let pieces = vec![7; bytes];
        for (transfer, piece) in (first..).zip(pieces.chunks(limits::PIECE_BYTES)) {
            let wants = loop {
                match self.outbox.wants_bytes(transfer) {
                    Some(wants) => break wants,
                    None => self.step(),
                }
            };
            if wants {
                let mut parcel = loop {
                    match self.outbox.parcel_of(piece.len()) {
                        Ok(parcel) => break parcel,
                        Err(PushError::Full) => self.step(),
                        Err(other) => panic!("{other}"),
                    }
                };
                parcel.write(0, piece);
                self.outbox.supply(transfer, parcel).unwrap();
            }
            let op = Op::CopyIn {
                address: 0,
                bytes: piece.len() as u64,
                transfer,
            };
            self.push(op, &[], 0);
            self.tell(Event::Flush);
        }
    }

    /// Runs the next event: a message arrives or the timer fires.
    fn step(&mut self) {
        let timer = self.outbox.next_wakeup();
        let timer = timer.map(|at| at.max(self.network.now));
        match (self.network.next_at(), timer) {
            (Some(at), timer) if timer.is_none_or(|timer| at <= timer) => {
                if let Some(message) = self.network.take() {
                    self.deliver(message);
                }
            }
            (_, Some(timer)) => {
                self.network.now = timer;
                self.tell(Event::Tick);
            }
            _ => panic!("nothing is under way and nothing is waited for"),
        }
    }

    fn deliver(&mut self, message: peer::Message) {
        if message.to == peer::To::Client {
            let now = self.network.now;
            let mut actions = Vec::new();
            peer::hear(&message, |event| {
                self.outbox.handle(now, event, &mut actions)
            });
            for action in actions {
                self.program.take(&action);
                self.network.client_does(&self.outbox, &self.peers, &action);
            }
        } else {
            self.peers.hear(&mut self.network, &message);
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Launch(key) => {
                let launch = bus_schemas::Launch {
                    module: 0,
                    function: key as u32,
                    grid: [1; 3],
                    block: [32, 1, 1],
                    shared: 0,
                    attributes: bus_schemas::LaunchAttributes::default(),
                };
                self.push(Op::Launch(launch), &[1, 2, 3, 4], key);
            }
            Step::Sync => {
                self.push(Op::Sync, &[], 0);
                self.program.want(self.pushed.len() as u64, 0);
            }
            Step::CopyOut(bytes) => {
                let bytes = u64::from(bytes);
                self.push(Op::CopyOut { address: 0, bytes }, &[], 0);
                self.program.want(self.pushed.len() as u64, bytes);
            }
            Step::CopyIn(bytes) => {
                let payload = vec![7; usize::from(bytes)];
                let op = Op::CopyIn {
                    address: 0,
                    bytes: u64::from(bytes),
                    transfer: 0,
                };
                self.push(op, &payload, 0);
            }
            Step::Stage(bytes, micros) => {
                let transfer = self.stage(vec![9; bytes as usize], None);
                if micros > 0 {
                    self.tell(Event::Flush);
                    self.run(&Step::Pause(micros));
                }
                let op = Op::CopyIn {
                    address: 0,
                    bytes: u64::from(bytes),
                    transfer,
                };
                self.push(op, &[], 0);
            }
            Step::Offer(bytes, seed) => self.offer(bytes as usize, seed),
            Step::Module(bytes) => {
                let image = vec![b'p'; bytes as usize];
                let hash = ModuleHash::of(&image);
                let transfer = self.stage(image, Some(hash));
                self.program.images.insert(transfer);
                self.push(Op::LoadModule { slot: 0, hash }, &[], 0);
            }
            Step::Pause(micros) => {
                let until = self.network.now + u64::from(micros) * 1000;
                while self.network.next_at().is_some_and(|at| at <= until)
                    || self.outbox.next_wakeup().is_some_and(|at| at <= until)
                {
                    self.step();
                }
                self.network.now = until;
            }
            Step::Takeover => {
                let beat = self.peers.take_over(&mut self.network);
                self.network.maybe_term(beat);
            }
            Step::Reconnect => {
                self.network.lose_all();
                self.tell(Event::Reconnected);
            }
        }
    }
}

impl Program {
    fn want(&mut self, op: u64, bytes: u64) {
        self.wanted.push((op, peer::content(op, bytes)));
    }

    fn take(&mut self, action: &client_agent_core::Action) {
        use client_agent_core::Action;
        match action {
            Action::Part { op, offset, bytes } => {
                let (start, end) = (*offset as usize, *offset as usize + bytes.len());
                let whole = self.arrived.entry(*op).or_default();
                whole.resize(whole.len().max(end), 0xee);
                whole[start..end].copy_from_slice(bytes);
            }
            Action::Result {
                op,
                kind: ResultKind::CopyOut,
                ..
            } => {
                let bytes = self.arrived.remove(op).unwrap_or_default();
                self.given.push((*op, bytes));
            }
            Action::Result { op, bytes, .. } => self.given.push((*op, bytes.clone())),
            Action::Failed { failure, .. } => panic!("{failure}"),
            Action::Image { transfer, refused } => {
                assert_eq!(refused.is_some(), peer::is_bad(*transfer));
                assert!(self.judged.insert(*transfer), "told twice of {transfer}");
            }
            Action::Ended => self.ended = true,
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_op_arrives_once_in_order_and_every_result_comes_back(
        steps in steps(),
        seed: u64,
        loss in 0_u8..60,
        window in 1_u64..300,
    ) {
        let mut world = World::new(seed, loss, window);
        for step in &steps {
            world.run(step);
        }
        world.tell(Event::Close(CloseReason::Asked));
        let mut rounds = 0;
        while !world.program.ended {
            world.step();
            rounds += 1;
            prop_assert!(rounds < 200_000, "it never ends");
        }
        prop_assert_eq!(&world.peers.worker_ops(), &world.pushed);
        prop_assert_eq!(world.peers.leader_ops(), world.pushed.len() as u64);
        prop_assert_eq!(world.program.given, world.program.wanted);
        prop_assert_eq!(world.outbox.next_wakeup(), None);
    }
}

#[test]
fn nothing_is_waited_for_once_all_is_done() {
    let mut world = World::new(3, 0, 100);
    for _ in 0..40 {
        world.run(&Step::Launch(1));
    }
    world.run(&Step::Sync);
    let mut rounds = 0;
    while world.outbox.next_wakeup().is_some() || world.network.next_at().is_some() {
        world.step();
        rounds += 1;
        assert!(rounds < 1000, "{:?}", world.outbox);
    }
    assert_eq!(world.outbox.done(), 41);
    assert_eq!(world.program.given.len(), 1);
}

#[test]
fn a_transfer_that_is_whole_before_its_copy_is_pushed_holds_nothing_back() {
    let mut world = World::new(4, 0, 100);
    // A program's thread is preempted between the two.
    world.run(&Step::Stage(1000, 3000));
    world.run(&Step::Sync);
    let mut rounds = 0;
    while world.program.given.is_empty() {
        world.step();
        rounds += 1;
        assert!(rounds < 1000, "{:?}", world.outbox);
    }
    assert_eq!(world.peers.leader_ops(), 2);
}

#[test]
fn the_worker_says_of_every_image_whether_it_can_run() {
    for loss in [0, 50] {
        let mut world = World::new(11, loss, 100);
        for bytes in [100, 40_000, 100, 400_000, 7] {
            world.run(&Step::Module(bytes));
        }
        world.run(&Step::Stage(30_000, 0));
        let mut rounds = 0;
        while world.outbox.next_wakeup().is_some() || world.network.next_at().is_some() {
            world.step();
            rounds += 1;
            assert!(rounds < 10_000, "{:?}", world.outbox);
        }
        assert_eq!(world.program.images, world.program.judged);
    }
}

#[test]
fn many_small_transfers_wait_for_the_worker_to_finish_some() {
    let mut world = World::new(5, 10, 1000);
    for _ in 0..1500 {
        world.run(&Step::Stage(1, 0));
    }
    world.tell(Event::Close(CloseReason::Asked));
    while !world.program.ended {
        world.step();
    }
    assert_eq!(world.peers.worker_ops(), world.pushed);
}
