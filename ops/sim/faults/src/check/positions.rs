//! I2, I3 and the worker's half of I5: the grants that each worker accepted, the order in which it started
//! them, and its chain over them.

use std::collections::BTreeMap;

use bus_schemas::{
    Chain, ChainEntry, Done, Epoch, GpuId, GpuPosition, GpuTail, Grant, GrantBatch, GrantKind,
    Incarnation, LeaderId, OpNumber, Outcome, SealAnswer, SessionId, Tenant,
};

use super::{CheckResult, Violation};

/// One incarnation's history.
#[derive(Debug)]
struct Log {
    gpu: GpuId,
    sealed: Option<(Epoch, LeaderId)>,
    /// Leader that has been given all the accepted grants.
    answered: Option<(Epoch, LeaderId)>,
    // Grants sent to it by the leader that it obeys; it may yet discard those above `accepted`.
    offered: BTreeMap<GpuPosition, Grant>,
    // The chain after each accepted position; index 0 is the empty chain.
    chains: Vec<Chain>,
    started: GpuPosition,
    // The last op started of each standing grant.
    parts: BTreeMap<GpuPosition, OpNumber>,
    settled: BTreeMap<GpuPosition, Outcome>,
    alive: bool,
}

impl Log {
    // The first op of the grant at a position. A standing grant without one continues after its session's
    // last standing grant.
    fn first(&self, position: GpuPosition) -> OpNumber {
        let Some(grant) = self.offered.get(&position) else {
            return 0;
        };
        if grant.kind != GrantKind::Standing || grant.first > 0 {
            return grant.first;
        }
        let mut before = self.offered.range(..position).rev();
        let last = before
            .find(|(_, other)| other.kind == GrantKind::Standing && other.session == grant.session);
        last.map_or(0, |(at, _)| {
            let part = self.parts.get(at);
            part.map_or_else(|| self.first(*at), |last| last + 1)
        })
    }
}

/// All incarnations' histories.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    workers: BTreeMap<Incarnation, Log>,
    owners: BTreeMap<SessionId, (Tenant, u64)>,
    // Grants of each leader by position, to check that it never grants two different things at one.
    said: BTreeMap<(Incarnation, Epoch, LeaderId, GpuPosition), Grant>,
    /// Number of voids.
    pub voids: u64,
}

impl Positions {
    /// Notes that a worker began.
    pub(crate) fn began(&mut self, incarnation: Incarnation, gpu: GpuId) {
        let log = Log {
            gpu,
            sealed: None,
            answered: None,
            offered: BTreeMap::new(),
            chains: vec![Chain::default()],
            started: 0,
            parts: BTreeMap::new(),
            settled: BTreeMap::new(),
            alive: true,
        };
        self.workers.insert(incarnation, log);
    }

    /// Notes that a worker died.
    pub(crate) fn died(&mut self, incarnation: Incarnation) {
        if let Some(log) = self.workers.get_mut(&incarnation) {
            log.alive = false;
        }
    }

    fn log(&mut self, incarnation: Incarnation) -> Result<&mut Log, Violation> {
        let unknown = || Violation::new("I2", format!("no worker {incarnation}"));
        self.workers.get_mut(&incarnation).ok_or_else(unknown)
    }

    /// Checks an order that a leader published.
    pub(crate) fn ordered(
        &mut self,
        incarnation: Incarnation,
        batch: &GrantBatch<'_>,
    ) -> CheckResult {
        for open in &batch.opens {
            let owner = (open.tenant.clone(), open.ordinal);
            let known = self.owners.entry(open.session).or_insert(owner.clone());
            if *known != owner {
                let what = format!(
                    "session {} was opened as {known:?} and {owner:?}",
                    open.session
                );
                return Err(Violation::new("I5", what));
            }
        }
        for (position, grant) in (batch.first..).zip(batch.grants.iter()) {
            let key = (incarnation, batch.epoch, batch.leader, position);
            let said = *self.said.entry(key).or_insert(grant);
            if said != grant || grant.epoch != batch.epoch {
                let what =
                    format!("position {position} of {incarnation}: {said:?}, then {grant:?}");
                return Err(Violation::new("I5", what));
            }
        }
        Ok(())
    }

