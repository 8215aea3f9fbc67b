//! Sessions that are not here, and on which workers they were, as their clients say.

use std::collections::BTreeMap;

use bus_schemas::{GpuId, Incarnation, SessionId, Tenant};

use crate::time::Nanos;

/// Sessions that are not here of which it is known on which workers they were.
const CLAIMED: usize = 4_096;

type Whose = (Tenant, SessionId);

/// Where one session was.
#[derive(Debug)]
pub(super) struct Claim {
    worker: Incarnation,
    /// The worker's device, where the client says it.
    gpu: Option<GpuId>,
    /// The client said it first then.
    since: Nanos,
    /// The worker is gone, and the client was told.
    told: bool,
}

impl Claim {
    /// Whether its worker is gone, if these are lost.
    pub(super) fn is_bereaved(&self, lost: &[Incarnation]) -> bool {
        self.told || lost.contains(&self.worker)
    }
}

/// A worker that a client names and of which the client was not told.
#[derive(Debug, Clone, Copy)]
pub(in crate::leader) struct Named {
    pub(in crate::leader) worker: Incarnation,
    /// Its device, where the client says it.
    pub(in crate::leader) gpu: Option<GpuId>,
    /// The client named it first then.
    pub(in crate::leader) since: Nanos,
}

/// What clients say of sessions that are not here.
#[derive(Debug, Default)]
pub(in crate::leader) struct Claims(BTreeMap<Whose, Claim>);

impl Claims {
    /// A client says where a session was.
    pub(super) fn claim(
        &mut self,
        now: Nanos,
        whose: Whose,
        worker: Incarnation,
        gpu: Option<GpuId>,
    ) {
        let claim = Claim {
            worker,
            gpu,
            since: now,
            told: false,
        };
        let room = self.0.len() < CLAIMED;
        match self.0.get_mut(&whose) {
            Some(before) if before.worker == worker => before.gpu = gpu,
            Some(before) => *before = claim,
            None if room => {
                self.0.insert(whose, claim);
            }
            None => {}
        }
    }

    /// What a client said of a session.
    pub(super) fn get(&self, whose: &Whose) -> Option<&Claim> {
        self.0.get(whose)
    }

    /// A worker is gone: the sessions of which their clients are to be told.
    pub(super) fn bereaved(
        &mut self,
        worker: Incarnation,
    ) -> impl Iterator<Item = (&Tenant, SessionId)> {
        let claims = self.0.iter_mut();
        let theirs = claims.filter(move |(_, claim)| claim.worker == worker);
        theirs.map(|((tenant, session), claim)| {
            claim.told = true;
            (tenant, *session)
        })
    }

    /// The workers of which clients were not told that they are gone.
    pub(in crate::leader) fn named(&self) -> impl Iterator<Item = Named> {
        let open = self.0.values().filter(|claim| !claim.told);
        open.map(|claim| Named {
            worker: claim.worker,
            gpu: claim.gpu,
            since: claim.since,
        })
    }
}
