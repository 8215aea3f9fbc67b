//! A worker and a leader that keep the protocol, and the link between them and a client.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{
    Batch, ClientState, CloseRequest, Code, Column, ContentHash, CopyOffer, CostRun, DataChunk,
    DeviceResult, Epoch, Failure, HeldChunks, Intent, LeaderBeat, LeaderId, LeaderNotice, Op,
    OpNumber, Prepared, RefusedImage, ResultKind, Staged, WIRE_VERSION, WorkerAck, decode, encode,
    limits,
};
use client_agent_core::{Action, Event, Outbox};

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// The receiver of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Client,
    Worker,
    Leader,
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Batch,
    State,
    Chunk,
    Offer,
    Intent,
    Close,
    Ack,
    Result,
    Notice,
    Term,
}

#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) to: To,
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
}

/// A link with a clock.
pub(crate) struct Network {
    pub(crate) now: u64,
    random: Random,
    loss: u8,
    on_the_way: BTreeMap<(u64, u64), Message>,
    sent: u64,
}

impl Network {
    pub(crate) fn new(random: Random, loss: u8) -> Self {
        Self {
            now: 0,
            random,
            loss,
            on_the_way: BTreeMap::new(),
            sent: 0,
        }
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.on_the_way.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn take(&mut self) -> Option<Message> {
        let ((at, _), message) = self.on_the_way.pop_first()?;
        self.now = self.now.max(at);
        Some(message)
    }

    pub(crate) fn lose_all(&mut self) {
        self.on_the_way.clear();
    }

    fn send(&mut self, to: To, kind: Kind, bytes: Vec<u8>) {
        for copy in 0..2 {
            let lost = self.random.below(100) < u64::from(self.loss);
            let doubled = copy == 1 && self.random.below(10) > 0;
            if lost || doubled {
                continue;
            }
            self.sent += 1;
            let at = self.now + 50_000 + self.random.below(400_000);
            let message = Message {
                to,
                kind,
                bytes: bytes.clone(),
            };
            self.on_the_way.insert((at, self.sent), message);
        }
    }

    pub(crate) fn maybe_term(&mut self, beat: LeaderBeat) {
        self.send(To::Client, Kind::Term, encode(&beat));
    }

    /// Carries out a client's action, and checks its invariants.
    pub(crate) fn client_does(&mut self, outbox: &Outbox, peers: &Peers, action: &Action) {
        match action {
            Action::PublishBatch { bytes, last, .. } => {
                assert!(*last <= peers.most_send_through, "no op above the credit");
                self.send(To::Worker, Kind::Batch, bytes.to_vec());
            }
            Action::PublishIntent { bytes } => {
                let intent: Intent<'_> = decode(bytes).unwrap();
                let last = intent.first + u64::from(intent.count) - 1;
                assert!(last <= outbox.sent(), "announced and not sent");
                assert!(last <= peers.announceable(), "announced before its bytes");
                self.send(To::Leader, Kind::Intent, bytes.to_vec());
            }
            Action::PublishState { bytes } => self.send(To::Worker, Kind::State, bytes.to_vec()),
            Action::PublishChunk {
                transfer,
                offset,
                len,
            } => {
                let chunk = outbox.chunk(*transfer, *offset, *len);
                self.send(To::Worker, Kind::Chunk, chunk.unwrap().to_vec());
            }
            Action::PublishOffer { bytes } => self.send(To::Worker, Kind::Offer, bytes.to_vec()),
            Action::PublishClose { bytes } => self.send(To::Leader, Kind::Close, bytes.to_vec()),
            Action::Image { .. } | Action::Part { .. } => {}
            Action::Result { .. } | Action::Failed { .. } | Action::Ended => {}
        }
    }
}

/// Passes a message to a client.
pub(crate) fn hear(message: &Message, handle: impl FnOnce(Event<'_>)) {
    match message.kind {
        Kind::Ack => handle(Event::WorkerAck(&decode(&message.bytes).unwrap())),
        Kind::Result => {
            let bytes: bytes::Bytes = message.bytes.clone().into();
            handle(Event::Result(decode(&bytes).unwrap(), &bytes));
        }
        Kind::Notice => handle(Event::LeaderNotice(&decode(&message.bytes).unwrap())),
        Kind::Term => handle(Event::Term(decode(&message.bytes).unwrap())),
        other => panic!("{other:?} is not for a client"),
    }
}

/// The device's answer to a copy of an op.
pub(crate) fn content(op: OpNumber, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (op + at) as u8).collect()
}

struct Incoming {
    total: u64,
    have: Vec<bool>,
    /// Chunks that were held at the time of the offer, a bit for each.
    held: u64,
}

impl Incoming {
    fn new(total: u64) -> Self {
        Self {
            total,
            have: vec![false; total as usize],
            held: 0,
        }
    }

