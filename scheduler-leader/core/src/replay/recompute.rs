//! The replay: applies the record, term by term, to a scheduler, and collects the results.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{ClusterSettings, Epoch, GpuTail, GrantKind, Incarnation, LeaderId, SealedGrant};

use super::anchor::{Anchor, Before};
use super::chains::{AnchoredChains, Chains, Proposed};
use super::changes::Changes;
use super::costs::Costs;
use super::error::ReplayError;
use super::failures::{self, ReplayedFailure};
use super::launches::Launches;
use super::replayed::{Replayed, ReplayedPosition};
use super::reports::Reports;
use super::stream::{Stream, TimedInput};
use crate::effect::Effect;
use crate::input::Input;
use crate::leader::InputTimes;
use crate::policy::ORDER_VERSION;
use crate::scheduler::Scheduler;
use crate::why::Explainer;

/// Recomputes the order from blocks, in any order, duplicates included. `finals` are the chains
/// that workers report at the end. If given, they must be reached, and grants above them were never
/// accepted. Without them all grants of the last epoch count.
///
/// # Errors
/// [`ReplayError`] at the first disagreement.
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

/// The order, recomputed while the record comes in.
#[derive(Debug, Default)]
pub struct Replay {
    pub(super) streams: BTreeMap<(Epoch, LeaderId), Stream>,
    pub(super) term: Option<ReplayedTerm>,
    pub(super) chains: Chains,
    pub(super) launches: Launches,
    /// Set if it tells the costs of positions.
    pub(super) costs: Option<Costs>,
    pub(super) reports: Reports,
    /// Set if it tells the failures of sessions: those that were not taken.
    pub(super) failures: Option<Vec<ReplayedFailure>>,
    /// Set if it tells the changes of administrators.
    pub(super) changes: Option<Changes>,
    pub(super) epochs: u64,
    pub(super) inputs: u64,
    pub(super) anchors: BTreeMap<(Epoch, LeaderId), Anchor>,
    /// The anchor at which it began.
    pub(super) restored: Option<Anchor>,
    /// True if it keeps neither taken blocks nor rows that have ended.
    pub(super) forgets: bool,
    /// Set if it accounts for waits and idle time too.
    pub(super) explainer: Option<Box<Explainer>>,
    /// Number of gaps of streams that were forgotten.
    pub(super) forgotten: u64,
    pub(super) before: Before,
    /// The anchor of the present term.
    pub(super) reached: Option<Anchor>,
}

/// State that carries over from one term to the next.
struct Kept<'a> {
    chains: &'a mut Chains,
    launches: &'a mut Launches,
    costs: Option<&'a mut Costs>,
    reports: &'a mut Reports,
    failures: Option<&'a mut Vec<ReplayedFailure>>,
    changes: Option<&'a mut Changes>,
    explainer: Option<&'a mut Explainer>,
}

/// One leader's order.
#[derive(Debug)]
pub(super) struct ReplayedTerm {
    pub(super) of: (Epoch, LeaderId),
    pub(super) scheduler: Scheduler,
    pub(super) sealed: BTreeSet<Incarnation>,
    /// Tails received so far from workers about to be sealed.
    pub(super) tails: BTreeMap<Incarnation, Vec<SealedGrant>>,
    pub(super) settings: ClusterSettings,
    /// Chains and settings before it, once its workers are sealed; taken once.
    pub(super) anchored: Option<(AnchoredChains, ClusterSettings)>,
    pub(super) anchors: bool,
}

impl Replay {
    /// Takes in a block, in any order, duplicates included. A block of a term before the present
    /// one of [`Self::advance`] comes too late.
    ///
    /// # Errors
    /// [`ReplayError`] if it cannot be read or was made by other rules.
    pub fn add(&mut self, epoch: Epoch, number: u64, bytes: &[u8]) -> Result<(), ReplayError> {
        if number == Anchor::NUMBER {
            let anchor = Anchor::decode(epoch, bytes)?;
            self.anchors.insert((epoch, anchor.leader), anchor);
            return Ok(());
        }
        Stream::add(&mut self.streams, epoch, number, bytes).map(drop)
    }

