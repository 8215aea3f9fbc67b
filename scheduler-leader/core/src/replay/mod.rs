//! Recomputes the launch order from the record.

mod chains;
mod stream;

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    Chain, Epoch, GlobalPosition, GpuId, GpuPosition, GpuTail, GrantKind, Incarnation, OpNumber,
    SessionId, Tenant,
};
use serde::Serialize;

use crate::effect::Effect;
use crate::input::Input;
use crate::order::Order;
use crate::policy::ORDER_VERSION;
use chains::Chains;
use stream::Stream;

/// One position of the launch order: a row of `order.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Position {
    /// The device.
    pub gpu: GpuId,
    /// The worker.
    pub incarnation: Incarnation,
    /// The gpu position.
    pub position: GpuPosition,
    /// The global position.
    pub global: GlobalPosition,
    /// The epoch that decided it.
    pub epoch: Epoch,
    /// The tenant.
    pub tenant: Tenant,
    /// The session is its how manyth.
    pub ordinal: u64,
    /// The session.
    pub session: SessionId,
    /// What it does.
    pub kind: GrantKind,
    /// First op.
    pub first: OpNumber,
    /// Last op.
    pub last: OpNumber,
    /// Not recomputed, but taken from a seal's tail.
    pub adopted: bool,
}

/// One incarnation's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tail {
    /// The worker.
    pub incarnation: Incarnation,
    /// Where its chain ends.
    pub tail: GpuTail,
    /// It was declared lost: not part of the digest.
    pub lost: bool,
}

/// What the record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Digest over the incarnations that are not lost.
    pub digest: Chain,
    /// Every incarnation, by gpu and incarnation.
    pub tails: Vec<Tail>,
    /// Every position whose grant is known, by gpu, incarnation and position.
    pub positions: Vec<Position>,
    /// Positions taken from seals' tails.
    pub adopted: u64,
    /// Positions nobody recorded: skipped by a recorded gap.
    pub skipped: u64,
    /// Recorded gaps.
    pub gaps: u64,
    /// Reigns: epochs with a takeover, one twice where two leaders had it.
    pub epochs: u64,
    /// Inputs applied.
    pub inputs: u64,
}

/// Why a record cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Made by other rules.
    #[error("epoch {epoch} was ordered by rules {got}, this build has rules {have}")]
    Version {
        /// The epoch.
        epoch: Epoch,
        /// Its rules.
        got: u32,
        /// Ours.
        have: u32,
    },
    /// A block that cannot be read.
    #[error("block {number} of epoch {epoch}: {why}")]
    Block {
        /// The epoch.
        epoch: Epoch,
        /// The block.
        number: u64,
        /// What is wrong.
        why: String,
    },
    /// What was recomputed is not what a worker accepted.
    #[error("gpu {gpu} position {position}: {why}")]
    Disagrees {
        /// The device.
        gpu: GpuId,
        /// The position.
        position: GpuPosition,
        /// How.
        why: String,
    },
}

/// Recomputes the order from blocks, in any order, doubled ones included. `finals` are the
/// chains workers report at the end; where given, they must be reached, and grants above them
/// were never accepted. Without them all grants of the last epoch count.
///
/// # Errors
/// [`ReplayError`] at the first thing that disagrees.
pub fn replay(
    blocks: &[(Epoch, u64, Vec<u8>)],
    finals: &[(Incarnation, GpuTail)],
) -> Result<Replayed, ReplayError> {
    let mut streams = BTreeMap::new();
    for (epoch, number, bytes) in blocks {
        Stream::add(&mut streams, *epoch, *number, bytes)?;
    }
    let mut chains = Chains::default();
    let (mut epochs, mut inputs, mut gaps) = (0, 0, 0);
    for ((epoch, _), stream) in &streams {
        let recorded = stream.inputs(*epoch)?;
        gaps += u64::from(recorded.gap);
        inputs += recorded.inputs.len() as u64;
        epochs += u64::from(!recorded.inputs.is_empty());
        recompute(*epoch, &recorded.inputs, &mut chains)?;
    }
    for (incarnation, tail) in finals {
        chains.finish(*incarnation, tail)?;
    }
    chains.finish_rest();
    let live = |tail: &&Tail| !tail.lost;
    let tails = chains.tails();
    let digest: Vec<_> = tails.iter().filter(live).map(|tail| tail.tail).collect();
    Ok(Replayed {
        digest: bus_schemas::digest(&digest),
        tails,
        adopted: chains.adopted,
        skipped: chains.skipped,
        positions: chains.into_positions(),
        gaps,
        epochs,
        inputs,
    })
}

/// Applies one epoch's inputs to an order of its own.
fn recompute(epoch: Epoch, inputs: &[Input], chains: &mut Chains) -> Result<(), ReplayError> {
    let (mut order, mut effects) = (Order::new(), Vec::new());
    let mut sealed = BTreeSet::new();
    for input in inputs {
        match input {
            Input::Takeover(takeover) if takeover.order_version != ORDER_VERSION => {
                return Err(ReplayError::Version {
                    epoch,
                    got: takeover.order_version,
                    have: ORDER_VERSION,
                });
            }
            Input::WorkerSealed {
                incarnation,
                answer,
            } if sealed.insert(*incarnation) => chains.seal(*incarnation, answer)?,
            Input::WorkerLost {
                incarnation,
                left,
                accepted,
            } => {
                chains.lost(*incarnation, *left, *accepted);
            }
            _ => {}
        }
        order.apply(input, &mut effects);
        for effect in effects.drain(..) {
            if let Effect::Grant {
                incarnation,
                position,
                grant,
                open,
            } = effect
            {
                chains.grant(incarnation, position, grant, open.as_deref());
            }
        }
    }
    Ok(())
}
