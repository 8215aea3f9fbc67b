//! The ops on their way to the worker.

use std::collections::VecDeque;

use bus_schemas::{Batch, Op, OpNumber, WIRE_VERSION, WorkerAck, limits};
use bytes::Bytes;

use crate::buffer::Buffers;
use crate::column::Columns;
use crate::event::{Action, OutboxSettings};

/// Batches that are resent at a time; the worker's answer triggers the next.
const RESENT: usize = 8;

/// A batch that the worker has not received.
#[derive(Debug)]
struct Sent {
    bytes: Bytes,
    first: OpNumber,
    last: OpNumber,
    /// Bytes of the batch's descriptors and payloads.
    size: usize,
}

/// The ops in order: pushed, in a batch, received by the worker.
#[derive(Debug)]
pub(super) struct Batches {
    last: OpNumber,
    sent_through: OpNumber,
    received: OpNumber,
    /// The last op of which the batch must not wait.
    urgent: OpNumber,
    /// The last op that the worker allows to be sent.
    send_through: OpNumber,
    columns: Columns,
    sent: VecDeque<Sent>,
    unreceived: usize,
    buffers: Buffers,
    /// Maximum ops and bytes of a batch.
    full: (u32, usize),
}

impl Batches {
    pub(super) fn new(settings: &OutboxSettings) -> Self {
        Self {
            last: 0,
            sent_through: 0,
            received: 0,
            urgent: 0,
            send_through: limits::FIRST_OPS,
            columns: Columns::default(),
            sent: VecDeque::new(),
            unreceived: 0,
            buffers: Buffers::default(),
            full: (settings.flush_ops, settings.flush_bytes),
        }
    }

    /// Number of the last op pushed.
    #[inline]
    pub(super) fn last(&self) -> OpNumber {
        self.last
    }

    /// Number of the last op in a batch.
    #[inline]
    pub(super) fn sent_through(&self) -> OpNumber {
        self.sent_through
    }

    /// Ops received by the worker without a gap.
    pub(super) fn received(&self) -> OpNumber {
        self.received
    }

    /// Bytes of ops that the worker has not received.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.columns.bytes() + self.unreceived
    }

    /// True if the worker has received all batches.
    pub(super) fn are_received(&self) -> bool {
        self.sent.is_empty()
    }

    /// True if the worker allows more ops to be sent.
    #[inline]
    pub(super) fn have_credit(&self) -> bool {
        self.sent_through < self.send_through
    }

    /// Takes the next op and returns its number.
    #[inline]
    pub(super) fn push(&mut self, op: &Op, stream: u16, payload: &[u8]) -> OpNumber {
        self.last += 1;
        self.columns.push(op, stream, payload);
        self.last
    }

    /// Notes that the batch of the last op must not wait.
    #[inline]
    pub(super) fn urge(&mut self, op: OpNumber) {
        self.urgent = op;
    }

    /// True if there are pending ops that must not wait for more.
    #[inline]
    pub(super) fn are_due(&self) -> bool {
        self.last > self.sent_through && self.is_due()
    }

    /// True if the pending ops must not wait for more: they are twice the ops that the worker may
    /// not have received. So the first ops of a burst arrive at once, and batches grow from then
    /// on. A device that needs twice as long to run ops as the program needs to push them never
    /// waits for more.
    #[inline]
    fn is_due(&self) -> bool {
        let under_way = self.sent_through - self.received;
        self.columns.ops() as u64 >= 2 * under_way || self.is_full_or_urgent()
    }

    #[inline]
    pub(super) fn is_full_or_urgent(&self) -> bool {
        self.sent_through < self.urgent
            || self.columns.ops() >= self.full.0 as usize
            || self.columns.bytes() >= self.full.1
    }

    /// Takes the worker's acknowledgement; returns true if it allows or has more.
    pub(super) fn acknowledge(&mut self, ack: &WorkerAck<'_>) -> bool {
        let mut moved = ack.send_through > self.send_through;
        self.send_through = self.send_through.max(ack.send_through);
        let received = ack.received.min(self.sent_through);
        if received > self.received {
            moved = true;
            self.received = received;
            while let Some(batch) = self.sent.pop_front_if(|batch| batch.last <= received) {
                self.unreceived -= batch.size;
            }
        }
        moved
    }

    /// Sends the pending ops that are due, or all, as far as the worker allows. `results` is the
    /// number of results delivered. Returns true if any were sent.
    pub(super) fn send(&mut self, all: bool, results: u64, actions: &mut Vec<Action>) -> bool {
        let before = self.sent_through;
        while self.last > self.sent_through && (all || self.is_due()) {
            let credit = self.send_through.saturating_sub(self.sent_through);
            let ops = credit.min(u64::from(self.full.0)) as usize;
            let cut = self.columns.front(ops, self.full.1);
            if cut.count == 0 {
                break;
            }
            let (descriptors, blob) = self.columns.slices(&cut);
            let size = descriptors.len() + blob.len();
            let first = self.sent_through + 1;
            let last = self.sent_through + u64::from(cut.count);
            let message = Batch {
                v: WIRE_VERSION,
                first,
                count: cut.count,
                results,
                descriptors,
                blob,
            };
            let bytes = self.buffers.encode(&message, size);
            self.columns.remove(&cut);
            self.sent_through = last;
            self.unreceived += size;
            self.sent.push_back(Sent {
                bytes: bytes.clone(),
                first,
                last,
                size,
            });
            actions.push(Action::PublishBatch {
                bytes,
                first,
                last,
                again: false,
            });
        }
        self.sent_through > before
    }

    /// Sends the first batches again that the worker may lack.
    pub(super) fn resend(&self, actions: &mut Vec<Action>) {
        let again = self.sent.iter().take(RESENT);
        actions.extend(again.map(|sent| Action::PublishBatch {
            bytes: sent.bytes.clone(),
            first: sent.first,
            last: sent.last,
            again: true,
        }));
    }

    /// Forgets all ops: none follows.
    pub(super) fn clear(&mut self) {
        self.columns = Columns::default();
        self.sent = VecDeque::new();
        self.unreceived = 0;
        self.buffers = Buffers::default();
    }
}
