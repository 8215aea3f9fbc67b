//! Each incarnation's chain, as it is recomputed.

use std::collections::BTreeMap;

use bus_schemas::{
    Chain, ChainEntry, DoneReport, GpuPosition, GpuTail, Grant, GrantKind, Incarnation, OpNumber,
    OpenGrant, Outcome, SealAnswer, SessionId, Tenant,
};

use super::launches::Launches;
use super::{End, Position, ReplayError, Tail};

/// A grant that no seal has confirmed or refuted yet.
#[derive(Debug, Clone)]
pub(super) struct Proposed {
    pub(super) grant: Grant,
    pub(super) adopted: bool,
    /// Kernels among its ops, where they are known.
    pub(super) launches: Option<u64>,
    /// A standing grant of which it is not known where it was closed.
    open: bool,
    /// Device nanoseconds that the parts of a standing grant took.
    parts: u64,
    end: Option<End>,
}

impl Proposed {
    /// A grant that was recomputed.
    pub(super) fn new(grant: Grant, launches: Option<u64>) -> Self {
        Self {
            grant,
            adopted: false,
            launches,
            open: grant.kind == GrantKind::Standing,
            parts: 0,
            end: None,
        }
    }

    /// A standing grant was closed: what it came to.
    fn close(&mut self, first: OpNumber, last: OpNumber, launches: &Launches) {
        (self.grant.first, self.grant.last) = (first, last);
        self.launches = launches.of(&self.grant);
        self.open = false;
    }

    /// Whether a worker accepted just this: of a standing grant, wherever it was closed.
    fn is(&self, accepted: &Grant) -> bool {
        let mut grant = self.grant;
        if self.open {
            grant.last = accepted.last;
            if grant.first == 0 {
                grant.first = accepted.first;
            }
        }
        grant == *accepted
    }
}

#[derive(Debug, Default)]
struct Worker {
    tail: Reached,
    lost: bool,
    recorded: GpuPosition,
    proposed: BTreeMap<GpuPosition, Proposed>,
    positions: Vec<Position>,
}

/// Where a chain ends: as `GpuTail`, with a default.
#[derive(Debug, Default, Clone, Copy)]
struct Reached {
    gpu: u32,
    position: GpuPosition,
    chain: Chain,
}

/// All incarnations' chains.
#[derive(Debug, Default)]
pub(super) struct Chains {
    workers: BTreeMap<Incarnation, Worker>,
    names: BTreeMap<SessionId, (Tenant, u64)>,
    pub(super) adopted: u64,
    pub(super) skipped: u64,
}

impl Chains {
    /// A leader's order granted this.
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

    /// Whose session it is, if that is known.
    pub(super) fn tenant(&self, session: SessionId) -> Option<Tenant> {
        self.names.get(&session).map(|(tenant, _)| tenant.clone())
    }

    /// A position ended, as its worker reported, or goes on. Gives its row once it has ended.
    pub(super) fn end(
        &mut self,
        incarnation: Incarnation,
        report: &DoneReport,
        launches: &Launches,
    ) -> Option<Position> {
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
        // Parts that ended after a seal: what they took is not told.
        if matches!(report.outcome, Outcome::Part | Outcome::Closed) {
            return None;
        }
        let at = rows.binary_search_by_key(&report.position, |row| row.position);
        let row = rows.get_mut(at.ok()?)?;
        row.end = Some(end);
        Some(row.clone())
    }

    /// A worker was sealed: what it accepted is what stands.
    pub(super) fn seal(
        &mut self,
        incarnation: Incarnation,
        answer: &SealAnswer,
        launches: &Launches,
    ) -> Result<(), ReplayError> {
        for session in &answer.sessions {
            let name = (session.tenant.clone(), session.ordinal);
            self.names.insert(session.session, name);
        }
        let worker = self.workers.entry(incarnation).or_default();
        worker.tail.gpu = answer.gpu;
        worker
            .proposed
            .split_off(&answer.position.saturating_add(1));
        for sealed in &answer.tail {
            if sealed.position <= worker.tail.position || sealed.position > answer.position {
                continue;
            }
            // A leader that died with its whole record may have come between: what a leader
            // before it proposed here and behind was never accepted.
            let (at, epoch) = (sealed.position, sealed.grant.epoch);
            worker
                .proposed
                .retain(|position, proposed| *position < at || proposed.grant.epoch >= epoch);
            match worker.proposed.get_mut(&sealed.position) {
                Some(proposed) if proposed.is(&sealed.grant) => {
                    if proposed.open {
                        proposed.close(sealed.grant.first, sealed.grant.last, launches);
                    }
                }
                Some(_) => {
                    return Err(ReplayError::Disagrees {
                        gpu: answer.gpu,
                        incarnation,
                        position: sealed.position,
                        why: "the worker accepted another grant than was recomputed".into(),
                    });
                }
                None => {
                    let grant = sealed.grant;
                    let mut proposed = Proposed::new(grant, launches.of(&grant));
                    proposed.adopted = true;
                    proposed.open = false;
                    worker.proposed.insert(sealed.position, proposed);
                }
            }
        }
        let tail = GpuTail {
            gpu: answer.gpu,
            position: answer.position,
            chain: answer.chain,
        };
        self.reach(incarnation, &tail, true)
    }

