//! The memory of one session, as the pager counts it.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{ClientProcess, OpNumber, Tenant};

use super::commitment::Commitment;
use super::residency::Residency;
use super::sums::{GRANULE, Sums};

/// What an allocation of so many bytes is charged.
pub(super) fn charged(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX)
}

#[derive(Debug)]
pub(super) struct SessionMemory {
    pub(super) tenant: Tenant,
    /// Allocations once everything admitted has run: first address and charged bytes.
    pub(super) allocations: BTreeMap<u64, u64>,
    /// Their sum.
    pub(super) live: u64,
    /// The sum when the last completed slice had run.
    pub(super) completed: u64,
    /// Slices admitted and not completed: first op, highest sum while it runs, sum behind it.
    pub(super) running: VecDeque<(OpNumber, u64, u64)>,
    /// The most the session can hold now.
    pub(super) charge: u64,
    /// What it may hold by the worker's word; none where its client never asks.
    pub(super) commitment: Option<Commitment>,
    /// It is being closed: all that it holds will be free.
    pub(super) closing: bool,
    pub(super) usage: Residency,
    /// The process that has it, where its client says so.
    pub(super) process: Option<Box<ClientProcess>>,
}

impl SessionMemory {
    pub(super) fn new(tenant: Tenant, usage: Residency) -> Self {
        Self {
            tenant,
            allocations: BTreeMap::new(),
            live: 0,
            completed: 0,
            running: VecDeque::new(),
            charge: 0,
            commitment: None,
            closing: false,
            usage,
            process: None,
        }
    }

    /// Bytes committed to it.
    pub(super) fn committed(&self) -> u64 {
        self.commitment.as_ref().map_or(0, Commitment::bytes)
    }

    /// What nobody else may have.
    pub(super) fn sums(&self) -> Sums {
        let committed = self.committed();
        Sums {
            held: self.live,
            live: self.live.max(committed),
            charge: self.charge.max(committed),
        }
    }

    /// Counts what the session can hold now anew.
    pub(super) fn recharge(&mut self) {
        let peaks = self.running.iter().map(|(_, peak, _)| *peak);
        self.charge = peaks.fold(self.completed, u64::max);
    }

    /// Takes back what a slice did that must wait: what was at each address, the latest last.
    pub(super) fn restore(&mut self, live: u64, undo: Vec<(u64, Option<u64>)>) {
        self.live = live;
        for (address, bytes) in undo.into_iter().rev() {
            match bytes {
                Some(bytes) => self.allocations.insert(address, bytes),
                None => self.allocations.remove(&address),
            };
        }
    }
}
