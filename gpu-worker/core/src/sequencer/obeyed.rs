//! The leader that the worker obeys.

use bus_schemas::{Epoch, LeaderId, Refusal, Seal, WIRE_VERSION, invariant};

use crate::Nanos;

/// The relation of a message's epoch and leader to those that the worker obeys.
#[derive(PartialEq, Eq)]
pub(super) enum Standpoint {
    Obeyed,
    /// A lower epoch, or another leader of the same epoch.
    Stale,
    /// A higher epoch that has not sealed this worker.
    Unsealed,
}

/// The leader of the last seal.
#[derive(Debug)]
pub(super) struct Obeyed {
    epoch: Epoch,
    leader: LeaderId,
    /// True if it wants the times of reports.
    timed: bool,
    /// Time at which grants of a stale leader were refused last.
    refused_at: Option<Nanos>,
}

impl Obeyed {
    /// Obeys no leader, which is epoch 0.
    pub(super) fn none() -> Self {
        Self {
            epoch: 0,
            leader: LeaderId(0),
            timed: false,
            refused_at: None,
        }
    }

    /// The epoch; 0 before the first seal.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The epoch and its leader.
    pub(super) fn id(&self) -> (Epoch, LeaderId) {
        (self.epoch, self.leader)
    }

    /// True if the leader wants the times of reports.
    pub(super) fn wants_times(&self) -> bool {
        self.timed
    }

    /// The relation of a message to this leader.
    pub(super) fn standpoint(&self, epoch: Epoch, leader: LeaderId) -> Standpoint {
        if epoch > self.epoch {
            Standpoint::Unsealed
        } else if (epoch, leader) == self.id() && epoch > 0 {
            Standpoint::Obeyed
        } else {
            Standpoint::Stale
        }
    }

    /// Obeys the leader of a seal from now on.
    pub(super) fn begin(&mut self, seal: &Seal) {
        let (before, next) = (self.epoch, seal.epoch);
        invariant!(I3, next > before, "epoch {next} is obeyed after {before}");
        self.epoch = seal.epoch;
        self.leader = seal.leader;
        self.timed = seal.times;
    }

    /// The refusal of another leader.
    pub(super) fn refusal(&self) -> Refusal {
        Refusal {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.leader,
        }
    }

    /// The refusal of a stale leader's grants; `None` if one was sent less than `apart` ago.
    pub(super) fn refuse(&mut self, now: Nanos, apart: Nanos) -> Option<Refusal> {
        let due = self.refused_at.is_none_or(|at| now >= at + apart);
        due.then(|| {
            self.refused_at = Some(now);
            self.refusal()
        })
    }
}
