//! What a controller measures of itself, and what it was told of the cluster last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bus_schemas::{Epoch, GpuId, Tenant};
use opentelemetry::KeyValue;

use super::times::{Durations, lock};

/// What a tenant does in the cluster, by the leader's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantReading {
    /// Open sessions.
    pub sessions: u64,
    /// Ops queued and not granted.
    pub queued: u64,
    /// The target, nanoseconds; 0 without one.
    pub target_ns: u64,
    /// Requests of the last minute.
    pub requests: u64,
    /// Of those, such as took no longer than the target.
    pub within: u64,
    /// The 99th percentile of those, nanoseconds.
    pub p99_ns: u64,
}

/// What a tenant has of a device, by its worker's word, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantMemoryReading {
    /// That its sessions have allocated.
    pub held: u64,
    /// On the device that it is charged.
    pub resident: u64,
    /// Of its sessions that are swapped out.
    pub swapped: u64,
    /// On the device that it is not charged.
    pub saved: u64,
}

/// The cluster at a moment; as by default where no leader answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterReading {
    /// The leader's epoch, where one answers.
    pub epoch: Option<Epoch>,
    /// Workers that are live, and that get no new sessions.
    pub workers: [u64; 2],
    /// The tenants.
    pub tenants: BTreeMap<Tenant, TenantReading>,
    /// What they have of each device.
    pub memory: BTreeMap<(GpuId, Tenant), TenantMemoryReading>,
    /// What sessions may hold together on each device.
    pub capacity: BTreeMap<GpuId, u64>,
    /// Open streams of events.
    pub streams: u64,
}

/// How a verification of the order ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Whether the order is as recorded.
    pub same: bool,
    /// When that was found, milliseconds since 1970.
    pub at_ms: u64,
}

/// What only a controller knows.
#[derive(Debug, Default)]
pub struct ControllerMeters {
    /// Answers by operation and status: both from lists that do not grow.
    answers: Mutex<BTreeMap<(&'static str, u16), u64>>,
    cluster: Mutex<ClusterReading>,
    verified: Mutex<Option<Verified>>,
    durations: Arc<OnceLock<Durations>>,
}

impl ControllerMeters {
    pub(super) fn new(durations: Arc<OnceLock<Durations>>) -> Self {
        Self {
            durations,
            ..Self::default()
        }
    }

    /// A request was answered, `time` after it came.
    pub fn answered(&self, operation: &'static str, status: u16, time: Duration) {
        *lock(&self.answers).entry((operation, status)).or_default() += 1;
        if let Some(durations) = self.durations.get() {
            let operation = KeyValue::new("warploom.operation", operation);
            let time = time.as_secs_f64();
            durations.answer.record(time, &[operation]);
        }
    }

    /// The cluster is like this now.
    pub fn cluster(&self, reading: ClusterReading) {
        *lock(&self.cluster) = reading;
    }

    /// The order was verified.
    pub fn verified(&self, verified: Verified) {
        *lock(&self.verified) = Some(verified);
    }

    pub(crate) fn each_answer(&self, mut see: impl FnMut(&'static str, u16, u64)) {
        for ((operation, status), count) in &*lock(&self.answers) {
            see(operation, *status, *count);
        }
    }

    pub(crate) fn see_cluster(&self, see: impl FnOnce(&ClusterReading)) {
        see(&lock(&self.cluster));
    }

    pub(crate) fn last_verified(&self) -> Option<Verified> {
        *lock(&self.verified)
    }
}
