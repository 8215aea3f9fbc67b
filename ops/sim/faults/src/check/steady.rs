//! Steadiness: if nodes are slow and there is no other trouble, one leader leads from beginning to end, and
//! no worker is declared lost.

use bus_schemas::{Epoch, Incarnation};

use super::{CheckResult, Violation};
use sim_cluster::NodeId;

/// The first leader, if no other may follow it.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    first: Option<(Epoch, NodeId)>,
    /// True if steadiness is checked: no trouble may cost a leader or a worker its place.
    pub exact: bool,
}

impl Steady {
    /// Checks the heartbeat of a leader.
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

    /// Checks that a leader does not declare a present worker lost. `there` is false for a drained worker
    /// that has left.
    pub(crate) fn lost(&self, worker: Incarnation, there: bool) -> CheckResult {
        if !self.exact || !there {
            return Ok(());
        }
        let what = format!("worker {worker} was declared lost, and is there");
        Err(Violation::new("steady", what))
    }
}