    /// Applies the complete part of the record, term by term. Reports each position with a recorded
    /// end; its chain is not confirmed yet.
    ///
    /// # Errors
    /// [`ReplayError`] at the first disagreement.
    pub fn advance(&mut self, mut ended: impl FnMut(ReplayedPosition)) -> Result<(), ReplayError> {
        self.restore();
        let at = self.term.as_ref().map_or((0, LeaderId(0)), |term| term.of);
        let terms: Vec<_> = self.streams.range(at..).map(|(of, _)| *of).collect();
        for of in terms {
            let Some(stream) = self.streams.get_mut(&of) else {
                continue;
            };
            let inputs = stream.take(of.0)?;
            if self.forgets {
                stream.forget();
            }
            // The positions that it names are accepted by then, and are met at the next seal.
            self.chains.gaps.append(&mut stream.gaps);
            if inputs.is_empty() {
                continue;
            }
            self.chains.record_reaches(of, stream.inputs());
            if self.term.as_ref().is_none_or(|term| term.of != of) {
                if let Some(costs) = &mut self.costs {
                    costs.tell_all(&mut ended);
                }
                self.begin(of);
            }
            self.inputs += inputs.len() as u64;
            if let Some(term) = &mut self.term {
                let kept = Kept {
                    chains: &mut self.chains,
                    launches: &mut self.launches,
                    costs: self.costs.as_mut(),
                    reports: &mut self.reports,
                    failures: self.failures.as_mut(),
                    changes: self.changes.as_mut(),
                    explainer: self.explainer.as_deref_mut(),
                };
                term.recompute(&inputs, kept, &mut ended)?;
            }
            self.note_anchor();
        }
        Ok(())
    }

    /// Starts a term.
    fn begin(&mut self, of: (Epoch, LeaderId)) {
        if self.forgets {
            let rest = self.streams.split_off(&of);
            let gone = std::mem::replace(&mut self.streams, rest);
            self.forgotten += gone.values().filter(|stream| stream.gap).count() as u64;
            self.reports = Reports::default();
        }
        self.before = Before {
            gaps: self.gaps(),
            epochs: self.epochs,
            inputs: self.inputs,
        };
        self.chains.begin_term();
        if let Some(explainer) = &mut self.explainer {
            explainer.begin_term(of.0);
        }
        self.epochs += 1;
        self.term = Some(ReplayedTerm {
            of,
            scheduler: Scheduler::new(),
            sealed: BTreeSet::new(),
            tails: BTreeMap::new(),
            settings: ClusterSettings::default(),
            anchored: None,
            anchors: self.forgets,
        });
    }

    /// Number of gaps that the record names.
    fn gaps(&self) -> u64 {
        let gaps = self.streams.values().filter(|stream| stream.gap).count();
        self.forgotten + gaps as u64
    }

    /// Number of blocks, rows, grants, names and intents that it keeps. For a forgetful replay it
    /// does not grow with the record.
    #[must_use]
    pub fn kept(&self) -> usize {
        let blocks = self.streams.values().map(Stream::blocks);
        blocks.sum::<usize>()
            + self.chains.kept()
            + self.launches.kept()
            + self.costs.as_ref().map_or(0, Costs::kept)
    }

    /// The recomputed order, even if it then disagreed.
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

    /// The result of all applied inputs; `finals` as for [`replay`].
    ///
    /// # Errors
    /// [`ReplayError`] if they are not reached.
    pub fn finish(mut self, finals: &[(Incarnation, GpuTail)]) -> Result<Replayed, ReplayError> {
        for (incarnation, tail) in finals {
            self.chains.finish(*incarnation, tail)?;
        }
        Ok(self.recomputed())
    }
}

impl ReplayedTerm {
    /// Checks that the estimates after this input are those that its leader named.
    fn check_profile(&self, input: &Input) -> Result<(), ReplayError> {
        let names = matches!(input, Input::Takeover(_) | Input::Profile(_));
        if names && !self.scheduler.profile_is_as_named() {
            let (epoch, input) = (self.of.0, self.scheduler.input());
            return Err(ReplayError::Profile { epoch, input });
        }
        Ok(())
    }

    /// Applies inputs to the order, and its decisions to the chains.
    fn recompute(
        &mut self,
        inputs: &[TimedInput],
        mut kept: Kept<'_>,
        ended: &mut impl FnMut(ReplayedPosition),
    ) -> Result<(), ReplayError> {
        let mut effects = Vec::new();
        for (input, times) in inputs {
            if let Some(explainer) = kept.explainer.as_deref_mut() {
                explainer.input(times.as_ref());
            }
            self.note((input, times.as_ref()), &mut kept, ended)?;
            self.anchor(input, kept.chains);
            self.scheduler.apply(input, &mut effects);
            self.check_profile(input)?;
            if let Some(changes) = kept.changes.as_deref_mut() {
                changes.input(input, times.as_ref());
            }
            if let Some(failures) = kept.failures.as_deref_mut() {
                failures::collect(
                    failures,
                    self.of.0,
                    (input, times.as_ref()),
                    &self.scheduler,
                );
            }
            for effect in effects.drain(..) {
                self.carry_out(effect, &mut kept);
            }
            if let Some(explainer) = kept.explainer.as_deref_mut() {
                explainer.look(&self.scheduler);
            }
        }
        Ok(())
    }

