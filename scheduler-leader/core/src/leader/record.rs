//! The record: inputs as a stream of bytes, cut into numbered blocks.

use std::collections::{BTreeSet, VecDeque};

use bus_schemas::{Epoch, InputNumber, LeaderId, WIRE_VERSION, limits};
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::event::Action;
use crate::input::Input;
use crate::policy::ORDER_VERSION;
use crate::time::Nanos;

/// Bytes of the stream in one block at most: the rest is the block's own fields.
const STREAM_BYTES: usize = limits::RECORD_BLOCK_BYTES - HEAD_BYTES;
/// Bytes of a block's own fields at most.
const HEAD_BYTES: usize = 128;

/// One block: a part of an epoch's stream of inputs. In the stream each input is its length (32
/// bit, little-endian) and its MessagePack; an input may lie across blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(serialize = "B: serde_bytes::Serialize"))]
#[serde(bound(deserialize = "B: serde_bytes::Deserialize<'de>"))]
pub(crate) struct Block<B = Vec<u8>> {
    /// Wire version.
    pub(crate) v: u16,
    /// The rules the inputs were ordered by.
    pub(crate) order_version: u32,
    /// The epoch.
    pub(crate) epoch: Epoch,
    /// Who wrote it: a broker that lost its tail may see an epoch twice, under two leaders, of which
    /// each may have sealed other workers.
    pub(crate) leader: LeaderId,
    /// Its number in the epoch, from 1.
    pub(crate) number: u64,
    /// Inputs that are whole with this block.
    pub(crate) through: InputNumber,
    /// Inputs after `through` went unrecorded: nothing of this epoch follows.
    pub(crate) gap: bool,
    /// The part of the stream.
    #[serde(with = "serde_bytes")]
    pub(crate) bytes: B,
}

#[derive(Debug)]
struct Sent {
    number: u64,
    through: InputNumber,
    bytes: usize,
}

/// One epoch's record as it is written.
#[derive(Debug)]
pub(super) struct Recorder {
    epoch: Epoch,
    leader: LeaderId,
    buffer: Vec<u8>,
    /// When the oldest input in the buffer must be sent.
    due: Option<Nanos>,
    last: InputNumber,
    blocks: u64,
    sent: VecDeque<Sent>,
    /// Acknowledged out of order.
    ahead: BTreeSet<u64>,
    unacknowledged: usize,
    recorded: InputNumber,
    gap: bool,
}

impl Recorder {
    pub(super) fn new(epoch: Epoch, leader: LeaderId) -> Self {
        Self {
            epoch,
            leader,
            buffer: Vec::new(),
            due: None,
            last: 0,
            blocks: 0,
            sent: VecDeque::new(),
            ahead: BTreeSet::new(),
            unacknowledged: 0,
            recorded: 0,
            gap: false,
        }
    }

    /// Takes the next input in.
    pub(super) fn push(
        &mut self,
        now: Nanos,
        input: &Input,
        config: &Config,
        actions: &mut Vec<Action>,
    ) {
        if self.gap {
            self.last += 1;
            return;
        }
        if self.unacknowledged + self.buffer.len() > config.record_bytes {
            self.cut_all(actions);
            self.gap = true;
            self.last += 1;
            self.cut(0, actions);
            return;
        }
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        let written = rmp_serde::encode::write_named(&mut self.buffer, input);
        // Inputs are plain data: neither their encoding nor their length can fail.
        let length = u32::try_from(self.buffer.len() - start - 4);
        if let (Ok(()), Ok(length)) = (written, length) {
            self.buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
        } else {
            self.buffer.truncate(start);
        }
        // The inputs before this one are whole with what is cut here, this one with what is left.
        while self.buffer.len() > STREAM_BYTES {
            self.cut(STREAM_BYTES, actions);
        }
        self.last += 1;
        self.due
            .get_or_insert(now.saturating_add(config.record_linger));
    }

    /// Sends what is due.
    pub(super) fn flush(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        if self.due.is_some_and(|due| now >= due) {
            self.cut_all(actions);
        }
    }

    /// Sends everything.
    pub(super) fn cut_all(&mut self, actions: &mut Vec<Action>) {
        if !self.buffer.is_empty() {
            self.cut(self.buffer.len(), actions);
        }
        self.due = None;
    }

    fn cut(&mut self, bytes: usize, actions: &mut Vec<Action>) {
        // With a gap, `last` counts one that is not recorded.
        let whole = self.last - u64::from(self.gap);
        self.blocks += 1;
        self.unacknowledged += bytes;
        self.sent.push_back(Sent {
            number: self.blocks,
            through: whole,
            bytes,
        });
        let block = Block {
            v: WIRE_VERSION,
            order_version: ORDER_VERSION,
            epoch: self.epoch,
            leader: self.leader,
            number: self.blocks,
            through: whole,
            gap: self.gap,
            bytes: &self.buffer[..bytes],
        };
        let mut written = Vec::with_capacity(bytes + HEAD_BYTES);
        if rmp_serde::encode::write_named(&mut written, &block).is_ok() {
            actions.push(Action::Append {
                epoch: self.epoch,
                number: self.blocks,
                bytes: written,
            });
        }
        self.buffer.drain(..bytes);
    }

    /// A block was acknowledged. Gives whether more inputs are recorded now.
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
        self.recorded > before
    }

    /// Inputs workers need not keep grants for: recorded, or given up.
    pub(super) fn recorded(&self) -> InputNumber {
        if self.gap { self.last } else { self.recorded }
    }

    /// Whether every input is recorded.
    pub(super) fn is_whole(&self) -> bool {
        self.sent.is_empty() && self.buffer.is_empty()
    }

    /// Whether a gap was recorded, and acknowledged with all before it.
    pub(super) fn gap_is_recorded(&self) -> bool {
        self.gap && self.is_whole()
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.due
    }
}
