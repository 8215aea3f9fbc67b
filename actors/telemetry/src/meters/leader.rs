//! A leader's measurements of its GPUs and of itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bus_schemas::{Epoch, InputNumber};

use super::times::{Durations, Times};
use crate::histogram::Histogram;

/// One GPU as the leader sees it.
#[derive(Debug, Default)]
pub struct GpuMeters {
    window_ns: AtomicU64,
    outstanding_ns: AtomicU64,
    granted: AtomicU64,
    voids: AtomicU64,
}

impl GpuMeters {
    /// Sets the current window, and the charged work that is granted and not done, in nanoseconds.
    pub fn window(&self, window_ns: u64, outstanding_ns: u64) {
        self.window_ns.store(window_ns, Relaxed);
        self.outstanding_ns.store(outstanding_ns, Relaxed);
    }

    /// Counts grants.
    pub fn granted(&self, grants: u64) {
        self.granted.fetch_add(grants, Relaxed);
    }

    /// Counts void positions.
    pub fn voided(&self, positions: u64) {
        self.voids.fetch_add(positions, Relaxed);
    }

    /// Returns window, outstanding work (nanoseconds), grants and voids.
    #[must_use]
    pub fn read(&self) -> [u64; 4] {
        [
            &self.window_ns,
            &self.outstanding_ns,
            &self.granted,
            &self.voids,
        ]
        .map(|value| value.load(Relaxed))
    }
}

/// Measurements that only a leader makes.
#[derive(Debug, Default)]
pub struct LeaderMeters {
    takeover: Times,
    epoch: AtomicU64,
    record_lag: AtomicU64,
    workers_lost: AtomicU64,
    durations: Arc<OnceLock<Durations>>,
}

impl LeaderMeters {
    pub(super) fn new(durations: Arc<OnceLock<Durations>>) -> Self {
        Self {
            durations,
            ..Self::default()
        }
    }

    /// Notes a term's first grant, `time` after the candidate noticed that no leader exists.
    pub fn takeover(&self, time: Duration) {
        self.takeover.record(time);
        if let Some(durations) = self.durations.get() {
            durations.takeover.record(time.as_secs_f64(), &[]);
        }
    }

    /// Sets the epoch in which this process leads; 0 while it does not lead.
    pub fn epoch(&self, epoch: Epoch) {
        self.epoch.store(epoch, Relaxed);
    }

    /// Sets the number of inputs applied and of inputs recorded.
    pub fn recorded(&self, applied: InputNumber, recorded: InputNumber) {
        self.record_lag
            .store(applied.saturating_sub(recorded), Relaxed);
    }

    /// Counts lost workers.
    pub fn lost(&self, workers: u64) {
        self.workers_lost.fetch_add(workers, Relaxed);
    }

    /// Returns the takeover times so far.
    #[must_use]
    pub fn takeovers(&self) -> Histogram {
        self.takeover.read()
    }

    /// Returns the current epoch, record lag and number of lost workers.
    #[must_use]
    pub fn read(&self) -> [u64; 3] {
        [&self.epoch, &self.record_lag, &self.workers_lost].map(|value| value.load(Relaxed))
    }
}