    /// Takes in an effect of the order.
    fn carry_out(&self, effect: Effect, kept: &mut Kept<'_>) {
        let explainer = kept.explainer.as_deref_mut();
        match effect {
            Effect::Grant {
                incarnation,
                position,
                grant,
                open,
            } => {
                if let Some(explainer) = explainer {
                    explainer.granted(incarnation, position, &grant, &self.scheduler);
                }
                let proposed = Proposed::new(grant, kept.launches.of(&grant));
                kept.chains
                    .grant(incarnation, position, proposed, open.as_deref());
            }
            Effect::Ended { session, .. } => {
                if let Some(explainer) = explainer {
                    explainer.gone(session);
                }
            }
            _ => {}
        }
    }

    /// Takes in an input's facts about workers, launches and positions.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of input")]
    fn note(
        &mut self,
        (input, times): (&Input, Option<&InputTimes>),
        kept: &mut Kept<'_>,
        ended: &mut impl FnMut(ReplayedPosition),
    ) -> Result<(), ReplayError> {
        let mut explainer = kept.explainer.as_deref_mut();
        let (chains, launches) = (&mut *kept.chains, &mut *kept.launches);
        match input {
            Input::Takeover(takeover) if takeover.order_version != ORDER_VERSION => {
                return Err(ReplayError::Version {
                    epoch: self.of.0,
                    got: takeover.order_version,
                    have: ORDER_VERSION,
                });
            }
            Input::Takeover(takeover) => self.settings = takeover.settings.clone(),
            Input::WorkerTail {
                incarnation,
                grants,
                named,
            } if !self.sealed.contains(incarnation) => {
                chains.name(&named.0);
                let tail = self.tails.entry(*incarnation).or_default();
                tail.extend_from_slice(&grants.0);
            }
            Input::WorkerSealed {
                incarnation,
                answer,
            } if self.sealed.insert(*incarnation) => {
                let mut tail = self.tails.remove(incarnation).unwrap_or_default();
                tail.extend_from_slice(&answer.tail);
                chains.seal(*incarnation, answer, &tail, launches)?;
                kept.reports.sealed(*incarnation, answer);
            }
            Input::WorkerLost {
                incarnation,
                left,
                accepted,
                chain,
            } => {
                if let Some(explainer) = explainer {
                    explainer.lost(*incarnation);
                }
                if let Some(costs) = &mut kept.costs {
                    costs.lost(*incarnation, ended);
                }
                chains.lost(*incarnation, *left, *accepted);
                if let Some(chain) = chain {
                    chains.last_words(*incarnation, *accepted, *chain)?;
                }
            }
            Input::Intent {
                session,
                first,
                runs,
            } => {
                if let Some(explainer) = explainer {
                    explainer.announce(*session, *first, &runs.0);
                }
                launches.announce(*session, *first, &runs.0);
                if let Some(costs) = &mut kept.costs {
                    costs.announce(*session, *first, &runs.0);
                    costs.tell(*session, false, ended);
                }
            }
            Input::Done {
                incarnation,
                reports,
            } => {
                let said = explainer
                    .as_deref_mut()
                    .and_then(|it| it.times_of(*incarnation, times, &reports.0))
                    .unwrap_or_default();
                for (index, report) in reports.0.iter().enumerate() {
                    let row = said.rows.get(index);
                    let ran = explainer.as_deref_mut().and_then(|it| {
                        let mut ran = it.report(*incarnation, report, row)?;
                        ran.timing.compiled = said.compiled_of(index).collect();
                        Some(ran)
                    });
                    let row = chains.end(*incarnation, report, launches);
                    kept.reports.report(*incarnation, report, row.as_ref());
                    let Some(mut row) = row else {
                        let part = ran.and_then(|ran| {
                            let row =
                                chains.part((*incarnation, report), ran.part_from?, launches)?;
                            let timing = Some(ran.timing);
                            Some(ReplayedPosition { timing, ..row })
                        });
                        part.into_iter()
                            .for_each(|row| end(row, &mut kept.costs, ended));
                        continue;
                    };
                    row.timing = ran.map(|ran| ran.timing);
                    match row.kind {
                        GrantKind::Close if chains.forgets => launches.forget_session(row.session),
                        GrantKind::Run | GrantKind::Standing if chains.forgets => {
                            launches.forget(row.session, row.last);
                        }
                        _ => {}
                    }
                    end(row, &mut kept.costs, ended);
                }
            }
            Input::Fault { session, op, .. } => kept.reports.failed(*session, *op),
            _ => {}
        }
        Ok(())
    }

    /// Keeps the chains before the term, once an input has sealed the last worker that is waited
    /// for.
    fn anchor(&mut self, input: &Input, chains: &Chains) {
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
    }
}

/// Tells a position or part that has ended, with its costs if they are told.
fn end(
    row: ReplayedPosition,
    costs: &mut Option<&mut Costs>,
    tell: &mut impl FnMut(ReplayedPosition),
) {
    match costs {
        Some(costs) => costs.end(row, tell),
        None => tell(row),
    }
}
