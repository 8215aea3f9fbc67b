//! The record: inputs as a stream of bytes, cut into numbered blocks.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use bus_schemas::{Epoch, GpuPosition, Incarnation, InputNumber, LeaderId, WIRE_VERSION, limits};
use serde::{Deserialize, Serialize};

use super::config::LeaderConfig;
use super::event::Action;
use super::record_times::{Said, TimesBuffer};
use crate::input::Input;
use crate::policy::ORDER_VERSION;
use crate::time::Nanos;

/// Maximum bytes of the stream and of times in one block: the rest is the block's own fields.
const STREAM_BYTES: usize = limits::RECORD_BLOCK_BYTES - HEAD_BYTES;
/// Maximum bytes of a block's own fields.
const HEAD_BYTES: usize = 128;

/// One block: a part of an epoch's stream of inputs. In the stream each input is its length (32
/// bit, little-endian) and its MessagePack; an input may span blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "B: serde_bytes::Serialize"))]
#[serde(bound(deserialize = "B: serde_bytes::Deserialize<'de> + Default"))]
pub(crate) struct Block<B = Vec<u8>> {
    /// Wire version.
    pub(crate) v: u16,
    /// The rules by which the inputs were ordered.
    pub(crate) order_version: u32,
    /// The epoch.
    pub(crate) epoch: Epoch,
    /// The leader that wrote it. A broker that lost its tail may see an epoch twice, under two
    /// leaders, each of which may have sealed other workers.
    pub(crate) leader: LeaderId,
    /// Its number in the epoch, from 1.
    pub(crate) number: u64,
    /// Last input that is complete with this block.
    pub(crate) through: InputNumber,
    /// True if inputs after `through` went unrecorded: no more of this epoch follows.
    pub(crate) gap: bool,
    /// The unrecorded positions, worker by worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) gaps: Vec<Gap>,
    /// The part of the stream.
    #[serde(with = "serde_bytes")]
    pub(crate) bytes: B,
    /// Arrival times of the inputs that are complete with this block ([`super::record_times`]);
    /// absent in older records.
    #[serde(default, with = "serde_bytes")]
    pub(crate) times: B,
}

/// Positions of a worker that were decided by unrecorded inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The worker.
    pub incarnation: Incarnation,
    /// The first of these positions.
    pub first: GpuPosition,
    /// The last of these positions that was granted.
    pub last: GpuPosition,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (worker, first, reason) = (self.incarnation, self.first, &self.reason);
        match self.last {
            GpuPosition::MAX => write!(f, "worker {worker}: from {first} on unrecorded: {reason}"),
            last => write!(f, "worker {worker}: {first} to {last} unrecorded: {reason}"),
        }
    }
}

/// Maximum number of unacknowledged blocks before the next one waits until it is full. While
/// nothing is acknowledged, many small blocks would be of no use.
const UNDER_WAY: usize = 64;

#[derive(Debug)]
struct Sent {
    number: u64,
    through: InputNumber,
    bytes: usize,
}

/// The bytes that workers hand over when they are sealed.
///
/// A tail may be larger than the buffer and than an epoch. It must end neither: the next term would
/// begin with the same tail.
#[derive(Debug, Default)]
struct HandedOver {
    /// The inputs among them that are not recorded: number and bytes.
    waiting: VecDeque<(InputNumber, usize)>,
    unrecorded: usize,
    all: u64,
}

impl HandedOver {
    fn push(&mut self, input: InputNumber, bytes: usize) {
        self.waiting.push_back((input, bytes));
        self.unrecorded += bytes;
        self.all += bytes as u64;
    }

    fn recorded(&mut self, through: InputNumber) {
        let is_recorded = |waiting: &mut (InputNumber, usize)| waiting.0 <= through;
        while let Some((_, bytes)) = self.waiting.pop_front_if(is_recorded) {
            self.unrecorded -= bytes;
        }
    }
}

