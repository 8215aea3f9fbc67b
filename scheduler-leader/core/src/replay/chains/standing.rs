//! Standing grants that have not ended.

use bus_schemas::{DoneReport, GpuPosition, Incarnation, OpNumber, Outcome};

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

    /// The row of a part of a standing grant: the ops from `first` through the last one that the report names. A
    /// part that has finished no op has the op that it ran.
    pub(in crate::replay) fn part(
        &self,
        (incarnation, report): (Incarnation, &DoneReport),
        first: OpNumber,
        launches: &Launches,
    ) -> Option<ReplayedPosition> {
        let worker = self.workers.get(&incarnation)?;
        let position = report.position;
        let (session, last) = (report.session, report.received.max(first));
        let whole = match worker.proposed.get(&position) {
            Some(proposed) => {
                let name = self.names.get(&session)?;
                let at = Reached {
                    position,
                    ..worker.tail
                };
                row(incarnation, at, None, proposed, (&name.0, &name.1))
            }
            // It has been sealed since.
            None => {
                let rows = &worker.positions;
                let at = rows.binary_search_by_key(&position, |row| row.position);
                rows.get(at.ok()?)?.clone()
            }
        };
        let (kernels, unknown) = launches.tally(session, first, last);
        Some(ReplayedPosition {
            first,
            last,
            launches: (unknown == 0).then_some(kernels),
            end: Some(End {
                outcome: report.outcome,
                measured: report.measured,
            }),
            ..whole
        })
    }
}
