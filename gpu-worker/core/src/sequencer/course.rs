//! A session's course under standing grants: how much of it is on the device, and how fast it is.

use bus_schemas::OpNumber;

/// Parts that a window on the device is made of at least.
const PARTS: u64 = 4;
/// Ops in a part at most.
const PART_OPS: u64 = 1_024;
/// An estimate falls by one part in this with each part that took less.
const EASE: u64 = 8;

/// How a session's ops come along under standing grants that go on from one another.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    /// Last op that ran, and the sum of what those that ran declare.
    pub(super) through: OpNumber,
    pub(super) declared: u64,
    /// Estimated nanoseconds on the device.
    pub(super) held: u64,
    /// Estimated nanoseconds of an op: what the last part's took, or a little less than before.
    pub(super) pace: u64,
}

impl Course {
    /// How many ops may be started now, with so much on the device at a time.
    pub(super) fn room(&self, window: u64) -> u64 {
        let part = (window / PARTS / self.pace).clamp(1, PART_OPS);
        let cost = self.pace.saturating_mul(part);
        let room = self.held == 0 || self.held.saturating_add(cost) <= window;
        if room { part } else { 0 }
    }

    /// A part of `ops` ops took this long.
    pub(super) fn learn(&mut self, ops: u64, measured: u64) {
        let mean = (measured / ops.max(1)).max(1);
        self.pace = mean.max(self.pace - self.pace / EASE);
    }
}
