//! Bytes that do not fit a batch, and the ops that need them.

use std::collections::VecDeque;

use bus_schemas::{ContentHash, ModuleHash, OpNumber, Parcel, WorkerAck};
use bytes::Bytes;

use crate::event::{Action, Nanos, OutboxSettings};
use crate::transfer::{Chunk, Transfers};

/// Maximum number of unfinished transfers: half of what a worker keeps track of.
const TRANSFERS: u64 = 512;

/// Transfers to the worker, with the ops that name them.
#[derive(Debug)]
pub(super) struct Staging {
    transfers: Transfers,
    /// Ops that may be announced only once a transfer is whole, each with the transfer.
    gates: VecDeque<(OpNumber, u64)>,
    /// Copies that are not done, with their transfers; the worker keeps those until then.
    copies: VecDeque<(OpNumber, u64)>,
    /// True if a transfer found no room.
    starved: bool,
    /// Maximum bytes that the worker has not received.
    room: u64,
    /// Nanoseconds that a byte may spend in the broker.
    byte_ns: Nanos,
}

impl Staging {
    pub(super) fn new(settings: &OutboxSettings) -> Self {
        Self {
            transfers: Transfers::new(),
            gates: VecDeque::new(),
            copies: VecDeque::new(),
            starved: false,
            room: settings.staged_bytes,
            byte_ns: settings.byte_ns,
        }
    }

    /// True if there is room for the next transfer.
    pub(super) fn has_room(&self) -> bool {
        let copied = self.copies.front().map_or(u64::MAX, |copy| copy.1);
        let unfinished = copied.min(self.transfers.first());
        self.has_room_for_bytes() && self.transfers.next() - unfinished < TRANSFERS
    }

    /// True if there is room for the bytes of a transfer that has a number.
    pub(super) fn has_room_for_bytes(&self) -> bool {
        self.transfers.unreceived() < self.room
    }

    /// True if there is room for the next transfer; otherwise notes that one waits for it.
    pub(super) fn admit(&mut self) -> bool {
        self.starved = !self.has_room();
        !self.starved
    }

    /// True if a transfer still waits for room.
    pub(super) fn still_starves(&mut self) -> bool {
        self.starved &= !self.has_room();
        self.starved
    }

    /// Makes room for the bytes of a transfer.
    pub(super) fn parcel(&mut self, bytes: usize) -> Parcel {
        self.transfers.parcel(bytes)
    }

    /// Takes a filled parcel and returns its transfer's number.
    pub(super) fn add(&mut self, parcel: Parcel, module: Option<ModuleHash>) -> u64 {
        self.transfers.add(parcel, module)
    }

    /// Offers a copy by its chunks' hashes and returns the number of its first transfer.
    pub(super) fn offer(&mut self, total: u64, hashes: &[ContentHash]) -> u64 {
        self.transfers.offer(total, hashes)
    }

    /// True if the bytes of an offered transfer are wanted; `None` without an answer.
    pub(super) fn wants_bytes(&self, transfer: u64) -> Option<bool> {
        self.transfers.wants_bytes(transfer)
    }

    /// Takes all bytes of an offered transfer.
    pub(super) fn supply(&mut self, transfer: u64, parcel: Parcel) {
        self.transfers.supply(transfer, parcel);
    }

    /// True if the transfer has that many bytes.
    pub(super) fn fits(&self, transfer: u64, bytes: u64) -> bool {
        self.transfers.fits(transfer, bytes)
    }

    /// Notes an op that copies a transfer.
    pub(super) fn copy(&mut self, number: OpNumber, transfer: u64) {
        // After staging, its thread may have been preempted until all bytes had arrived; then no
        // acknowledgement would come to open the gate.
        if !self.transfers.is_whole(transfer) {
            self.gates.push_back((number, transfer));
        }
        self.copies.push_back((number, transfer));
    }

    /// Notes an op that loads a module.
    pub(super) fn load(&mut self, number: OpNumber, hash: &ModuleHash) {
        let transfer = self.transfers.module(hash);
        self.gates
            .extend(transfer.map(|transfer| (number, transfer)));
    }

    /// The last op with no transfer at or before it under way.
    pub(super) fn arrived(&self) -> OpNumber {
        self.gates.front().map_or(u64::MAX, |(op, _)| op - 1)
    }

    /// Notes that ops are done.
    pub(super) fn done(&mut self, done: OpNumber) {
        let gone = |(op, _): &mut (OpNumber, u64)| *op <= done;
        while self.copies.pop_front_if(gone).is_some() {}
    }

    /// Takes the worker's acknowledgement; returns true if it has more.
    pub(super) fn acknowledge(&mut self, ack: &WorkerAck<'_>) -> bool {
        let moved = self.transfers.acknowledge(ack);
        if moved {
            let transfers = &self.transfers;
            let whole = |(_, transfer): &mut (OpNumber, u64)| transfers.is_whole(*transfer);
            while self.gates.pop_front_if(whole).is_some() {}
        }
        moved
    }

    /// Handles the worker's verdicts on images; returns true if any is new.
    pub(super) fn judge(&mut self, ack: &WorkerAck<'_>, actions: &mut Vec<Action>) -> bool {
        let ready = ack.prepared.iter().map(|row| (row.0, None));
        let refused = ack.refused.iter();
        let refused = refused.map(|it| (it.transfer, Some(it.failure.clone())));
        let before = actions.len();
        for (transfer, refused) in ready.chain(refused) {
            if self.transfers.judge(transfer) {
                actions.push(Action::Image { transfer, refused });
            }
        }
        actions.len() > before
    }

    /// True if there are transfers or questions that were not sent.
    #[inline]
    pub(super) fn has_new(&self) -> bool {
        self.transfers.has_new()
    }

    /// True if an answer of the worker is missing.
    pub(super) fn is_busy(&self) -> bool {
        self.transfers.is_busy() || self.transfers.has_images()
    }

    /// Time that the bytes on the way may spend in the broker.
    pub(super) fn transit(&self) -> Nanos {
        self.transfers.on_the_way() * self.byte_ns
    }

    /// Publishes the new questions for content, and chunks. Returns true if there were chunks.
    pub(super) fn send(&mut self, actions: &mut Vec<Action>) -> bool {
        self.ask_for_content(false, actions);
        let before = actions.len();
        while let Some(chunk) = self.transfers.next_chunk() {
            actions.push(published(chunk));
        }
        actions.len() > before
    }

    /// Begins again with the first chunk that the worker may lack. Repeats all unanswered
    /// questions: for content, and for the verdict on each image that the worker has whole.
    pub(super) fn resend(&mut self, actions: &mut Vec<Action>) {
        self.transfers.rewind();
        self.ask_for_content(true, actions);
        actions.extend(self.transfers.image_questions().map(published));
    }

    /// The message of a chunk; `None` if it is no longer needed.
    pub(super) fn message(&self, chunk: Chunk) -> Option<Bytes> {
        self.transfers.message(chunk)
    }

    /// Forgets all transfers: none follows.
    pub(super) fn clear(&mut self) {
        self.transfers.clear();
        self.gates = VecDeque::new();
        self.copies = VecDeque::new();
    }

    fn ask_for_content(&mut self, again: bool, actions: &mut Vec<Action>) {
        let questions = self.transfers.questions(again).into_iter();
        actions.extend(questions.map(|bytes| Action::PublishOffer { bytes }));
    }
}

/// The publication of a chunk.
fn published(chunk: Chunk) -> Action {
    Action::PublishChunk {
        transfer: chunk.transfer,
        offset: chunk.offset,
        len: chunk.len,
    }
}