    /// Notes an order that a worker received.
    pub(crate) fn heard(
        &mut self,
        incarnation: Incarnation,
        batch: &GrantBatch<'_>,
    ) -> CheckResult {
        let log = self.log(incarnation)?;
        if log.sealed == Some((batch.epoch, batch.leader)) {
            for (position, grant) in (batch.first..).zip(batch.grants.iter()) {
                if position as usize >= log.chains.len() {
                    log.offered.insert(position, grant);
                }
            }
        }
        Ok(())
    }

    /// Checks a worker's report of accepted grants.
    pub(crate) fn done(&mut self, incarnation: Incarnation, done: &Done<'_>) -> CheckResult {
        let sealed = self.log(incarnation)?.sealed;
        if sealed.is_none_or(|(epoch, _)| epoch != done.epoch) {
            let what = format!(
                "{incarnation} reports for epoch {}, sealed {sealed:?}",
                done.epoch
            );
            return Err(Violation::new("I3", what));
        }
        self.accepted(incarnation, done.accepted, done.chain)
    }

    /// Checks a worker's answer to a seal.
    pub(crate) fn sealed(&mut self, incarnation: Incarnation, answer: &SealAnswer) -> CheckResult {
        self.accepted(incarnation, answer.position, answer.chain)?;
        let new = (answer.epoch, answer.leader);
        self.begins_to_obey(incarnation, new)?;
        let log = self.log(incarnation)?;
        if log.answered != Some(new) {
            log.answered = Some(new);
            log.offered
                .retain(|position, _| *position <= answer.position);
        }
        Ok(())
    }

    /// Notes that a worker answered a seal, perhaps with a page of its tail. It obeys this leader from here
    /// on.
    pub(crate) fn begins_to_obey(
        &mut self,
        incarnation: Incarnation,
        new: (Epoch, LeaderId),
    ) -> CheckResult {
        let log = self.log(incarnation)?;
        if let Some(old) = log.sealed
            && (new.0 < old.0 || new.0 == old.0 && new.1 != old.1)
        {
            let what = format!("{incarnation}, sealed to {old:?}, let itself be sealed to {new:?}");
            return Err(Violation::new("I3", what));
        }
        log.sealed = Some(new);
        Ok(())
    }

    fn accepted(
        &mut self,
        incarnation: Incarnation,
        through: GpuPosition,
        chain: Chain,
    ) -> CheckResult {
        let unknown = || Violation::new("I2", format!("no worker {incarnation}"));
        let log = self.workers.get_mut(&incarnation).ok_or_else(unknown)?;
        while (log.chains.len() as u64) <= through {
            let position = log.chains.len() as u64;
            let last = *log.chains.last().unwrap_or(&Chain::default());
            let (first, part) = (log.first(position), log.parts.get(&position).copied());
            let Some(grant) = log.offered.get_mut(&position) else {
                let what =
                    format!("{incarnation} accepted {position}, which its leader did not grant");
                return Err(Violation::new("I3", what));
            };
            if grant.kind == GrantKind::Standing {
                // The grant is closed at the last op that it started.
                grant.first = first;
                grant.last = part.unwrap_or(first.saturating_sub(1));
            }
            let Some((tenant, ordinal)) = self.owners.get(&grant.session) else {
                let what = format!("{incarnation} accepted {position} of a session never opened");
                return Err(Violation::new("I4", what));
            };
            log.chains.push(last.then(&ChainEntry {
                position,
                tenant,
                ordinal: *ordinal,
                kind: grant.kind,
                first: grant.first,
                last: grant.last,
            }));
        }
        if log.chains[through as usize] != chain {
            let what = format!("{incarnation}: its chain at {through} is not that of its grants");
            return Err(Violation::new("I5", what));
        }
        Ok(())
    }

