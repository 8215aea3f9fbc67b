//! Steadiness: where nodes are slow and nothing else goes wrong, one leader leads from beginning to end,
//! and no worker is declared lost.

use bus_schemas::{Epoch, Incarnation};

use super::{CheckResult, Violation};
use sim_cluster::NodeId;

/// The first leader, where no other may follow it.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    first: Option<(Epoch, NodeId)>,
    /// It is checked: nothing goes wrong that would cost a leader or a worker its place.
    pub exact: bool,
}

impl Steady {
    /// A leader beats.
    pub(crate) fn leads(&mut self, epoch: Epoch, leader: NodeId) -> CheckResult {
        let (before, first) = *self.first.get_or_insert((epoch, leader));
        if !self.exact || (before, first) == (epoch, leader) {
            return Ok(());
        }
        let what = format!(
            "{leader:?} leads epoch {epoch} after {first:?} with {before}, which was there"
        );
        Err(Violation::new("steady", what))
    }

    /// A leader declares a worker lost, which is there or not: one that was drained has left.
    pub(crate) fn lost(&self, worker: Incarnation, there: bool) -> CheckResult {
        if !self.exact || !there {
            return Ok(());
        }
        let what = format!("worker {worker} was declared lost, and is there");
        Err(Violation::new("steady", what))
    }
}
