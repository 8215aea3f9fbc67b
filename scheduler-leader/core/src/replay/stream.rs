//! One reign's blocks, put together to its inputs.

use std::collections::BTreeMap;

use bus_schemas::{Epoch, LeaderId, WIRE_VERSION};

use super::ReplayError;
use crate::input::Input;
use crate::leader::Block;
use crate::policy::ORDER_VERSION;

/// The blocks of an epoch by one leader.
#[derive(Debug, Default)]
pub(super) struct Stream {
    blocks: BTreeMap<u64, Block>,
}

/// What they hold.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The inputs from the first on, as far as there are no blocks missing.
    pub(super) inputs: Vec<Input>,
    /// What followed went unrecorded, and says so.
    pub(super) gap: bool,
}

impl Stream {
    /// Adds a block to the stream of its epoch and leader.
    pub(super) fn add(
        streams: &mut BTreeMap<(Epoch, LeaderId), Self>,
        epoch: Epoch,
        number: u64,
        bytes: &[u8],
    ) -> Result<(), ReplayError> {
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
        let stream = streams.entry((epoch, block.leader)).or_default();
        match stream.blocks.insert(number, block.clone()) {
            Some(other) if other != block => Err(wrong("is there twice, and differs".into())),
            _ => Ok(()),
        }
    }

    /// The inputs.
    pub(super) fn inputs(&self, epoch: Epoch) -> Result<Recorded, ReplayError> {
        let mut bytes = Vec::new();
        let mut recorded = Recorded {
            inputs: Vec::new(),
            gap: false,
        };
        for (expected, (number, block)) in (1..).zip(&self.blocks) {
            if *number != expected {
                break;
            }
            bytes.extend_from_slice(&block.bytes);
            let wrong = |why: String| ReplayError::Block {
                epoch,
                number: *number,
                why,
            };
            let mut rest = bytes.as_slice();
            while let Some((input, left)) = next(rest).map_err(|error| wrong(error.to_string()))? {
                recorded.inputs.push(input);
                rest = left;
            }
            let used = bytes.len() - rest.len();
            bytes.drain(..used);
            if recorded.inputs.len() as u64 != block.through {
                let have = recorded.inputs.len();
                return Err(wrong(format!(
                    "holds inputs through {have}, not {}",
                    block.through
                )));
            }
            recorded.gap = block.gap;
        }
        Ok(recorded)
    }
}

/// The next whole input, and what is behind it.
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