    fn gapless(&self) -> u64 {
        self.have.iter().take_while(|have| **have).count() as u64
    }
}

/// True if the worker holds the chunk with this hash.
fn is_held(hash: ContentHash) -> bool {
    hash.0[0].is_multiple_of(2)
}

/// True if the worker refuses the image of this transfer.
pub(crate) fn is_bad(transfer: u64) -> bool {
    transfer.is_multiple_of(2)
}

/// The worker and the leader. The worker runs an op as soon as it has it and the leader knows it:
/// the order between the two is not tested here.
pub(crate) struct Peers {
    window: u64,
    ops: Vec<Op>,
    done: OpNumber,
    transfers: BTreeMap<u64, Incoming>,
    /// Transfers of images with a verdict in the next acknowledgement.
    judged: Vec<u64>,
    /// Answers in the next acknowledgement.
    held: Vec<HeldChunks>,
    results: VecDeque<(u64, OpNumber, ResultKind, Vec<u8>)>,
    result_count: u64,
    epoch: Epoch,
    queued: OpNumber,
    /// Costs of ops as announced, in this epoch or an earlier one.
    costs: Vec<CostRun>,
    pub(crate) most_send_through: OpNumber,
}

impl Peers {
    pub(crate) fn new(window: u64) -> Self {
        Self {
            window,
            ops: Vec::new(),
            done: 0,
            transfers: BTreeMap::new(),
            judged: Vec::new(),
            held: Vec::new(),
            results: VecDeque::new(),
            result_count: 0,
            epoch: 1,
            queued: 0,
            costs: Vec::new(),
            most_send_through: limits::FIRST_OPS,
        }
    }

    pub(crate) fn worker_ops(&self) -> Vec<Op> {
        self.ops.clone()
    }

    pub(crate) fn leader_ops(&self) -> u64 {
        self.queued
    }

    /// The last op before the first one with bytes that are not whole here.
    pub(crate) fn announceable(&self) -> OpNumber {
        let missing = self.ops.iter().position(|op| match op {
            Op::CopyIn { transfer, .. } if *transfer != 0 => !self.is_whole(*transfer),
            _ => false,
        });
        missing.map_or(u64::MAX, |index| index as u64)
    }

    fn is_whole(&self, transfer: u64) -> bool {
        self.transfers
            .get(&transfer)
            .is_some_and(|incoming| incoming.gapless() == incoming.total)
    }

    /// Makes a new leader, which knows only the accepted ops: here, those done.
    pub(crate) fn take_over(&mut self, network: &mut Network) -> LeaderBeat {
        self.epoch += 1;
        self.queued = self.done;
        self.notice(network, false);
        LeaderBeat {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: LeaderId(self.epoch),
            leaving: false,
        }
    }

    pub(crate) fn hear(&mut self, network: &mut Network, message: &Message) {
        match message.kind {
            Kind::Batch => self.on_batch(decode(&message.bytes).unwrap()),
            Kind::Chunk => self.on_chunk(&decode(&message.bytes).unwrap()),
            Kind::Offer => self.on_offer(&decode(&message.bytes).unwrap()),
            Kind::State => {
                let state: ClientState = decode(&message.bytes).unwrap();
                self.forget(state.results);
                for (number, op, kind, bytes) in &self.results {
                    send_result(network, *number, *op, *kind, bytes);
                }
            }
            Kind::Intent => self.on_intent(&decode(&message.bytes).unwrap()),
            Kind::Close => {
                let request: CloseRequest = decode(&message.bytes).unwrap();
                let ended = self.done >= request.after;
                self.notice(network, ended);
            }
            other => panic!("{other:?} is for a client"),
        }
        self.execute(network);
        match message.to {
            To::Worker => self.acknowledge(network),
            To::Leader => self.notice(network, false),
            To::Client => {}
        }
    }

    fn on_batch(&mut self, batch: Batch<'_>) {
        self.forget(batch.results);
        let have = self.ops.len() as u64;
        if batch.first <= have + 1 {
            let skip = (have + 1 - batch.first) as usize;
            let ops = batch.ops().expect("a batch of ours is well-formed");
            self.ops.extend(ops.iter().skip(skip).map(|one| one.op));
        }
    }

    fn on_offer(&mut self, offer: &CopyOffer<'_>) {
        let hashes: Vec<_> = offer.chunks().expect("well-formed").collect();
        let pieces = (0..offer.total).step_by(limits::PIECE_BYTES);
        let chunks = hashes.chunks(limits::PIECE_BYTES / limits::CONTENT_BYTES);
        for ((transfer, start), hashes) in (offer.transfer..).zip(pieces).zip(chunks) {
            let total = (offer.total - start).min(limits::PIECE_BYTES as u64);
            let known = self.transfers.get(&transfer).map(|incoming| incoming.held);
            let chunks = known.unwrap_or_else(|| {
                let incoming = self.transfers.entry(transfer);
                let incoming = incoming.or_insert_with(|| Incoming::new(total));
                for (index, _) in hashes.iter().enumerate().filter(|(_, it)| is_held(**it)) {
                    let start = index * limits::CONTENT_BYTES;
                    let end = (start + limits::CONTENT_BYTES).min(total as usize);
                    incoming.have[start..end].fill(true);
                    incoming.held |= 1 << index;
                }
                incoming.held
            });
            self.held.push(HeldChunks { transfer, chunks });
        }
    }

