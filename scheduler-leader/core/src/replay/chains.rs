//! Each incarnation's recomputed chain.

mod holes;
mod missing;
mod proposed;
mod standing;
mod worker;

use std::collections::BTreeMap;

use bus_schemas::{
    Chain, DoneReport, Epoch, GpuPosition, GpuTail, Grant, GrantKind, Incarnation, InputNumber,
    LeaderId, OpenGrant, Outcome, SealAnswer, SealedGrant, SealedName, SessionId, Tenant,
};

use super::anchor::{Anchor, Anchored};
use super::error::ReplayError;
use super::launches::Launches;
use super::replayed::{End, Fate, Hole, ReplayedPosition, Tail};
use crate::leader::Gap;
pub(super) use proposed::Proposed;
use worker::{Reached, Worker, row};

/// Number of terms for which an unsealed worker is waited for.
const SILENT: u32 = 8;

/// All incarnations' chains.
#[derive(Debug, Default)]
pub(super) struct Chains {
    workers: BTreeMap<Incarnation, Worker>,
    names: BTreeMap<SessionId, (Tenant, u64)>,
    /// Number of recorded inputs of each term.
    inputs: BTreeMap<(Epoch, LeaderId), InputNumber>,
    pub(super) adopted: u64,
    pub(super) holes: Vec<Hole>,
    /// Positions that went unrecorded according to the record, and the gaps that name them.
    pub(super) gap_positions: u64,
    pub(super) gaps: Vec<Gap>,
    /// True if rows are kept only until they have ended, and names only until their session has.
    pub(super) forgets: bool,
}

/// The chains at the seals of a term's leader, and counts of the record before them.
#[derive(Debug)]
pub(super) struct AnchoredChains {
    pub(super) workers: Vec<Anchored>,
    pub(super) positions: u64,
    pub(super) adopted: u64,
    pub(super) skipped: u64,
    pub(super) gap_positions: u64,
}

impl Chains {
    /// Starts a term.
    pub(super) fn begin_term(&mut self) {
        for worker in self.workers.values_mut() {
            worker.unsealed = match worker.sealed.take() {
                Some(_) => 1,
                None => worker.unsealed.saturating_add(1),
            };
        }
    }

    /// The chains at this term's seals; `None` while a seal is missing. A worker that no leader of
    /// many terms has sealed or declared lost is not waited for.
    pub(super) fn anchored(&self) -> Option<AnchoredChains> {
        let mut workers = Vec::with_capacity(self.workers.len());
        for (incarnation, worker) in &self.workers {
            let here = !worker.lost && !worker.left;
            if here && worker.sealed.is_none() && worker.unsealed <= SILENT {
                return None;
            }
            // Its fate after the seal is reported again after the anchor.
            let (tail, gone) = match worker.sealed {
                Some(sealed) => (sealed, (false, false)),
                None => (worker.tail, (worker.lost, worker.left)),
            };
            workers.push(Anchored {
                incarnation: *incarnation,
                tail: GpuTail {
                    gpu: tail.gpu,
                    position: tail.position,
                    chain: tail.chain,
                },
                lost: gone.0,
                left: gone.1,
            });
        }
        workers.sort_by_key(|worker| (worker.tail.gpu, worker.incarnation));
        Some(AnchoredChains {
            workers,
            positions: self.workers.values().map(|worker| worker.accepted).sum(),
            adopted: self.adopted,
            skipped: self.skipped(),
            gap_positions: self.gap_positions,
        })
    }

    /// Number of positions that neither the record nor a tail has.
    pub(super) fn skipped(&self) -> u64 {
        self.holes.iter().map(Hole::positions).sum()
    }

    /// Begins after an anchor.
    pub(super) fn restore(&mut self, anchor: &Anchor) {
        for at in &anchor.workers {
            let worker = self.workers.entry(at.incarnation).or_default();
            worker.tail = Reached {
                gpu: at.tail.gpu,
                position: at.tail.position,
                chain: at.tail.chain,
            };
            worker.recorded = at.tail.position;
            (worker.lost, worker.left) = (at.lost, at.left);
        }
    }
}

