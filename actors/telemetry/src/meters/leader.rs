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
    /// The window in force, and the charged work granted and not done, nanoseconds.
    pub fn window(&self, window_ns: u64, outstanding_ns: u64) {
        self.window_ns.store(window_ns, Relaxed);
        self.outstanding_ns.store(outstanding_ns, Relaxed);
    }

    /// Grants were made.
    pub fn granted(&self, grants: u64) {
        self.granted.fetch_add(grants, Relaxed);
    }

    /// Positions were void.
    pub fn voided(&self, positions: u64) {
        self.voids.fetch_add(positions, Relaxed);
    }

    /// Window, outstanding (nanoseconds), grants and voids.
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

/// What only a leader knows.
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

    /// A term's first grant was made, `time` after the candidate noticed there was no leader.
    pub fn takeover(&self, time: Duration) {
        self.takeover.record(time);
        if let Some(durations) = self.durations.get() {
            durations.takeover.record(time.as_secs_f64(), &[]);
        }
    }

    /// The epoch this process leads; 0 while it does not.
    pub fn epoch(&self, epoch: Epoch) {
        self.epoch.store(epoch, Relaxed);
    }

    /// Inputs applied and inputs recorded.
    pub fn recorded(&self, applied: InputNumber, recorded: InputNumber) {
        self.record_lag
            .store(applied.saturating_sub(recorded), Relaxed);
    }

    /// Workers were lost.
    pub fn lost(&self, workers: u64) {
        self.workers_lost.fetch_add(workers, Relaxed);
    }

    /// Takeover times so far.
    #[must_use]
    pub fn takeovers(&self) -> Histogram {
        self.takeover.read()
    }

    /// Epoch led, record lag and workers lost.
    #[must_use]
    pub fn read(&self) -> [u64; 3] {
        [&self.epoch, &self.record_lag, &self.workers_lost].map(|value| value.load(Relaxed))
    }
}