    fn on_chunk(&mut self, chunk: &DataChunk<'_>) {
        let incoming = self
            .transfers
            .entry(chunk.transfer)
            .or_insert_with(|| Incoming::new(chunk.total));
        let of = chunk.offset as usize / limits::CONTENT_BYTES;
        assert!(incoming.held >> of & 1 == 0, "sent, and it was held");
        let start = chunk.offset as usize;
        let new = !incoming.have[start..start + chunk.bytes.len()]
            .iter()
            .all(|have| *have);
        incoming.have[start..start + chunk.bytes.len()].fill(true);
        // Reported once when it is whole, and whenever it is asked for.
        let asked = new || chunk.bytes.is_empty();
        if chunk.module().is_some() && asked && incoming.gapless() == incoming.total {
            self.judged.push(chunk.transfer);
        }
    }

    fn on_intent(&mut self, intent: &Intent<'_>) {
        let rows: u64 = intent.runs.iter().map(|run| u64::from(run.count)).sum();
        assert_eq!(rows, u64::from(intent.count), "the rows are the ops");
        let mut op = intent.first;
        for run in intent.runs.iter() {
            for _ in 0..run.count {
                let one = CostRun { count: 1, ..run };
                match self.costs.get(op as usize - 1) {
                    // A later leader is told the same.
                    Some(cost) => assert_eq!(*cost, one),
                    None if self.costs.len() as u64 + 1 == op => self.costs.push(one),
                    None => {}
                }
                op += 1;
            }
        }
        if intent.first <= self.queued + 1 {
            self.queued = self.queued.max(op - 1);
        }
    }

    fn execute(&mut self, network: &mut Network) {
        while self.done < self.queued.min(self.ops.len() as u64) {
            let op = self.ops[self.done as usize];
            if let Op::CopyIn { transfer, .. } = op {
                assert!(transfer == 0 || self.is_whole(transfer));
            }
            self.done += 1;
            let (kind, bytes) = match op {
                Op::Sync => (ResultKind::Sync, Vec::new()),
                Op::CopyOut { bytes, .. } => (ResultKind::CopyOut, content(self.done, bytes)),
                _ => continue,
            };
            self.result_count += 1;
            send_result(network, self.result_count, self.done, kind, &bytes);
            self.results
                .push_back((self.result_count, self.done, kind, bytes));
        }
    }

    fn forget(&mut self, results: u64) {
        self.results.retain(|(number, ..)| *number > results);
    }

    fn acknowledge(&mut self, network: &mut Network) {
        let rows: Vec<Staged> = self
            .transfers
            .iter()
            .map(|(transfer, incoming)| Staged {
                transfer: *transfer,
                received: incoming.gapless(),
            })
            .collect();
        let judged = std::mem::take(&mut self.judged);
        let (refused, ready): (Vec<_>, Vec<_>) = judged.into_iter().partition(|it| is_bad(*it));
        let ready: Vec<_> = ready.into_iter().map(Prepared).collect();
        let refused = refused.into_iter().map(|transfer| RefusedImage {
            transfer,
            failure: Failure::new(Code::BadModule, "line 1"),
        });
        let (mut packed, mut prepared, mut rows_held) = (Vec::new(), Vec::new(), Vec::new());
        let held = std::mem::take(&mut self.held);
        self.most_send_through = self.most_send_through.max(self.done + self.window);
        let ack = WorkerAck {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: LeaderId(self.epoch),
            received: self.ops.len() as u64,
            done: self.done,
            send_through: self.done + self.window,
            staging: 600_000,
            results: self.result_count,
            staged: Column::pack(&rows, &mut packed),
            failure: None,
            failed_op: 0,
            prepared: Column::pack(&ready, &mut prepared),
            refused: refused.collect(),
            held: Column::pack(&held, &mut rows_held),
        };
        network.send(To::Client, Kind::Ack, encode(&ack));
    }

    fn notice(&mut self, network: &mut Network, ended: bool) {
        let notice = LeaderNotice {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: LeaderId(self.epoch),
            queued: self.queued,
            granted: self.done,
            queue_through: self.done + self.window,
            ended: ended.then(|| Failure::new(Code::SessionGone, "closed")),
            // Set now and then, and withdrawn.
            alone: self.done % 3 == 1,
        };
        network.send(To::Client, Kind::Notice, encode(&notice));
    }
}

fn send_result(network: &mut Network, number: u64, op: OpNumber, kind: ResultKind, bytes: &[u8]) {
    let total = bytes.len() as u64;
    let mut offset = 0;
    loop {
        let end = (offset + 700).min(bytes.len());
        let part = DeviceResult {
            v: WIRE_VERSION,
            number,
            op,
            kind,
            device_ns: 1,
            total,
            offset: offset as u64,
            bytes: &bytes[offset..end],
            events: Column::default(),
        };
        network.send(To::Client, Kind::Result, encode(&part));
        offset = end;
        if offset >= bytes.len() {
            break;
        }
    }
}