impl Chains {
    /// Takes in a grant of a leader's order.
    pub(super) fn grant(
        &mut self,
        incarnation: Incarnation,
        position: GpuPosition,
        proposed: Proposed,
        open: Option<&OpenGrant>,
    ) {
        if let Some(open) = open {
            let name = (open.tenant.clone(), open.ordinal);
            self.names.insert(open.session, name);
        }
        let worker = self.workers.entry(incarnation).or_default();
        worker.proposed.insert(position, proposed);
    }

    /// Notes the number of recorded inputs of a term.
    pub(super) fn record_reaches(&mut self, term: (Epoch, LeaderId), inputs: InputNumber) {
        self.inputs.insert(term, inputs);
    }

    /// Returns true if the record has the inputs that decided this grant. If an epoch had two
    /// leaders, a grant does not name its leader: then the record must have it for both.
    fn has_decided(&self, grant: &Grant) -> bool {
        let of = |leader| (grant.epoch, LeaderId(leader));
        let terms = self.inputs.range(of(0)..=of(u64::MAX));
        let least = terms.map(|(_, inputs)| *inputs).min();
        least.is_some_and(|inputs| grant.input <= inputs)
    }

    /// The tenant of a session, if it is known.
    pub(super) fn tenant(&self, session: SessionId) -> Option<Tenant> {
        self.names.get(&session).map(|(tenant, _)| tenant.clone())
    }

    /// Notes a worker's report that a position ended, or goes on. Returns its row once it has
    /// ended.
    pub(super) fn end(
        &mut self,
        incarnation: Incarnation,
        report: &DoneReport,
        launches: &Launches,
    ) -> Option<ReplayedPosition> {
        let row = self.note_end(incarnation, report, launches)?;
        if self.forgets {
            if row.kind == GrantKind::Close
                && let Some(worker) = self.workers.get_mut(&incarnation)
            {
                worker.closed.push((row.position, row.session));
            }
            self.forget(incarnation);
        }
        Some(row)
    }

    /// Drops data that is not needed any more, if it need not be kept. A reported position was
    /// accepted, so the chain advances over it, and its row was reported.
    fn forget(&mut self, incarnation: Incarnation) {
        if self.forgets
            && let Some(worker) = self.workers.get_mut(&incarnation)
        {
            self.adopted += worker.advance_ended(incarnation, &self.names);
            worker.positions.retain(|row| row.end.is_none());
            // A session's name is needed until the chain has passed its close, and all grants made
            // before the leader heard of the close: the session's return.
            let (tail, proposed) = (worker.tail.position, &worker.proposed);
            let names = &mut self.names;
            worker.closed.retain(|(position, session)| {
                let of = |it: &Proposed| it.grant.session == *session;
                let waits = *position > tail || proposed.values().any(of);
                if !waits {
                    names.remove(session);
                }
                waits
            });
        }
    }

    fn note_end(
        &mut self,
        incarnation: Incarnation,
        report: &DoneReport,
        launches: &Launches,
    ) -> Option<ReplayedPosition> {
        let worker = self.workers.get_mut(&incarnation)?;
        let mut end = End {
            outcome: report.outcome,
            measured: report.measured,
        };
        if let Some(proposed) = worker.proposed.get_mut(&report.position) {
            match report.outcome {
                Outcome::Part => {
                    proposed.parts = proposed.parts.saturating_add(report.measured);
                    return None;
                }
                Outcome::Closed => {
                    proposed.close(report.measured, report.received, launches);
                    return None;
                }
                _ => end.measured = end.measured.saturating_add(proposed.parts),
            }
            proposed.end = Some(end);
            let name = self.names.get(&proposed.grant.session)?;
            let at = Reached {
                position: report.position,
                ..worker.tail
            };
            return Some(row(incarnation, at, None, proposed, (&name.0, &name.1)));
        }
        let rows = &mut worker.positions;
        // Parts that ended after a seal have no reported time.
        if matches!(report.outcome, Outcome::Part | Outcome::Closed) {
            return None;
        }
        let at = rows.binary_search_by_key(&report.position, |row| row.position);
        let row = rows.get_mut(at.ok()?)?;
        row.end = Some(end);
        Some(row.clone())
    }

