//! Claims of clients to sessions that are not here, with the workers of these sessions.

use std::collections::BTreeMap;

use bus_schemas::{GpuId, Incarnation, SessionId, Tenant};

use crate::time::Nanos;

/// Maximum number of claims.
const CLAIMED: usize = 4_096;
/// Maximum number of claims of one tenant: a flood of made-up sessions takes no other tenant's
/// room.
const CLAIMED_OF_ONE: usize = CLAIMED / 4;

/// The worker of one session, as its client reports it.
#[derive(Debug)]
pub(super) struct Claim {
    worker: Incarnation,
    /// The worker's device, if the client reports it.
    gpu: Option<GpuId>,
    /// Time of the client's first report.
    since: Nanos,
    /// True if the worker is gone, and the client was told.
    told: bool,
}

impl Claim {
    /// Returns true if its worker is gone, given the lost workers.
    pub(super) fn is_bereaved(&self, lost: &[Incarnation]) -> bool {
        self.told || lost.contains(&self.worker)
    }
}

/// A worker that a client names, and that the client was not told is gone.
#[derive(Debug, Clone, Copy)]
pub(in crate::leader) struct Named {
    pub(in crate::leader) worker: Incarnation,
    /// Its device, if the client reports it.
    pub(in crate::leader) gpu: Option<GpuId>,
    /// Time at which the client named it first.
    pub(in crate::leader) since: Nanos,
}

/// All claims of a term.
#[derive(Debug, Default)]
pub(in crate::leader) struct Claims {
    of: BTreeMap<Tenant, BTreeMap<SessionId, Claim>>,
    count: usize,
}

impl Claims {
    /// Notes the worker of a session, while there is room.
    pub(super) fn note(
        &mut self,
        now: Nanos,
        (tenant, session): (&Tenant, SessionId),
        (worker, gpu): (Incarnation, Option<GpuId>),
    ) {
        let claim = Claim {
            worker,
            gpu,
            since: now,
            told: false,
        };
        let own = self.of.get_mut(tenant);
        if let Some(known) = own.and_then(|own| own.get_mut(&session)) {
            if known.worker != worker {
                *known = claim;
            }
            return;
        }
        let own = self.of.get(tenant).map_or(0, BTreeMap::len);
        if self.count < CLAIMED && own < CLAIMED_OF_ONE {
            self.count += 1;
            let own = self.of.entry(tenant.clone()).or_default();
            own.insert(session, claim);
        }
    }

    /// The claim of a session.
    pub(super) fn get(&self, tenant: &Tenant, session: SessionId) -> Option<&Claim> {
        self.of.get(tenant)?.get(&session)
    }

    /// Drops the claims to sessions that are here.
    pub(super) fn drop_met(&mut self, is_here: impl Fn(&SessionId) -> bool) {
        for own in self.of.values_mut() {
            own.retain(|session, _| !is_here(session));
        }
        self.of.retain(|_, own| !own.is_empty());
        self.count = self.of.values().map(BTreeMap::len).sum();
    }

    /// Restarts all waits for the named workers: our connection is up again.
    pub(super) fn connected(&mut self, now: Nanos) {
        let claims = self.of.values_mut().flat_map(BTreeMap::values_mut);
        claims.for_each(|claim| claim.since = now);
    }

    /// Leaves a time out of all waits for the named workers: we stood still, and heard no worker.
    pub(super) fn stood_still(&mut self, by: Nanos) {
        let claims = self.of.values_mut().flat_map(BTreeMap::values_mut);
        claims.for_each(|claim| claim.since = claim.since.saturating_add(by));
    }

    /// Marks workers as gone. Returns the sessions with clients that must be told.
    pub(super) fn bereave(
        &mut self,
        is_gone: impl Fn(Incarnation) -> bool,
    ) -> impl Iterator<Item = (&Tenant, SessionId)> {
        let owns = self.of.iter_mut();
        let claims = owns.flat_map(|(tenant, own)| own.iter_mut().map(move |it| (tenant, it)));
        let theirs = claims.filter(move |(_, (_, claim))| is_gone(claim.worker));
        theirs.map(|(tenant, (session, claim))| {
            claim.told = true;
            (tenant, *session)
        })
    }

    /// The named workers for which the client was not told that they are gone.
    pub(in crate::leader) fn named(&self) -> impl Iterator<Item = Named> {
        let claims = self.of.values().flat_map(BTreeMap::values);
        let open = claims.filter(|claim| !claim.told);
        open.map(|claim| Named {
            worker: claim.worker,
            gpu: claim.gpu,
            since: claim.since,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenants_made_up_sessions_leave_room_for_others() {
        let (mallory, chat): (Tenant, Tenant) =
            ("mallory".parse().unwrap(), "chat".parse().unwrap());
        let mut claims = Claims::default();
        for session in 0..2 * CLAIMED as u64 {
            let place = (Incarnation(session), Some(1));
            claims.note(0, (&mallory, SessionId(session)), place);
        }
        assert_eq!(claims.named().count(), CLAIMED_OF_ONE);
        let own = SessionId(1 << 40);
        claims.note(0, (&chat, own), (Incarnation(7), None));
        assert!(claims.get(&chat, own).is_some());
        // Two tenants that name the same worker are both told, once.
        let told: Vec<_> = claims.bereave(|worker| worker == Incarnation(7)).collect();
        assert_eq!(told, [(&chat, own), (&mallory, SessionId(7))]);
        assert_eq!(claims.named().count(), CLAIMED_OF_ONE - 1);
        claims.drop_met(|session| *session != own);
        assert_eq!((claims.count, claims.named().count()), (1, 0));
    }
}
