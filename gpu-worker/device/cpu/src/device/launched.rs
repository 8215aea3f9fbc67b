//! Launches under way, and runs of equal ones.

use std::time::{Duration, Instant};

use bus_schemas::{KernelKey, Launch};

use crate::engine::{Engine, Running};

/// A launch in progress, or one that has ended.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) running: Box<Running>,
    pub(super) of: Launch,
    pub(super) key: KernelKey,
    /// Threads that its blocks can occupy.
    pub(super) sms: u64,
    /// Its own run time up to the last park.
    pub(super) spent: Duration,
}

impl Launched {
    /// Drops the launch and its buffers.
    pub(super) fn drop_buffers(self) {
        Engine::forget(self.running);
    }
}

/// Consecutive launches of one kernel key. Reading the clock costs as much as a small launch, so it
/// is read only at the start and at the end of the streak. Each launch of a streak ended within its
/// first stride, or is alone.
#[derive(Debug)]
pub(super) struct Streak {
    pub(super) key: KernelKey,
    pub(super) sms: u64,
    pub(super) began: Instant,
    /// Number of launches that have ended.
    pub(super) count: u64,
    /// Their run time from before they were parked.
    pub(super) spent: Duration,
}
