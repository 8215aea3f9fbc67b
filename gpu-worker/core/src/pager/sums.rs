//! Sums of the memory that sessions and tenants hold.

use std::collections::BTreeSet;

use bus_schemas::SessionId;

/// Granule of charges, bytes: an allocation is charged in multiples of this.
pub const GRANULE: u64 = 256;

/// The memory of one tenant.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// Bytes that it may hold.
    pub(super) quota: u64,
    /// True if a leader has named its quota, beside that of open grants.
    pub(super) is_set: bool,
    /// Bytes that its sessions have allocated once all admitted slices have run.
    pub(super) held: u64,
    /// The same, or the bytes committed to them if that is more.
    pub(super) live: u64,
    /// Maximum bytes that they can hold now, or the bytes committed to them.
    pub(super) charge: u64,
    /// Maximum bytes of those that are on the device.
    pub(super) present: u64,
    /// Its sessions on this worker.
    pub(super) sessions: BTreeSet<SessionId>,
}

impl Holding {
    pub(super) fn add(&mut self, before: Sums, after: Sums) {
        self.held = self.held - before.held + after.held;
        self.live = self.live - before.live + after.live;
        self.charge = self.charge - before.charge + after.charge;
        self.present = self.present - before.present + after.present;
    }
}

/// The part of a session in the sums of its tenant and of the device.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) held: u64,
    pub(super) live: u64,
    pub(super) charge: u64,
    pub(super) present: u64,
}
