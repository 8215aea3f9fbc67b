//! Accepted positions and standing grants: the state of each until it has ended.

use std::collections::VecDeque;

use bus_schemas::{
    GpuPosition, Grant, OpNumber, Outcome, ReportTimes, SealedGrant, Tenant, invariant,
};

use crate::Nanos;

/// An accepted position.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) position: GpuPosition,
    pub(super) grant: Grant,
    pub(super) ended: bool,
    pub(super) times: Begun,
}

/// Times of a position until its work is on the device.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Begun {
    pub(super) accepted: Nanos,
    pub(super) at: Nanos,
    /// Time for which it was the head and lacked its ops.
    pub(super) lacked: Nanos,
}

impl Begun {
    /// Returns all times, once the work has ended. `started` is the device's report, if any.
    pub(super) fn until(self, started: Option<Nanos>, ended: Nanos) -> ReportTimes {
        let begun = self.at.clamp(self.accepted, ended.max(self.accepted));
        ReportTimes {
            accepted: self.accepted,
            begun,
            lacked: self.lacked,
            started: started.unwrap_or(begun).clamp(begun, ended.max(begun)),
            ended,
        }
    }
}

/// Accepted positions without gaps, from the first that has not ended on, and an open standing grant behind
/// them. They are found by position, never by index.
#[derive(Debug, Default)]
pub(super) struct Pending(VecDeque<Accepted>);

impl Pending {
    fn index(&self, position: GpuPosition) -> Option<usize> {
        let first = self.0.front()?.position;
        usize::try_from(position.checked_sub(first)?).ok()
    }

    pub(super) fn get(&self, position: GpuPosition) -> Option<&Accepted> {
        self.0.get(self.index(position)?)
    }

    pub(super) fn get_mut(&mut self, position: GpuPosition) -> Option<&mut Accepted> {
        let index = self.index(position)?;
        self.0.get_mut(index)
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Accepted> {
        self.0.back_mut()
    }

    /// Adds the next position.
    pub(super) fn push(&mut self, accepted: Accepted) {
        let (position, last) = (accepted.position, self.0.back().map(|last| last.position));
        invariant!(
            I2,
            last.is_none_or(|last| position == last + 1),
            "position {position} is kept behind {last:?}"
        );
        self.0.push_back(accepted);
    }

    /// Notes that a position has ended. Returns its grant and its times, if it is known.
    pub(super) fn end(&mut self, position: GpuPosition) -> Option<(Grant, Begun)> {
        let index = self.index(position)?;
        let accepted = self.0.get_mut(index)?;
        accepted.ended = true;
        let ended = (accepted.grant, accepted.times);
        while self.0.pop_front_if(|accepted| accepted.ended).is_some() {}
        Some(ended)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Accepted> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An accepted grant as kept for replay, with its owner: its session may be closed and forgotten when a seal
/// asks.
#[derive(Debug)]
pub(super) struct KeptGrant {
    pub(super) sealed: SealedGrant,
    pub(super) tenant: Tenant,
    pub(super) ordinal: u64,
}

/// The end of a position.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) measured: u64,
    pub(super) last: OpNumber,
    pub(super) outcome: Outcome,
    pub(super) failed: bool,
    /// Start on the device, if the device reports it.
    pub(super) started: Option<Nanos>,
}

impl Ending {
    /// An end without a measured time and without a failure.
    pub(super) fn plain(last: OpNumber, outcome: Outcome) -> Self {
        Self {
            measured: 0,
            last,
            outcome,
            failed: false,
            started: None,
        }
    }
}

/// Ops on the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) first: OpNumber,
    pub(super) last: OpNumber,
    pub(super) cost: u64,
    pub(super) times: Begun,
}

/// A standing grant that has not ended.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) grant: Grant,
    pub(super) owner: (Tenant, u64),
    /// Last op started; the op before the first if none was.
    pub(super) started: OpNumber,
    /// The op that failed.
    pub(super) failed: Option<OpNumber>,
    /// True if parts of it did not run, because an earlier op of the session had failed.
    pub(super) skipped: bool,
    /// Parts started and not completed, in op order.
    pub(super) parts: VecDeque<Part>,
    /// Time since which it waits for an image.
    pub(super) waits: Option<Nanos>,
    /// Time since which it has ops that have not begun.
    pub(super) arrived: Option<Nanos>,
}

impl Standing {
    /// Estimated nanoseconds on the device.
    pub(super) fn cost(&self) -> u64 {
        let costs = self.parts.iter().map(|part| part.cost);
        costs.fold(0, u64::saturating_add)
    }

    /// Takes the completed part as a grant of its own, with its times.
    pub(super) fn take_part(&mut self, grant: &Grant) -> Option<(Grant, Begun)> {
        let part = self.parts.pop_front()?;
        let grant = Grant {
            first: part.first,
            last: part.last,
            cost: part.cost,
            ..*grant
        };
        Some((grant, part.times))
    }
}
