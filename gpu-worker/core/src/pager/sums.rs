//! What sessions and tenants hold, in sums.

use std::collections::BTreeSet;

use bus_schemas::SessionId;

/// Allocations are charged in multiples of this, bytes.
pub const GRANULE: u64 = 256;

/// The memory of one tenant.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// Bytes that it may hold.
    pub(super) quota: u64,
    /// A leader has named its quota, beside what open grants say.
    pub(super) is_set: bool,
    /// Bytes that its sessions have allocated once everything admitted has run.
    pub(super) held: u64,
    /// The same, or what is committed to them where that is more.
    pub(super) live: u64,
    /// The most that they can hold now, or what is committed to them.
    pub(super) charge: u64,
    /// The most of it that is on the device.
    pub(super) present: u64,
    /// Its sessions here.
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

/// What a session adds to the sums of its tenant and of the device.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) held: u64,
    pub(super) live: u64,
    pub(super) charge: u64,
    pub(super) present: u64,
}
