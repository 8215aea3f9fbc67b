//! The tally of one slice's needs, taken one after the other.

use bus_schemas::{Code, Failure, OpNumber};

use super::need::{Need, VariableHolder};
use super::session::{Running, SessionMemory, Undo, charged};
use super::sums::Holding;

/// A slice's needs against the memory of other sessions.
pub(super) struct Tally<'a> {
    pub(super) memory: &'a mut SessionMemory,
    /// Bytes that fit on the device, that all sessions may hold, and that this session may hold.
    pub(super) capacity: u64,
    pub(super) limit: u64,
    pub(super) most: u64,
    /// Bytes of a launch's first block that are not counted.
    pub(super) first_block: u64,
    /// Bytes of first blocks that others leave uncounted, and the maximum that this slice takes of them.
    pub(super) first_blocks: u64,
    pub(super) uncounted: u64,
    /// True if a launch finds no room because others have first blocks in progress.
    pub(super) lacks_first_block: bool,
    pub(super) quota: u64,
    /// The quota for the blocks of launches.
    pub(super) launch_quota: u64,
    /// Bytes of other sessions once all admitted slices have run: on the device, of the tenant.
    pub(super) others: (u64, u64),
    /// Maximum bytes that those can hold now, and so while the slice runs: on the device, of the tenant.
    pub(super) beside: (u64, u64),
    /// Bytes of other sessions on the device now.
    pub(super) present: u64,
    /// Maximum bytes that the session holds while the slice runs, variables included.
    pub(super) peak: u64,
    /// Maximum bytes that it holds beside allocations while the slice runs.
    pub(super) fixed_peak: u64,
    /// The state before the slice.
    pub(super) undo: Undo,
    pub(super) granted: &'a mut Vec<(OpNumber, u64)>,
}

impl Tally<'_> {
    /// Takes a need. Returns the op and the failure if it cannot be met even after a wait.
    pub(super) fn take(&mut self, need: &Need) -> Result<(), (OpNumber, Failure)> {
        match *need {
            Need::Alloc { op, address, bytes } => self
                .allocate(address, bytes)
                .map_err(|failure| (op, failure)),
            Need::Free { address } => {
                let old = self.memory.allocations.remove(&address);
                self.undo.allocations.push((address, old));
                self.memory.live -= old.unwrap_or(0);
                Ok(())
            }
            Need::Move { to, from } => {
                self.relocate(to, from);
                Ok(())
            }
            Need::Load { op, holder, bytes } => self
                .load(holder, charged(bytes))
                .map_err(|failure| (op, failure)),
            Need::Unload { slot } => {
                let old = self.memory.variables.remove(&VariableHolder::Slot(slot));
                self.memory.fixed -= old.unwrap_or(0);
                Ok(())
            }
            Need::Launch { op, least, most } => {
                let bytes = self.launch(least, most).map_err(|failure| (op, failure))?;
                self.granted.push((op, bytes));
                Ok(())
            }
        }
    }

    /// Loads the variables of a module, in place of those of the one before.
    fn load(&mut self, holder: VariableHolder, bytes: u64) -> Result<(), Failure> {
        let (limits, tenant) = (self.limits(), self.others.1);
        let memory = &mut *self.memory;
        let old = memory.variables.get(&holder).copied().unwrap_or(0);
        let own = memory.live.max(memory.committed()) + memory.fixed - old;
        let would = own.saturating_add(bytes);
        let refused = if bytes <= old {
            None
        } else if tenant.saturating_add(would) > self.quota {
            Some(over_quota(bytes, self.quota, tenant + own))
        } else {
            over_limit(limits, bytes, would, own)
        };
        if let Some(failure) = refused {
            let detail = format!("variables of a module: {}", failure.detail);
            return Err(Failure::new(failure.code, detail));
        }
        memory.variables.insert(holder, bytes);
        memory.fixed = memory.fixed - old + bytes;
        self.fixed_peak = self.fixed_peak.max(memory.fixed);
        self.peak = self.peak.max(memory.live + memory.fixed);
        Ok(())
    }

    /// Moves a charge with its allocation. If there is none, or the target is allocated, the op fails on the
    /// device.
    fn relocate(&mut self, to: u64, from: u64) {
        let allocations = &mut self.memory.allocations;
        let Some(bytes) = allocations.get(&from).copied() else {
            return;
        };
        if allocations.contains_key(&to) {
            return;
        }
        allocations.remove(&from);
        allocations.insert(to, bytes);
        let changes = [(from, Some(bytes)), (to, None)];
        self.undo.allocations.extend(changes);
    }

    fn allocate(&mut self, address: u64, bytes: u64) -> Result<(), Failure> {
        let (limits, tenant) = (self.limits(), self.others.1);
        let memory = &mut *self.memory;
        let charged = charged(bytes);
        let would = memory.live.saturating_add(charged);
        // A session may use its commitment even if the quota has been lowered since.
        if would > memory.committed() {
            let (own, would) = (
                memory.live + memory.fixed,
                would.saturating_add(memory.fixed),
            );
            if tenant.saturating_add(would) > self.quota {
                return Err(over_quota(bytes, self.quota, tenant + own));
            }
            if let Some(failure) = over_limit(limits, bytes, would, own) {
                return Err(failure);
            }
        }
        let old = memory.allocations.insert(address, charged);
        self.undo.allocations.push((address, old));
        memory.live = would - old.unwrap_or(0);
        self.peak = self.peak.max(would.saturating_add(memory.fixed));
        Ok(())
    }

    /// Returns the bytes that the blocks of a launch may take: those that `most` can use, as far as there is
    /// room while others run, and at least one block's.
    fn launch(&mut self, least: u64, most: u64) -> Result<u64, Failure> {
        let live = self.memory.live + self.memory.fixed;
        let (room, quota) = (self.room(self.others, self.limit), self.launch_quota);
        let may = least.min(self.first_block);
        let own = may.min(self.first_blocks);
        if least - may <= room && least - own > room {
            // The slice waits; its bytes are decided when it is granted.
            self.lacks_first_block = true;
            return Ok(least);
        }
        self.uncounted = self.uncounted.max(own);
        if least - own > room {
            let (device, tenant) = (self.others.0 + live, self.others.1 + live);
            let failure = match least > quota.saturating_sub(tenant) {
                true => over_quota(least, quota, tenant),
                false => over_capacity(least, self.limit, device),
            };
            let detail = format!("one block of the kernel: {}", failure.detail);
            return Err(Failure::new(failure.code, detail));
        }
        let (_, tenant) = self.beside;
        let now = self.room(self.beside, self.limit);
        let now = now.min(self.room((self.present, tenant), self.capacity));
        let now = now.saturating_add(own).max(least);
        let bytes = most.min(room.saturating_add(own)).min(now);
        self.peak = self.peak.max(live + (bytes - own));
        Ok(bytes)
    }

    /// Bytes that the session may still take if others hold this much of this limit.
    fn room(&self, (device, tenant): (u64, u64), of: u64) -> u64 {
        let all = of.saturating_sub(device).min(self.most);
        let room = all.min(self.launch_quota.saturating_sub(tenant));
        room.saturating_sub(self.memory.live + self.memory.fixed)
    }

    fn limits(&self) -> Limits {
        Limits {
            all: self.limit,
            own: self.most,
            others: self.others.0,
        }
    }

    /// Returns the slice as it runs from op `first` on, and the state before it.
    pub(super) fn end(self, first: OpNumber) -> (Running, Undo) {
        let running = Running {
            first,
            peak: self.peak,
            behind: self.memory.live,
            fixed_peak: self.fixed_peak,
            fixed_behind: self.memory.fixed,
            uncounted: self.uncounted,
        };
        (running, self.undo)
    }
}

