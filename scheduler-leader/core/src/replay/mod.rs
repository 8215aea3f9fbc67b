//! Recomputes the launch order from the record.

mod chains;
mod launches;
mod reports;
mod stop;
mod stream;

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    Chain, Epoch, GlobalPosition, GpuId, GpuPosition, GpuTail, GrantKind, Incarnation, InputNumber,
    LeaderId, OpNumber, Outcome, SessionId, Tenant,
};

use crate::effect::Effect;
use crate::input::Input;
use crate::order::Order;
use crate::policy::ORDER_VERSION;
use chains::{Chains, Proposed};
use launches::Launches;
use reports::Reports;
pub use reports::{Told, Unaccounted, unaccounted};
pub use stop::{Stop, StopError, Stopped, replay_until};
use stream::Stream;

/// How a position ended, as the record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// Measured device nanoseconds.
    pub measured: u64,
}

/// One position of the launch order.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The last input of that epoch before it was decided.
    pub input: InputNumber,
    /// The tenant.
    pub tenant: Tenant,
    /// The session is its how manyth.
    pub ordinal: u64,
    /// The session.
    pub session: SessionId,
    /// What it does.
    pub kind: GrantKind,
    /// The priority that it runs at.
    pub priority: u8,
    /// First op.
    pub first: OpNumber,
    /// Last op.
    pub last: OpNumber,
    /// Kernels among the ops; `None` where the record lacks their intent.
    pub launches: Option<u64>,
    /// Charged device nanoseconds; 0 for a standing grant, whose ops are charged as they are told of.
    pub cost: u64,
    /// How it ended; `None` where no end is recorded.
    pub end: Option<End>,
    /// Not recomputed, but taken from a seal's tail.
    pub adopted: bool,
    /// The worker's chain behind it, once it is known what the worker accepted.
    pub chain: Option<Chain>,
}

/// One incarnation's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The worker.
    pub incarnation: Incarnation,
    /// Where its chain ends.
    pub tail: GpuTail,
    /// It was declared lost: not part of the digest.
    pub lost: bool,
    /// The last position at which the record says what the worker's chain is (sealed, or known when
    /// the worker was lost), and the same was recomputed. 0 where it says so nowhere.
    pub recorded: GpuPosition,
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
    /// The estimates recorded are not those that their leader named.
    #[error("epoch {epoch}, input {input}: the profile is not the one its hash names")]
    Profile {
        /// The epoch.
        epoch: Epoch,
        /// The input.
        input: u64,
    },
    /// What was recomputed is not what a worker accepted.
    #[error("gpu {gpu} worker {incarnation} position {position}: {why}")]
    Disagrees {
        /// The device.
        gpu: GpuId,
        /// The worker.
        incarnation: Incarnation,
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
    let mut replay = Replay::default();
    for (epoch, number, bytes) in blocks {
        replay.add(*epoch, *number, bytes)?;
    }
    replay.advance(|_| {})?;
    replay.finish(finals)
}

/// The order, recomputed as the record comes in.
#[derive(Debug, Default)]
pub struct Replay {
    streams: BTreeMap<(Epoch, LeaderId), Stream>,
    reign: Option<Reign>,
    chains: Chains,
    launches: Launches,
    reports: Reports,
    epochs: u64,
    inputs: u64,
}

/// What goes on from one reign to the next.
struct Kept<'a> {
    chains: &'a mut Chains,
    launches: &'a mut Launches,
    reports: &'a mut Reports,
}

/// One leader's order.
#[derive(Debug)]
struct Reign {
    of: (Epoch, LeaderId),
    order: Order,
    sealed: BTreeSet<Incarnation>,
}

impl Replay {
    /// Takes a block in: in any order, doubled ones included. Of a reign before the one that
    /// [`Self::advance`] has come to, it comes too late.
    ///
    /// # Errors
    /// [`ReplayError`] when it cannot be read or is by other rules.
    pub fn add(&mut self, epoch: Epoch, number: u64, bytes: &[u8]) -> Result<(), ReplayError> {
        Stream::add(&mut self.streams, epoch, number, bytes).map(drop)
    }

