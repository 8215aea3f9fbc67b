//! One term's blocks, joined to its inputs.

use std::collections::BTreeMap;

use bus_schemas::{Epoch, InputNumber, LeaderId, WIRE_VERSION};

use super::error::ReplayError;
use crate::input::Input;
use crate::leader::{Block, Gap, InputTimes, read_times};
use crate::policy::ORDER_VERSION;

/// An input with its times, if they were recorded.
pub(super) type TimedInput = (Input, Option<InputTimes>);

/// The blocks of an epoch by one leader, as they come.
#[derive(Debug, Default)]
pub(super) struct Stream {
    blocks: BTreeMap<u64, Block>,
    /// Number of blocks with inputs that were taken.
    taken: u64,
    /// The unread rest of these blocks: the start of an input.
    rest: Vec<u8>,
    inputs: InputNumber,
    /// True if the inputs after these went unrecorded, as named by a block.
    pub(super) gap: bool,
    /// Positions that were decided by unrecorded inputs.
    pub(super) gaps: Vec<Gap>,
}

impl Stream {
    /// Adds a block to the stream of its epoch and leader, and returns these two.
    pub(super) fn add(
        streams: &mut BTreeMap<(Epoch, LeaderId), Self>,
        epoch: Epoch,
        number: u64,
        bytes: &[u8],
    ) -> Result<(Epoch, LeaderId), ReplayError> {
        let wrong = |why: String| ReplayError::Block { epoch, number, why };
        let block: Block =
            rmp_serde::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if block.v > WIRE_VERSION {
            return Err(wrong(format!(
                "wire version {} is newer than this build's",
                block.v
            )));
        }
        if block.order_version != ORDER_VERSION {
            return Err(ReplayError::Version {
                epoch,
                got: block.order_version,
                have: ORDER_VERSION,
            });
        }
        if (block.epoch, block.number) != (epoch, number) {
            return Err(wrong(format!(
                "says it is block {} of epoch {}",
                block.number, block.epoch
            )));
        }
        let term = (epoch, block.leader);
        let stream = streams.entry(term).or_default();
        // It was taken, and forgotten since: there is no block to compare it with.
        if number <= stream.taken && !stream.blocks.contains_key(&number) {
            return Ok(term);
        }
        match stream.blocks.insert(number, block.clone()) {
            Some(other) if other != block => Err(wrong("is there twice, and differs".into())),
            _ => Ok(term),
        }
    }

    /// Drops the blocks with inputs that were taken.
    pub(super) fn forget(&mut self) {
        self.blocks = self.blocks.split_off(&(self.taken + 1));
    }

    /// Number of present blocks.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns true if its first block is present.
    pub(super) fn has_beginning(&self) -> bool {
        self.blocks.contains_key(&1)
    }

    /// Inputs of the blocks that are present without a gap from the first on, none of which was
    /// taken yet.
    pub(super) fn inputs_held(&self) -> InputNumber {
        let whole = (1..).map_while(|number| self.blocks.get(&number));
        whole.last().map_or(0, |block| block.through)
    }

    /// Number of inputs that were taken.
    pub(super) fn inputs(&self) -> InputNumber {
        self.inputs
    }

    /// Takes the inputs that have become complete since the last call, up to the first missing
    /// block.
    pub(super) fn take(&mut self, epoch: Epoch) -> Result<Vec<TimedInput>, ReplayError> {
        let mut inputs = Vec::new();
        while let Some(block) = self.blocks.get(&(self.taken + 1)) {
            let number = block.number;
            let wrong = |why: String| ReplayError::Block { epoch, number, why };
            self.rest.extend_from_slice(&block.bytes);
            let mut rest = self.rest.as_slice();
            let first = inputs.len();
            while let Some((input, left)) = next(rest).map_err(|error| wrong(error.to_string()))? {
                inputs.push((input, None));
                self.inputs += 1;
                rest = left;
            }
            let used = self.rest.len() - rest.len();
            self.rest.drain(..used);
            if self.inputs != block.through {
                let (have, through) = (self.inputs, block.through);
                return Err(wrong(format!("holds inputs through {have}, not {through}")));
            }
            let times = read_times(&block.times, inputs.len() - first);
            let of = inputs.iter_mut().skip(first);
            of.zip(times.into_iter().flatten())
                .for_each(|((_, of), times)| *of = Some(times));
            self.gap = block.gap;
            self.gaps.extend(block.gaps.iter().cloned());
            self.taken += 1;
        }
        Ok(inputs)
    }
}

/// The next complete input, and the bytes behind it.
fn next(bytes: &[u8]) -> Result<Option<(Input, &[u8])>, rmp_serde::decode::Error> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    match rest.split_at_checked(length) {
        Some((input, rest)) => Ok(Some((rmp_serde::from_slice(input)?, rest))),
        None => Ok(None),
    }
}
