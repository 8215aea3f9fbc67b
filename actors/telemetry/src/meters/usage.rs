//! Usage and attainment of targets, as reported by workers and leaders.

use std::collections::BTreeMap;

use bus_schemas::{GpuId, Tenant};

/// Usage of tenants: totals that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotals {
    /// Launches run.
    pub launches: u64,
    /// SM-nanoseconds.
    pub sm_ns: u64,
    /// Device nanoseconds.
    pub device_ns: u64,
    /// Byte-milliseconds resident.
    pub byte_ms: u64,
}

impl UsageTotals {
    /// Core credits: SMs busy times seconds.
    #[must_use]
    pub fn core_credits(&self) -> f64 {
        self.sm_ns as f64 / 1e9
    }

    /// VRAM credits: GiB resident times seconds.
    #[must_use]
    pub fn vram_credits(&self) -> f64 {
        self.byte_ms as f64 / f64::from(1 << 30) / 1e3
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.launches, other.launches),
            (&mut self.sm_ns, other.sm_ns),
            (&mut self.device_ns, other.device_ns),
            (&mut self.byte_ms, other.byte_ms),
        ] {
            *mine = mine.saturating_add(theirs);
        }
    }
}

/// One incarnation's last usage, by tenant.
#[derive(Debug, Clone, Default)]
pub(crate) struct GpuUsage {
    pub(crate) gpu: GpuId,
    pub(crate) elapsed_ns: u64,
    pub(crate) active_ns: u64,
    pub(crate) starved_ns: u64,
    pub(crate) sm_ns: u64,
    pub(crate) saved: u64,
    pub(crate) tenants: BTreeMap<Tenant, UsageTotals>,
}

/// Memory of a tenant on a device, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryReading {
    /// Bytes that it may hold.
    pub total: u64,
    /// Bytes that its sessions have allocated.
    pub held: u64,
    /// Bytes on the device that are charged to it.
    pub resident: u64,
    /// Bytes that it may still allocate.
    pub free: u64,
    /// Bytes of its sessions that are swapped out.
    pub swapped: u64,
}

/// A tenant's target and its attainment, as counted by its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TargetReading {
    /// The target, nanoseconds; 0 if this process does not lead, or the tenant has none.
    pub target_ns: u64,
    /// The 99th percentile of the last minute's requests, nanoseconds.
    pub p99_ns: u64,
    /// Requests counted by this process.
    pub requests: u64,
    /// Of those, the requests that took no longer than the target.
    pub within: u64,
}