    /// Applies what is whole of the record, reign by reign, and tells of each position whose end
    /// is recorded; its chain is not confirmed yet.
    ///
    /// # Errors
    /// [`ReplayError`] at the first thing that disagrees.
    pub fn advance(&mut self, mut ended: impl FnMut(Position)) -> Result<(), ReplayError> {
        let at = self
            .reign
            .as_ref()
            .map_or((0, LeaderId(0)), |reign| reign.of);
        for (of, stream) in self.streams.range_mut(at..) {
            let inputs = stream.take(of.0)?;
            if inputs.is_empty() {
                continue;
            }
            self.inputs += inputs.len() as u64;
            if self.reign.as_ref().is_none_or(|reign| reign.of != *of) {
                self.epochs += 1;
                self.reign = Some(Reign {
                    of: *of,
                    order: Order::new(),
                    sealed: BTreeSet::new(),
                });
            }
            if let Some(reign) = &mut self.reign {
                let kept = Kept {
                    chains: &mut self.chains,
                    launches: &mut self.launches,
                    reports: &mut self.reports,
                };
                reign.recompute(&inputs, kept, &mut ended)?;
            }
        }
        Ok(())
    }

    /// What was recomputed, also where it then disagreed: every position by gpu, incarnation and
    /// position, where each chain ends, and the digest.
    #[must_use]
    pub fn recomputed(mut self) -> (Vec<Position>, Vec<Tail>, Chain) {
        let mut chains = std::mem::take(&mut self.chains);
        chains.finish_rest();
        let tails = chains.tails();
        let digest = digest(&tails);
        (chains.into_positions(), tails, digest)
    }

    /// What came of all that was applied; `finals` as for [`replay`].
    ///
    /// # Errors
    /// [`ReplayError`] where they are not reached.
    pub fn finish(mut self, finals: &[(Incarnation, GpuTail)]) -> Result<Replayed, ReplayError> {
        let mut chains = std::mem::take(&mut self.chains);
        for (incarnation, tail) in finals {
            chains.finish(*incarnation, tail)?;
        }
        chains.finish_rest();
        let tails = chains.tails();
        let gaps = self.streams.values().filter(|stream| stream.gap).count();
        Ok(Replayed {
            digest: digest(&tails),
            tails,
            adopted: chains.adopted,
            skipped: chains.skipped,
            positions: chains.into_positions(),
            gaps: gaps as u64,
            epochs: self.epochs,
            inputs: self.inputs,
        })
    }
}

/// The digest over the incarnations that are not lost.
fn digest(tails: &[Tail]) -> Chain {
    let live = tails.iter().filter(|tail| !tail.lost);
    bus_schemas::digest(&live.map(|tail| tail.tail).collect::<Vec<_>>())
}

impl Reign {
    /// Whether the estimates after this input are those that its leader named.
    fn check_profile(&self, input: &Input) -> Result<(), ReplayError> {
        let names = matches!(input, Input::Takeover(_) | Input::Profile(_));
        if names && !self.order.profile_is_as_named() {
            let (epoch, input) = (self.of.0, self.order.input());
            return Err(ReplayError::Profile { epoch, input });
        }
        Ok(())
    }

    /// Applies inputs to the order, and what it decides to the chains.
    fn recompute(
        &mut self,
        inputs: &[Input],
        kept: Kept<'_>,
        ended: &mut impl FnMut(Position),
    ) -> Result<(), ReplayError> {
        let Kept {
            chains,
            launches,
            reports: told,
        } = kept;
        let mut effects = Vec::new();
        for input in inputs {
            match input {
                Input::Takeover(takeover) if takeover.order_version != ORDER_VERSION => {
                    return Err(ReplayError::Version {
                        epoch: self.of.0,
                        got: takeover.order_version,
                        have: ORDER_VERSION,
                    });
                }
                Input::WorkerSealed {
                    incarnation,
                    answer,
                } if self.sealed.insert(*incarnation) => {
                    chains.seal(*incarnation, answer, launches)?;
                    told.sealed(*incarnation, answer);
                }
                Input::WorkerLost {
                    incarnation,
                    left,
                    accepted,
                    chain,
                } => {
                    chains.lost(*incarnation, *left, *accepted);
                    if let Some(chain) = chain {
                        chains.last_words(*incarnation, *accepted, *chain)?;
                    }
                }
                Input::Intent {
                    session,
                    first,
                    runs,
                } => launches.announce(*session, *first, &runs.0),
                Input::Done {
                    incarnation,
                    reports,
                } => {
                    for report in &reports.0 {
                        let row = chains.end(*incarnation, report, launches);
                        told.heard(*incarnation, report, row.as_ref());
                        row.into_iter().for_each(&mut *ended);
                    }
                }
                Input::Fault { session, op, .. } => told.failed(*session, *op),
                _ => {}
            }
            self.order.apply(input, &mut effects);
            self.check_profile(input)?;
            for effect in effects.drain(..) {
                if let Effect::Grant {
                    incarnation,
                    position,
                    grant,
                    open,
                } = effect
                {
                    let proposed = Proposed::new(grant, launches.of(&grant));
                    chains.grant(incarnation, position, proposed, open.as_deref());
                }
            }
        }
        Ok(())
    }
}