    /// Checks that a device begins a slice.
    pub(crate) fn started(
        &mut self,
        incarnation: Incarnation,
        position: GpuPosition,
        session: SessionId,
        ops: (OpNumber, OpNumber),
    ) -> CheckResult {
        let log = self.log(incarnation)?;
        let grant = log.offered.get(&position);
        if let Some(grant) = grant.filter(|grant| grant.kind == GrantKind::Standing) {
            let part = log.parts.get(&position);
            let next = part.map_or_else(|| log.first(position), |last| last + 1);
            let open = position as usize >= log.chains.len();
            if grant.session == session && ops.0 == next && open && position >= log.started {
                log.parts.insert(position, ops.1);
                log.started = position;
                return Ok(());
            }
        }
        let right = grant.is_some_and(|grant| {
            grant.kind == GrantKind::Run
                && grant.session == session
                && (grant.first, grant.last) == ops
        });
        if !right {
            let what = format!("{incarnation} runs {session} {ops:?} at {position}, not {grant:?}");
            return Err(Violation::new("I3", what));
        }
        if position <= log.started || log.settled.contains_key(&position) {
            let what = format!("{incarnation} runs {position} after {}", log.started);
            return Err(Violation::new("I2", what));
        }
        let skipped = log
            .offered
            .range(log.started + 1..position)
            .find(|(at, grant)| grant.kind == GrantKind::Run && !log.settled.contains_key(at));
        if let Some((skipped, _)) = skipped {
            let what = format!("{incarnation} runs {position} and left out {skipped}");
            return Err(Violation::new("I2", what));
        }
        log.started = position;
        Ok(())
    }

    /// Checks the end of a position.
    pub(crate) fn settled(
        &mut self,
        incarnation: Incarnation,
        position: GpuPosition,
        outcome: Outcome,
    ) -> CheckResult {
        self.voids += u64::from(outcome == Outcome::Void);
        let log = self.log(incarnation)?;
        if log.settled.insert(position, outcome).is_some() {
            let what = format!("{incarnation}: position {position} ended twice");
            return Err(Violation::new("I2", what));
        }
        let kind = log.offered.get(&position).map(|grant| grant.kind);
        if outcome == Outcome::Ran && kind == Some(GrantKind::Run) && position > log.started {
            let what = format!("{incarnation}: position {position} is done and never began");
            return Err(Violation::new("I2", what));
        }
        Ok(())
    }

    /// Checks at the end that every accepted position of a living worker has ended.
    pub(crate) fn finish(&self) -> CheckResult {
        for (incarnation, log) in self.workers.iter().filter(|(_, log)| log.alive) {
            let open = (1..log.chains.len() as u64).find(|at| !log.settled.contains_key(at));
            if let Some(open) = open {
                let what = format!("{incarnation}: position {open} was accepted and never ended");
                return Err(Violation::new("I2", what));
            }
        }
        Ok(())
    }

    /// A living worker that does not obey an epoch.
    #[must_use]
    pub(crate) fn stray(&self, epoch: Epoch) -> Option<Incarnation> {
        let astray = |log: &Log| log.alive && log.sealed.map(|(of, _)| of) != Some(epoch);
        let mut workers = self.workers.iter();
        workers.find(|(_, log)| astray(log)).map(|(id, _)| *id)
    }

    /// True if a worker was last sealed to this leader.
    #[must_use]
    pub(crate) fn obeys(&self, incarnation: Incarnation, leader: (Epoch, LeaderId)) -> bool {
        let log = self.workers.get(&incarnation);
        log.is_some_and(|log| log.sealed == Some(leader))
    }

    /// The chains of all incarnations, each with true if it lives.
    pub(crate) fn tails(&self) -> impl Iterator<Item = (Incarnation, GpuTail, bool)> + '_ {
        self.workers.iter().map(|(incarnation, log)| {
            let tail = GpuTail {
                gpu: log.gpu,
                position: log.chains.len() as u64 - 1,
                chain: log.chains.last().copied().unwrap_or_default(),
            };
            (*incarnation, tail, log.alive)
        })
    }

    /// A session's tenant, and its ordinal among the tenant's sessions.
    #[must_use]
    pub(crate) fn owner(&self, session: SessionId) -> Option<&(Tenant, u64)> {
        self.owners.get(&session)
    }

    /// Outcome of an incarnation's position.
    #[must_use]
    pub(crate) fn outcome(
        &self,
        incarnation: Incarnation,
        position: GpuPosition,
    ) -> Option<Outcome> {
        let log = self.workers.get(&incarnation)?;
        log.settled.get(&position).copied()
    }

    /// The grant that an incarnation accepted at a position.
    #[must_use]
    pub(crate) fn grant(&self, incarnation: Incarnation, position: GpuPosition) -> Option<&Grant> {
        let log = self.workers.get(&incarnation)?;
        (position < log.chains.len() as u64)
            .then(|| log.offered.get(&position))
            .flatten()
    }
}
