//! Launches under way, and equal ones behind one another.

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
    /// Time of its own, up to the last park.
    pub(super) spent: Duration,
}

impl Launched {
    /// Forgets it and its buffers.
    pub(super) fn drop_buffers(self) {
        Engine::forget(self.running);
    }
}

/// Launches of one kernel key, one behind the other. Reading the clock costs as much as a small
/// launch, so it is read where they begin and where they end. Each of them has ended within its
/// first stride, or is alone.
#[derive(Debug)]
pub(super) struct Streak {
    pub(super) key: KernelKey,
    pub(super) sms: u64,
    pub(super) began: Instant,
    /// Those that have ended.
    pub(super) count: u64,
    /// Their time from before they were parked.
    pub(super) spent: Duration,
}