/// One epoch's record while it is written.
#[derive(Debug)]
pub(super) struct Recorder {
    epoch: Epoch,
    leader: LeaderId,
    /// See [`LeaderConfig::clock_zero`].
    clock_zero: Nanos,
    buffer: Vec<u8>,
    /// Arrival times of the inputs in the buffer.
    times: TimesBuffer,
    /// Time at which the oldest input in the buffer must be sent.
    due: Option<Nanos>,
    last: InputNumber,
    blocks: u64,
    sent: VecDeque<Sent>,
    /// Blocks that were acknowledged out of order.
    ahead: BTreeSet<u64>,
    unacknowledged: usize,
    recorded: InputNumber,
    /// Bytes of all blocks.
    written: u64,
    handed_over: HandedOver,
    gap: Unrecorded,
}

/// State of inputs that cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unrecorded {
    /// All inputs are recorded.
    None,
    /// All inputs since some time are unrecorded.
    Since,
    /// The block that names the gap is cut.
    Named,
}

impl Recorder {
    pub(super) fn new(epoch: Epoch, leader: LeaderId, clock_zero: Nanos) -> Self {
        Self {
            epoch,
            leader,
            clock_zero,
            buffer: Vec::new(),
            times: TimesBuffer::default(),
            due: None,
            last: 0,
            blocks: 0,
            sent: VecDeque::new(),
            ahead: BTreeSet::new(),
            unacknowledged: 0,
            recorded: 0,
            written: 0,
            handed_over: HandedOver::default(),
            gap: Unrecorded::None,
        }
    }

    /// Number of the last input, recorded or not.
    pub(super) fn last(&self) -> InputNumber {
        self.last
    }

