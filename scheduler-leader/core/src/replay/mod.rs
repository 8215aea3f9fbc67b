//! Recomputes the launch order from the record.

mod anchor;
mod chains;
mod launches;
mod reports;
mod stop;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bus_schemas::{
    Chain, ClusterSettings, Epoch, GlobalPosition, GpuId, GpuPosition, GpuTail, GrantKind,
    Incarnation, InputNumber, LeaderId, OpNumber, Outcome, SessionId, Tenant,
};

use crate::effect::Effect;
use crate::input::Input;
pub use crate::leader::Gap;
use crate::order::Order;
use crate::policy::ORDER_VERSION;
use anchor::Before;
pub use anchor::{Anchor, Anchored};
use chains::{AnchoredChains, Chains, Proposed};
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
    /// Not recomputed, but taken from a seal's tail: it was decided behind the last input that the
    /// record has of its epoch.
    pub adopted: bool,
    /// The worker's chain behind it, once it is known what the worker accepted.
    pub chain: Option<Chain>,
}

/// What became of a worker, as the record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fate {
    /// Nothing is said of its going.
    #[default]
    Here,
    /// It announced that it leaves, and left.
    Left,
    /// It was declared lost.
    Lost,
}

impl Fate {
    /// Its name in files and output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Left => "left",
            Self::Lost => "lost",
        }
    }
}

/// Positions that a worker accepted, and that neither the record nor a seal's tail tells: both
/// numbers are of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// The device.
    pub gpu: GpuId,
    /// The worker.
    pub incarnation: Incarnation,
    /// The first such position.
    pub first: GpuPosition,
    /// The last.
    pub last: GpuPosition,
}

impl Hole {
    /// How many positions it is.
    #[must_use]
    pub fn positions(&self) -> u64 {
        self.last + 1 - self.first
    }
}

impl fmt::Display for Hole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            gpu,
            incarnation,
            first,
            last,
        } = self;
        write!(
            f,
            "gpu {gpu} worker {incarnation} positions {first} to {last}"
        )
    }
}

/// One incarnation's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The worker.
    pub incarnation: Incarnation,
    /// Where its chain ends.
    pub tail: GpuTail,
    /// What became of it.
    pub fate: Fate,
    /// The last position at which the record says what the worker's chain is (sealed, or known when
    /// the worker was lost), and the same was recomputed. 0 where it says so nowhere.
    pub recorded: GpuPosition,
}

/// What the record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Digest over all incarnations that accepted anything, whatever became of them.
    pub digest: Chain,
    /// Every incarnation, by gpu and incarnation.
    pub tails: Vec<Tail>,
    /// Every position whose grant is known, by gpu, incarnation and position.
    pub positions: Vec<Position>,
    /// Positions taken from seals' tails.
    pub adopted: u64,
    /// Positions that were accepted and that nothing tells: an order with one is not whole.
    pub skipped: u64,
    /// Where they are.
    pub holes: Vec<Hole>,
    /// Positions that went unrecorded, as the record itself says.
    pub gap_positions: u64,
    /// What the record says went unrecorded.
    pub named: Vec<Gap>,
    /// Recorded gaps.
    pub gaps: u64,
    /// Reigns: epochs with a takeover, one twice where two leaders had it.
    pub epochs: u64,
    /// Inputs applied.
    pub inputs: u64,
    /// Where it begins, if what lies before was cut off: what it says of that is counted nowhere
    /// else here.
    pub anchor: Option<Anchor>,
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
    anchors: BTreeMap<(Epoch, LeaderId), Anchor>,
    /// Where it began.
    restored: Option<Anchor>,
    /// Blocks and rows are not kept.
    forgets: bool,
    /// Gaps of streams that were forgotten.
    forgotten: u64,
    before: Before,
    /// The anchor of the reign that it has come to.
    reached: Option<Anchor>,
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
    settings: ClusterSettings,
    /// What lies before it, once its workers are sealed; taken once.
    anchored: Option<(AnchoredChains, ClusterSettings)>,
    anchors: bool,
}

impl Replay {
    /// Takes a block in: in any order, doubled ones included. Of a reign before the one that
    /// [`Self::advance`] has come to, it comes too late.
    ///
    /// # Errors
    /// [`ReplayError`] when it cannot be read or is by other rules.
    pub fn add(&mut self, epoch: Epoch, number: u64, bytes: &[u8]) -> Result<(), ReplayError> {
        if number == Anchor::NUMBER {
            let anchor = Anchor::decode(epoch, bytes)?;
            self.anchors.insert((epoch, anchor.leader), anchor);
            return Ok(());
        }
        Stream::add(&mut self.streams, epoch, number, bytes).map(drop)
    }

