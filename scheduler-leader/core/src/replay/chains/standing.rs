//! Standing grants that have not ended.

use bus_schemas::{GpuPosition, Incarnation, OpNumber, Outcome};

use super::super::launches::Launches;
use super::super::replayed::{End, ReplayedPosition};
use super::Chains;
use super::worker::{Reached, row};

impl Chains {
    /// The row of a standing grant that has not ended, with its ops through this one.
    pub(in crate::replay) fn standing(
        &self,
        (incarnation, position): (Incarnation, GpuPosition),
        through: OpNumber,
        launches: &Launches,
    ) -> Option<ReplayedPosition> {
        let worker = self.workers.get(&incarnation)?;
        let proposed = worker.proposed.get(&position)?;
        let name = self.names.get(&proposed.grant.session)?;
        let mut so_far = proposed.clone();
        if so_far.grant.first > 0 && through >= so_far.grant.first {
            so_far.grant.last = through;
            so_far.launches = launches.of(&so_far.grant);
        }
        so_far.end = Some(End {
            outcome: Outcome::Part,
            measured: so_far.parts,
        });
        let at = Reached {
            position,
            ..worker.tail
        };
        Some(row(incarnation, at, None, &so_far, (&name.0, &name.1)))
    }
}