    /// Adds the next input. Returns true if it is the first one that goes unrecorded, because more
    /// than `most` bytes wait to be acknowledged beside those that workers handed over.
    pub(super) fn push(
        &mut self,
        now: Nanos,
        (input, said): (&Input, Said<'_>),
        (most, config): (usize, &LeaderConfig),
        actions: &mut Vec<Action>,
    ) -> bool {
        if self.gap != Unrecorded::None {
            self.last += 1;
            return false;
        }
        let waiting = self.unacknowledged + self.buffered();
        let waiting = waiting.saturating_sub(self.handed_over.unrecorded);
        if waiting > most.min(config.record_bytes) {
            self.cut_all(actions);
            self.gap = Unrecorded::Since;
            self.last += 1;
            return true;
        }
        // Together with the earlier inputs' part of a block, there would be no room for its times.
        let coming = said.room();
        if self.buffered() + coming > STREAM_BYTES {
            self.cut_all(actions);
        }
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        let written = rmp_serde::encode::write_named(&mut self.buffer, input);
        // Inputs are plain data: neither their encoding nor their length can fail.
        let length = u32::try_from(self.buffer.len() - start - 4);
        if let (Ok(()), Ok(length)) = (written, length) {
            let head = self.buffer.iter_mut().skip(start);
            head.zip(length.to_le_bytes())
                .for_each(|(at, byte)| *at = byte);
        } else {
            self.buffer.truncate(start);
        }
        if input.is_handed_over() {
            let bytes = self.buffer.len() - start;
            self.handed_over.push(self.last + 1, bytes);
        }
        // The earlier inputs are complete with this block, this one with the rest.
        while self.buffered() + coming > STREAM_BYTES {
            let bytes = STREAM_BYTES.saturating_sub(self.times.len() + coming);
            self.cut(bytes, self.last, Vec::new(), actions);
        }
        self.last += 1;
        self.times.push(self.clock_zero.saturating_add(now), said);
        self.due
            .get_or_insert(now.saturating_add(config.record_linger));
        false
    }

    /// Sends what is due.
    pub(super) fn flush(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        if self.next_wakeup().is_some_and(|due| now >= due) {
            self.cut_all(actions);
        }
    }

    /// Sends everything.
    pub(super) fn cut_all(&mut self, actions: &mut Vec<Action>) {
        if !self.buffer.is_empty() {
            self.cut(self.buffer.len(), self.last, Vec::new(), actions);
        }
        self.due = None;
    }

    /// Returns true if all inputs before the unrecorded ones are recorded: the gap must be named.
    pub(super) fn wants_gap(&self) -> bool {
        self.gap == Unrecorded::Since && self.is_whole()
    }

    /// Cuts the block that names the unrecorded positions.
    pub(super) fn name_gap(&mut self, gaps: Vec<Gap>, actions: &mut Vec<Action>) {
        self.gap = Unrecorded::Named;
        self.cut(0, self.recorded, gaps, actions);
    }

    fn cut(&mut self, bytes: usize, whole: InputNumber, gaps: Vec<Gap>, actions: &mut Vec<Action>) {
        let bytes = bytes.min(self.buffer.len());
        let all = bytes + self.times.len();
        self.blocks += 1;
        self.written += all as u64;
        self.unacknowledged += all;
        self.sent.push_back(Sent {
            number: self.blocks,
            through: whole,
            bytes: all,
        });
        let block = Block {
            v: WIRE_VERSION,
            order_version: ORDER_VERSION,
            epoch: self.epoch,
            leader: self.leader,
            number: self.blocks,
            through: whole,
            gap: self.gap == Unrecorded::Named,
            gaps,
            bytes: self.buffer.get(..bytes).unwrap_or_default(),
            times: self.times.bytes(),
        };
        let mut written = Vec::with_capacity(all + HEAD_BYTES);
        if rmp_serde::encode::write_named(&mut written, &block).is_ok() {
            actions.push(Action::Append {
                epoch: self.epoch,
                number: self.blocks,
                bytes: written,
            });
        }
        self.buffer.drain(..bytes);
        self.times.clear();
    }

    /// Notes that a block was acknowledged. Returns true if more inputs are recorded now.
    pub(super) fn acknowledged(&mut self, number: u64) -> bool {
        let oldest = self.sent.front().map_or(u64::MAX, |sent| sent.number);
        if number < oldest || number > self.blocks {
            return false;
        }
        self.ahead.insert(number);
        let before = self.recorded;
        while let Some(sent) = self.sent.front()
            && self.ahead.remove(&sent.number)
        {
            self.recorded = sent.through;
            self.unacknowledged -= sent.bytes;
            self.sent.pop_front();
        }
        self.handed_over.recorded(self.recorded);
        self.recorded > before
    }

    /// The last input for which workers need not keep grants: it is recorded, or named in a
    /// recorded gap. Until then only the workers can tell of unrecorded inputs, for this leader may
    /// die before it names the gap.
    pub(super) fn recorded(&self) -> InputNumber {
        match self.gap_is_recorded() {
            false => self.recorded,
            true => self.last,
        }
    }

    /// Returns true if every input taken in is sent and acknowledged.
    pub(super) fn is_whole(&self) -> bool {
        self.sent.is_empty() && self.buffer.is_empty()
    }

    /// Returns true if a gap was recorded, and acknowledged with all blocks before it.
    pub(super) fn gap_is_recorded(&self) -> bool {
        self.gap == Unrecorded::Named && self.is_whole()
    }

    /// Bytes of the epoch's inputs so far, without those that workers handed over.
    pub(super) fn bytes(&self) -> u64 {
        let all = self.written + self.buffered() as u64;
        all.saturating_sub(self.handed_over.all)
    }

    /// Bytes that wait to be cut.
    fn buffered(&self) -> usize {
        self.buffer.len() + self.times.len()
    }

    /// Returns true if no more inputs are taken in: the gap is named.
    pub(super) fn is_closed(&self) -> bool {
        self.gap == Unrecorded::Named
    }

    /// Returns true if every input so far was taken in.
    pub(super) fn has_all(&self) -> bool {
        self.gap == Unrecorded::None
    }

    pub(super) fn next_wakeup(&self) -> Option<Nanos> {
        self.due.filter(|_| self.sent.len() < UNDER_WAY)
    }
}