    /// Names the owners of sessions that no recorded open grant has named.
    pub(super) fn name(&mut self, named: &[SealedName]) {
        for named in named {
            let name = (named.tenant.clone(), named.ordinal);
            self.names.entry(named.session).or_insert(name);
        }
    }

    /// Notes that a worker was sealed: its accepted grants stand. `tail` is the content of its
    /// pages and its answer together.
    pub(super) fn seal(
        &mut self,
        incarnation: Incarnation,
        answer: &SealAnswer,
        tail: &[SealedGrant],
        launches: &Launches,
    ) -> Result<(), ReplayError> {
        self.learn(incarnation, answer);
        let decided: Vec<bool> = tail
            .iter()
            .map(|sealed| self.has_decided(&sealed.grant))
            .collect();
        let worker = self.workers.entry(incarnation).or_default();
        worker.tail.gpu = answer.gpu;
        // A leader that was cut off with its server may have missed the worker until it declared it
        // lost.
        worker.lost = false;
        worker
            .proposed
            .split_off(&answer.position.saturating_add(1));
        for (sealed, decided) in tail.iter().zip(decided) {
            let beyond = sealed.position > answer.position;
            if sealed.position <= worker.tail.position || beyond {
                continue;
            }
            worker
                .confirm(sealed, decided, launches)
                .map_err(|why| ReplayError::Disagrees {
                    gpu: answer.gpu,
                    incarnation,
                    position: sealed.position,
                    why: why.into(),
                })?;
        }
        let tail = GpuTail {
            gpu: answer.gpu,
            position: answer.position,
            chain: answer.chain,
        };
        self.reach(incarnation, &tail, true)?;
        let worker = self.workers.entry(incarnation).or_default();
        worker.sealed = Some(worker.tail);
        self.forget(incarnation);
        Ok(())
    }

    /// Takes in the rest of a worker's seal answer: the owners of sessions, and the forgotten
    /// positions.
    fn learn(&mut self, incarnation: Incarnation, answer: &SealAnswer) {
        for session in &answer.sessions {
            let name = (session.tenant.clone(), session.ordinal);
            self.names.insert(session.session, name);
        }
        self.name(&answer.named);
        let forgotten = answer.forgotten.map(|(first, last)| Gap {
            incarnation,
            first,
            last,
            reason: "the worker kept no more grants that were not recorded".into(),
        });
        // The next leaders get the same report.
        let new = forgotten.filter(|gap| !self.gaps.contains(gap));
        self.gaps.extend(new);
    }

    /// Advances a chain to its end as reported by its worker. If grants are missing and that is
    /// allowed, they become a hole, and later grants are compared from the worker's own chain on.
    /// An order with a hole stays incomplete.
    fn reach(
        &mut self,
        incarnation: Incarnation,
        to: &GpuTail,
        may_skip: bool,
    ) -> Result<(), ReplayError> {
        let worker = self.workers.entry(incarnation).or_default();
        self.adopted += worker.advance(incarnation, to.position, &self.names);
        if worker.tail.position < to.position && may_skip {
            self.skip(incarnation, to);
        } else if may_skip {
            worker.recorded = to.position;
        }
        let worker = self.workers.entry(incarnation).or_default();
        let disagrees = |why: &str| ReplayError::Disagrees {
            gpu: to.gpu,
            incarnation,
            position: to.position,
            why: why.into(),
        };
        if worker.tail.position != to.position {
            return Err(disagrees("the record does not lead there"));
        }
        if worker.tail.chain != to.chain {
            return Err(disagrees("the recomputed chain is not the worker's"));
        }
        Ok(())
    }