/// Limits of all sessions and of one session, and the bytes that the other sessions hold.
struct Limits {
    all: u64,
    own: u64,
    others: u64,
}

/// Returns the failure if a session that has `own` bytes cannot have `would`.
fn over_limit(limits: Limits, bytes: u64, would: u64, own: u64) -> Option<Failure> {
    if limits.others.saturating_add(would) > limits.all {
        Some(over_capacity(bytes, limits.all, limits.others + own))
    } else if would > limits.own {
        Some(over_most(bytes, limits.own, own))
    } else {
        None
    }
}

/// Bytes that a tenant's sessions may hold with the blocks of these launches. A tenant above a lowered quota
/// goes on with one block at a time.
pub(super) fn quota_for_launches(tenant: &Holding, needs: &[Need]) -> u64 {
    if tenant.live <= tenant.quota {
        return tenant.quota;
    }
    let blocks = needs.iter().map(|need| match need {
        Need::Launch { least, .. } => *least,
        _ => 0,
    });
    tenant.live.saturating_add(blocks.max().unwrap_or(0))
}

pub(super) fn over_quota(bytes: u64, quota: u64, held: u64) -> Failure {
    Failure::new(
        Code::Quota,
        format!("{bytes} bytes do not fit: the tenant holds {held} of its quota of {quota}"),
    )
}

pub(super) fn over_capacity(bytes: u64, capacity: u64, held: u64) -> Failure {
    Failure::new(
        Code::OutOfMemory,
        format!("{bytes} bytes do not fit: {held} of the device's {capacity} are held"),
    )
}

/// The failure of a session above its limit: the device without the memory that does not leave it.
pub(super) fn over_most(bytes: u64, most: u64, held: u64) -> Failure {
    Failure::new(
        Code::OutOfMemory,
        format!("{bytes} bytes do not fit: the session holds {held}, and may hold {most}"),
    )
}