    /// Advances a chain to where its worker says it ends. Where grants are missing and that is
    /// allowed, the rest is skipped and the worker believed.
    fn reach(
        &mut self,
        incarnation: Incarnation,
        to: &GpuTail,
        may_skip: bool,
    ) -> Result<(), ReplayError> {
        let worker = self.workers.entry(incarnation).or_default();
        self.adopted += worker.advance(incarnation, to.position, &self.names);
        let missing = to.position.saturating_sub(worker.tail.position);
        if missing > 0 && may_skip {
            self.skipped += missing;
            worker
                .proposed
                .retain(|position, _| *position > to.position);
            (worker.tail.position, worker.tail.chain) = (to.position, to.chain);
        } else if may_skip {
            worker.recorded = to.position;
        }
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

    /// A worker was declared lost, or left: then it accepted no more than it said.
    pub(super) fn lost(&mut self, incarnation: Incarnation, left: bool, accepted: GpuPosition) {
        if let Some(worker) = self.workers.get_mut(&incarnation) {
            worker.lost |= !left;
            if left {
                worker.proposed.split_off(&accepted.saturating_add(1));
            }
        }
    }

    /// A worker is gone, and this is what its leader knew of its chain. Where a standing grant
    /// ended whose end nobody told that leader of, there is nothing to compare with.
    pub(super) fn last_words(
        &mut self,
        incarnation: Incarnation,
        accepted: GpuPosition,
        chain: Chain,
    ) -> Result<(), ReplayError> {
        let Some(worker) = self.workers.get_mut(&incarnation) else {
            return Ok(());
        };
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

    /// What a worker reports at the end.
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

    /// Of the others, all that was granted counts.
    pub(super) fn finish_rest(&mut self) {
        for (incarnation, worker) in &mut self.workers {
            worker.advance(*incarnation, GpuPosition::MAX, &self.names);
        }
    }

    /// Where every chain ends, by gpu and incarnation.
    pub(super) fn tails(&self) -> Vec<Tail> {
        let tails = self.workers.iter().map(|(incarnation, worker)| Tail {
            incarnation: *incarnation,
            tail: GpuTail {
                gpu: worker.tail.gpu,
                position: worker.tail.position,
                chain: worker.tail.chain,
            },
            lost: worker.lost,
            recorded: worker.recorded,
        });
        let mut tails: Vec<_> = tails.collect();
        tails.sort_by_key(|tail| (tail.tail.gpu, tail.incarnation));
        tails
    }

    /// Every position, by gpu, incarnation and position.
    pub(super) fn into_positions(self) -> Vec<Position> {
        let workers = self.workers.into_values();
        let mut positions: Vec<_> = workers.flat_map(|worker| worker.positions).collect();
        positions.sort_by_key(|row| (row.gpu, row.incarnation, row.position));
        positions
    }
}

impl Worker {
    /// Goes on to a position, as far as what was granted there is known, and says how many positions
    /// were adopted on the way.
    fn advance(
        &mut self,
        incarnation: Incarnation,
        to: GpuPosition,
        names: &BTreeMap<SessionId, (Tenant, u64)>,
    ) -> u64 {
        let mut adopted = 0;
        while self.tail.position < to
            && let Some(next) = self.proposed.get(&(self.tail.position + 1))
            && let Some(name) = names.get(&next.grant.session)
            && !next.open
            && let Some(next) = self.proposed.remove(&(self.tail.position + 1))
        {
            adopted += u64::from(next.adopted);
            self.accept(incarnation, &next, name);
        }
        adopted
    }

    /// The chain behind a position that it has come to.
    fn chain_at(&self, position: GpuPosition) -> Option<Chain> {
        if position == self.tail.position {
            return Some(self.tail.chain);
        }
        let rows = &self.positions;
        let at = rows.binary_search_by_key(&position, |row| row.position);
        rows[at.ok()?].chain
    }

    fn accept(
        &mut self,
        incarnation: Incarnation,
        next: &Proposed,
        (tenant, ordinal): &(Tenant, u64),
    ) {
        let grant = &next.grant;
        self.tail.position += 1;
        self.tail.chain = self.tail.chain.then(&ChainEntry {
            position: self.tail.position,
            tenant,
            ordinal: *ordinal,
            kind: grant.kind,
            first: grant.first,
            last: grant.last,
        });
        let chain = Some(self.tail.chain);
        let row = row(incarnation, self.tail, chain, next, (tenant, ordinal));
        self.positions.push(row);
    }
}

fn row(
    incarnation: Incarnation,
    at: Reached,
    chain: Option<Chain>,
    next: &Proposed,
    (tenant, ordinal): (&Tenant, &u64),
) -> Position {
    let grant = &next.grant;
    Position {
        gpu: at.gpu,
        incarnation,
        position: at.position,
        global: grant.global,
        epoch: grant.epoch,
        input: grant.input,
        tenant: tenant.clone(),
        ordinal: *ordinal,
        session: grant.session,
        kind: grant.kind,
        priority: grant.priority,
        first: grant.first,
        last: grant.last,
        launches: next.launches,
        cost: match grant.kind {
            GrantKind::Standing => 0,
            _ => grant.cost,
        },
        end: next.end,
        adopted: next.adopted,
        chain,
    }
}

#[cfg(test)]
mod tests;
