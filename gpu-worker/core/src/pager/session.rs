//! The pager's count of one session's memory.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{ClientProcess, OpNumber, Place, Tenant};

use super::account::Uncharged;
use super::byte_time::ByteTime;
use super::commitment::Commitment;
use super::need::{Need, VariableHolder};
use super::sums::{GRANULE, Sums};
use super::swap::SessionSwap;

/// Bytes that an allocation of this size is charged.
pub(super) fn charged(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX)
}

/// A slice that was admitted and has not completed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    /// Its first op.
    pub(super) first: OpNumber,
    /// The highest sum of the session's memory while it runs, and the sum of allocations behind it.
    pub(super) peak: u64,
    pub(super) behind: u64,
    /// The highest sum of variables alone, and the sum behind it.
    pub(super) fixed_peak: u64,
    pub(super) fixed_behind: u64,
    /// Maximum bytes of a launch's first block that are not counted.
    pub(super) uncounted: u64,
}

/// The state of a session before a slice.
pub(super) struct Undo {
    live: u64,
    fixed: u64,
    /// `None` if the slice loads and unloads nothing.
    variables: Option<BTreeMap<VariableHolder, u64>>,
    /// Previous allocation at each address that changes, the latest last.
    pub(super) allocations: Vec<(u64, Option<u64>)>,
}

impl Undo {
    pub(super) fn of(memory: &SessionMemory, needs: &[Need]) -> Self {
        let changes = |need: &Need| matches!(need, Need::Load { .. } | Need::Unload { .. });
        let variables = needs.iter().any(changes);
        Self {
            live: memory.live,
            fixed: memory.fixed,
            variables: variables.then(|| memory.variables.clone()),
            allocations: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub(super) struct SessionMemory {
    pub(super) tenant: Tenant,
    /// Allocations once all admitted slices have run: first address and charged bytes.
    pub(super) allocations: BTreeMap<u64, u64>,
    /// Their sum.
    pub(super) live: u64,
    /// The sum when the last completed slice had run.
    pub(super) completed: u64,
    /// Slices admitted and not completed.
    pub(super) running: VecDeque<Running>,
    /// Maximum bytes that the session can hold now, variables included.
    pub(super) charge: u64,
    /// Memory that it holds beside allocations once all admitted slices have run, and the sum.
    pub(super) variables: BTreeMap<VariableHolder, u64>,
    pub(super) fixed: u64,
    /// The same sum when the last completed slice had run, and its maximum now.
    pub(super) fixed_completed: u64,
    pub(super) fixed_charge: u64,
    /// Maximum bytes of a first block in progress uncounted: the session's launches run one by one.
    pub(super) uncounted: u64,
    /// Its commitment; `None` if its client never asks.
    pub(super) commitment: Option<Commitment>,
    /// True if the session is being closed, and all its memory will be free.
    pub(super) closing: bool,
    pub(super) usage: ByteTime,
    /// Bytes that it holds and is not charged for.
    pub(super) uncharged: Uncharged,
    pub(super) swap: SessionSwap,
    /// The client process, if reported.
    pub(super) process: Option<Box<ClientProcess>>,
}

impl SessionMemory {
    pub(super) fn new(tenant: Tenant, usage: ByteTime) -> Self {
        Self {
            tenant,
            allocations: BTreeMap::new(),
            live: 0,
            completed: 0,
            running: VecDeque::new(),
            variables: BTreeMap::new(),
            fixed: 0,
            fixed_completed: 0,
            fixed_charge: 0,
            uncounted: 0,
            charge: 0,
            commitment: None,
            closing: false,
            usage,
            uncharged: Uncharged::default(),
            swap: SessionSwap::default(),
            process: None,
        }
    }

    /// Bytes committed to it.
    pub(super) fn committed(&self) -> u64 {
        self.commitment.as_ref().map_or(0, Commitment::bytes)
    }

    /// Bytes allocated once all admitted slices have run, variables included.
    pub(super) fn held(&self) -> u64 {
        self.live + self.fixed
    }

    /// Maximum bytes of it on the device, with those kept for it there.
    pub(super) fn present(&self) -> u64 {
        match self.swap.place {
            Place::Out => 0,
            Place::Resident | Place::Leaving | Place::Coming => self.charge + self.swap.kept,
        }
    }

    /// Memory that no other session may have.
    pub(super) fn sums(&self) -> Sums {
        let committed = self.committed();
        Sums {
            held: self.held(),
            present: self.present(),
            live: self.live.max(committed) + self.fixed,
            charge: self.charge.max(committed + self.fixed_charge),
        }
    }

    /// Computes the session's charge anew.
    pub(super) fn recharge(&mut self) {
        let running = self.running.iter();
        let fixed = running.clone().map(|slice| slice.fixed_peak);
        self.fixed_charge = fixed.fold(self.fixed_completed, u64::max);
        let uncounted = running.clone().map(|slice| slice.uncounted);
        self.uncounted = uncounted.max().unwrap_or(0);
        let peaks = running.map(|slice| slice.peak);
        self.charge = peaks.fold(self.completed + self.fixed_completed, u64::max);
    }

    /// Undoes the effects of a slice that must wait.
    pub(super) fn restore(&mut self, undo: Undo) {
        (self.live, self.fixed) = (undo.live, undo.fixed);
        if let Some(variables) = undo.variables {
            self.variables = variables;
        }
        for (address, bytes) in undo.allocations.into_iter().rev() {
            match bytes {
                Some(bytes) => self.allocations.insert(address, bytes),
                None => self.allocations.remove(&address),
            };
        }
    }
}