    /// Notes that a worker was declared lost, or left: then it accepted no more than it reported. A
    /// leader that had not sealed it does not know its reports. All grants that it accepted had
    /// ended by then, and their ends were reported.
    pub(super) fn lost(&mut self, incarnation: Incarnation, left: bool, accepted: GpuPosition) {
        if let Some(worker) = self.workers.get_mut(&incarnation) {
            worker.lost |= !left;
            worker.left |= left;
            if left {
                let ended = worker.proposed.iter().rfind(|(_, it)| it.has_ended());
                let accepted = ended.map_or(accepted, |(position, _)| accepted.max(*position));
                worker.proposed.split_off(&accepted.saturating_add(1));
            }
        }
    }

    /// Compares a gone worker's chain with the chain that its leader knew. There is nothing to
    /// compare if a standing grant had an end that was not reported to that leader.
    pub(super) fn last_words(
        &mut self,
        incarnation: Incarnation,
        accepted: GpuPosition,
        chain: Chain,
    ) -> Result<(), ReplayError> {
        let Some(worker) = self.workers.get_mut(&incarnation) else {
            return Ok(());
        };
        if self.forgets && accepted < worker.tail.position {
            // The rows to compare with are gone.
            return Ok(());
        }
        self.adopted += worker.advance(incarnation, accepted, &self.names);
        let next = worker.proposed.get(&(worker.tail.position + 1));
        let why = match worker.chain_at(accepted) {
            Some(recomputed) if recomputed == chain => {
                worker.recorded = accepted;
                return Ok(());
            }
            Some(_) => "the recomputed chain is not the one its leader knew when it was lost",
            None if next.is_some_and(|next| next.open) => return Ok(()),
            None => "it had accepted this when it was lost, the record does not lead there",
        };
        Err(ReplayError::Disagrees {
            gpu: worker.tail.gpu,
            incarnation,
            position: accepted,
            why: why.into(),
        })
    }

    /// Number of rows, grants and names that are kept.
    pub(super) fn kept(&self) -> usize {
        let workers = self.workers.values();
        let rows = workers.map(|worker| worker.positions.len() + worker.proposed.len());
        rows.sum::<usize>() + self.names.len()
    }

    /// Takes in the final report of a worker.
    pub(super) fn finish(
        &mut self,
        incarnation: Incarnation,
        to: &GpuTail,
    ) -> Result<(), ReplayError> {
        let worker = self.workers.entry(incarnation).or_default();
        worker.tail.gpu = to.gpu;
        worker.proposed.split_off(&to.position.saturating_add(1));
        self.reach(incarnation, to, false)?;
        if let Some(worker) = self.workers.get_mut(&incarnation) {
            worker.proposed.clear();
        }
        Ok(())
    }

    /// Counts all grants of the other workers.
    pub(super) fn finish_rest(&mut self) {
        for (incarnation, worker) in &mut self.workers {
            worker.advance(*incarnation, GpuPosition::MAX, &self.names);
        }
    }

    /// The end of every chain, by gpu and incarnation.
    pub(super) fn tails(&self) -> Vec<Tail> {
        let tails = self.workers.iter().map(|(incarnation, worker)| Tail {
            incarnation: *incarnation,
            tail: GpuTail {
                gpu: worker.tail.gpu,
                position: worker.tail.position,
                chain: worker.tail.chain,
            },
            fate: match (worker.lost, worker.left) {
                (true, _) => Fate::Lost,
                (false, true) => Fate::Left,
                (false, false) => Fate::Here,
            },
            recorded: worker.recorded,
        });
        let mut tails: Vec<_> = tails.collect();
        tails.sort_by_key(|tail| (tail.tail.gpu, tail.incarnation));
        tails
    }

    /// Every position, by gpu, incarnation and position.
    pub(super) fn into_positions(self) -> Vec<ReplayedPosition> {
        let workers = self.workers.into_values();
        let mut positions: Vec<_> = workers.flat_map(|worker| worker.positions).collect();
        positions.sort_by_key(|row| (row.gpu, row.incarnation, row.position));
        positions
    }
}

#[cfg(test)]
mod tests;