    /// Applies what is whole of the record, reign by reign, and tells of each position whose end
    /// is recorded; its chain is not confirmed yet.
    ///
    /// # Errors
    /// [`ReplayError`] at the first thing that disagrees.
    pub fn advance(&mut self, mut ended: impl FnMut(Position)) -> Result<(), ReplayError> {
        self.restore();
        let at = self
            .reign
            .as_ref()
            .map_or((0, LeaderId(0)), |reign| reign.of);
        let reigns: Vec<_> = self.streams.range(at..).map(|(of, _)| *of).collect();
        for of in reigns {
            let Some(stream) = self.streams.get_mut(&of) else {
                continue;
            };
            let inputs = stream.take(of.0)?;
            if self.forgets {
                stream.forget();
            }
            // What is named is accepted by then, and met at the next seal.
            self.chains.gaps.append(&mut stream.gaps);
            if inputs.is_empty() {
                continue;
            }
            self.chains.record_reaches(of, stream.inputs());
            if self.reign.as_ref().is_none_or(|reign| reign.of != of) {
                self.begin(of);
            }
            self.inputs += inputs.len() as u64;
            if let Some(reign) = &mut self.reign {
                let kept = Kept {
                    chains: &mut self.chains,
                    launches: &mut self.launches,
                    reports: &mut self.reports,
                };
                reign.recompute(&inputs, kept, &mut ended)?;
            }
            self.note_anchor();
        }
        Ok(())
    }

    /// A reign begins.
    fn begin(&mut self, of: (Epoch, LeaderId)) {
        if self.forgets {
            let rest = self.streams.split_off(&of);
            let gone = std::mem::replace(&mut self.streams, rest);
            self.forgotten += gone.values().filter(|stream| stream.gap).count() as u64;
            (self.launches, self.reports) = (Launches::default(), Reports::default());
        }
        self.before = Before {
            gaps: self.gaps(),
            epochs: self.epochs,
            inputs: self.inputs,
        };
        self.chains.begin_reign();
        self.epochs += 1;
        self.reign = Some(Reign {
            of,
            order: Order::new(),
            sealed: BTreeSet::new(),
            settings: ClusterSettings::default(),
            anchored: None,
            anchors: self.forgets,
        });
    }

    /// Gaps that the record names.
    fn gaps(&self) -> u64 {
        let gaps = self.streams.values().filter(|stream| stream.gap).count();
        self.forgotten + gaps as u64
    }

    /// What was recomputed, also where it then disagreed.
    #[must_use]
    pub fn recomputed(mut self) -> Replayed {
        let mut chains = std::mem::take(&mut self.chains);
        chains.finish_rest();
        let tails = chains.tails();
        let ends: Vec<GpuTail> = tails.iter().map(|tail| tail.tail).collect();
        let gaps = self.gaps();
        Replayed {
            digest: bus_schemas::digest(&ends),
            tails,
            adopted: chains.adopted,
            skipped: chains.skipped(),
            holes: std::mem::take(&mut chains.holes),
            gap_positions: chains.gap_positions,
            named: std::mem::take(&mut chains.gaps),
            positions: chains.into_positions(),
            gaps,
            epochs: self.epochs,
            inputs: self.inputs,
            anchor: self.restored,
        }
    }

    /// What came of all that was applied; `finals` as for [`replay`].
    ///
    /// # Errors
    /// [`ReplayError`] where they are not reached.
    pub fn finish(mut self, finals: &[(Incarnation, GpuTail)]) -> Result<Replayed, ReplayError> {
        for (incarnation, tail) in finals {
            self.chains.finish(*incarnation, tail)?;
        }
        Ok(self.recomputed())
    }
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
                Input::Takeover(takeover) => self.settings = takeover.settings.clone(),
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
            let seals = matches!(
                input,
                Input::Takeover(_) | Input::WorkerSealed { .. } | Input::WorkerLost { .. }
            );
            if self.anchors
                && seals
                && let Some(anchored) = chains.anchored()
            {
                self.anchored = Some((anchored, self.settings.clone()));
                self.anchors = false;
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
