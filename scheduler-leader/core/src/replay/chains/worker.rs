//! One worker's chain, as far as it is recomputed.

use std::collections::BTreeMap;

use bus_schemas::{
    Chain, ChainEntry, GpuPosition, GpuTail, GrantKind, Incarnation, SealedGrant, SessionId, Tenant,
};

use super::super::launches::Launches;
use super::super::replayed::ReplayedPosition;
use super::proposed::Proposed;

/// A worker: the end of its chain, and its grants beyond.
#[derive(Debug, Default)]
pub(super) struct Worker {
    pub(super) tail: Reached,
    pub(super) lost: bool,
    pub(super) left: bool,
    /// The end of its chain when it was sealed in this term.
    pub(super) sealed: Option<Reached>,
    /// Terms since it was sealed.
    pub(super) unsealed: u32,
    /// Number of accepted positions, without those before an anchor.
    pub(super) accepted: u64,
    pub(super) recorded: GpuPosition,
    pub(super) proposed: BTreeMap<GpuPosition, Proposed>,
    pub(super) positions: Vec<ReplayedPosition>,
    /// Closes that have ended, but that the chain has not passed.
    pub(super) closed: Vec<(GpuPosition, SessionId)>,
}

/// The end of a chain: as `GpuTail`, with a default.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Reached {
    pub(super) gpu: u32,
    pub(super) position: GpuPosition,
    pub(super) chain: Chain,
}

impl Worker {
    /// Takes in a grant that the worker reported as accepted at its seal. It is a recomputed grant,
    /// or is adopted if the record lacks the input that `decided` it.
    ///
    /// # Errors
    /// The reason why the two disagree.
    pub(super) fn confirm(
        &mut self,
        sealed: &SealedGrant,
        decided: bool,
        launches: &Launches,
    ) -> Result<(), &'static str> {
        // A leader that died with its whole record may have come between: the earlier leader's
        // proposals from here on were never accepted.
        let (at, epoch) = (sealed.position, sealed.grant.epoch);
        self.proposed
            .retain(|position, proposed| *position < at || proposed.grant.epoch >= epoch);
        match self.proposed.get_mut(&at) {
            Some(proposed) if proposed.is(&sealed.grant) => {
                if proposed.open {
                    proposed.close(sealed.grant.first, sealed.grant.last, launches);
                }
                proposed.sealed = true;
            }
            Some(_) => return Err("the worker accepted another grant than was recomputed"),
            // Only grants accepted in the last append interval are adopted.
            None if decided => {
                return Err(
                    "the worker accepted a grant that its leader did not make: the record has \
                     the input that it names",
                );
            }
            None => {
                let grant = sealed.grant;
                let mut proposed = Proposed::new(grant, launches.of(&grant));
                proposed.adopted = true;
                proposed.sealed = true;
                proposed.open = false;
                self.proposed.insert(at, proposed);
            }
        }
        Ok(())
    }

    /// Advances to a position, as far as the grants there are known. Returns the number of
    /// positions that were adopted on the way.
    pub(super) fn advance(
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

    /// Like [`Self::advance`], over grants that have ended.
    pub(super) fn advance_ended(
        &mut self,
        incarnation: Incarnation,
        names: &BTreeMap<SessionId, (Tenant, u64)>,
    ) -> u64 {
        let mut to = self.tail.position;
        while let Some(next) = self.proposed.get(&(to + 1))
            && next.end.is_some()
        {
            to += 1;
        }
        self.advance(incarnation, to, names)
    }

    /// Accepts a grant of the tail behind positions that have no record. Returns 1 if it was
    /// adopted, else 0. Its chain cannot be computed.
    pub(super) fn take_sealed(
        &mut self,
        incarnation: Incarnation,
        position: GpuPosition,
        names: &BTreeMap<SessionId, (Tenant, u64)>,
    ) -> u64 {
        let Some(next) = self.proposed.remove(&position) else {
            return 0;
        };
        let Some(name) = names.get(&next.grant.session) else {
            return 0;
        };
        self.tail.position = position;
        self.accepted += 1;
        let row = row(incarnation, self.tail, None, &next, (&name.0, &name.1));
        self.positions.push(row);
        u64::from(next.adopted)
    }

    /// Moves to the end of the chain as reported by its worker, across any missing positions.
    pub(super) fn arrive(&mut self, to: &GpuTail) {
        self.proposed.retain(|position, _| *position > to.position);
        (self.tail.position, self.tail.chain) = (to.position, to.chain);
        let last = self.positions.last_mut();
        if let Some(last) = last.filter(|row| row.position == to.position) {
            last.chain = Some(to.chain);
        }
    }

    /// The chain at a position that was reached.
    pub(super) fn chain_at(&self, position: GpuPosition) -> Option<Chain> {
        if position == self.tail.position {
            return Some(self.tail.chain);
        }
        let rows = &self.positions;
        let at = rows.binary_search_by_key(&position, |row| row.position);
        rows.get(at.ok()?)?.chain
    }

    fn accept(
        &mut self,
        incarnation: Incarnation,
        next: &Proposed,
        (tenant, ordinal): &(Tenant, u64),
    ) {
        let grant = &next.grant;
        self.tail.position += 1;
        self.accepted += 1;
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

/// The row of a position.
pub(super) fn row(
    incarnation: Incarnation,
    at: Reached,
    chain: Option<Chain>,
    next: &Proposed,
    (tenant, ordinal): (&Tenant, &u64),
) -> ReplayedPosition {
    let grant = &next.grant;
    ReplayedPosition {
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
        work: Vec::new(),
        cost: match grant.kind {
            GrantKind::Standing => 0,
            _ => grant.cost,
        },
        end: next.end,
        adopted: next.adopted,
        timing: None,
        chain,
    }
}
