//! Measurements of a controller, and its last view of the cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bus_schemas::{Epoch, GpuId, Tenant};
use opentelemetry::KeyValue;

use super::times::{Durations, lock};

/// Activity of a tenant in the cluster, as reported by the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantReading {
    /// Open sessions.
    pub sessions: u64,
    /// Ops queued and not granted.
    pub queued: u64,
    /// The target, nanoseconds; 0 if none.
    pub target_ns: u64,
    /// Requests of the last minute.
    pub requests: u64,
    /// Of those, the requests that took no longer than the target.
    pub within: u64,
    /// The 99th percentile of those, nanoseconds.
    pub p99_ns: u64,
}

/// Memory of a tenant on a device in bytes, as reported by its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantMemoryReading {
    /// Bytes that its sessions have allocated.
    pub held: u64,
    /// Bytes on the device that are charged to it.
    pub resident: u64,
    /// Bytes of its sessions that are swapped out.
    pub swapped: u64,
    /// Bytes on the device that are not charged to it.
    pub saved: u64,
}

/// The cluster at a moment; the default if no leader answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterReading {
    /// The leader's epoch, if a leader answers.
    pub epoch: Option<Epoch>,
    /// Number of live workers, and of workers that get no new sessions.
    pub workers: [u64; 2],
    /// The tenants.
    pub tenants: BTreeMap<Tenant, TenantReading>,
    /// Memory of the tenants on each device.
    pub memory: BTreeMap<(GpuId, Tenant), TenantMemoryReading>,
    /// Maximum bytes that sessions may hold together on each device.
    pub capacity: BTreeMap<GpuId, u64>,
    /// Number of open event streams.
    pub streams: u64,
}

/// Result of a verification of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// True if the order is as recorded.
    pub same: bool,
    /// Time of the verification, milliseconds since 1970.
    pub at_ms: u64,
}

/// The price of a credit.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// The credit: `core` or `vram`.
    pub credit: &'static str,
    /// The ISO 4217 code of the currency.
    pub currency: String,
    /// The price.
    pub price: f64,
}

/// Measurements that only a controller makes.
#[derive(Debug, Default)]
pub struct ControllerMeters {
    /// Answers by operation and status; both come from fixed lists.
    answers: Mutex<BTreeMap<(&'static str, u16), u64>>,
    cluster: Mutex<ClusterReading>,
    verified: Mutex<Option<Verified>>,
    prices: OnceLock<Vec<Price>>,
    durations: Arc<OnceLock<Durations>>,
}

impl ControllerMeters {
    pub(super) fn new(durations: Arc<OnceLock<Durations>>) -> Self {
        Self {
            durations,
            ..Self::default()
        }
    }

    /// Sets the price list, once.
    pub fn prices(&self, prices: Vec<Price>) {
        let _ = self.prices.set(prices);
    }

    pub(crate) fn each_price(&self, see: impl FnMut(&Price)) {
        self.prices.get().into_iter().flatten().for_each(see);
    }

    /// Notes a request that was answered after `time`.
    pub fn answered(&self, operation: &'static str, status: u16, time: Duration) {
        *lock(&self.answers).entry((operation, status)).or_default() += 1;
        if let Some(durations) = self.durations.get() {
            let operation = KeyValue::new("warploom.operation", operation);
            let time = time.as_secs_f64();
            durations.answer.record(time, &[operation]);
        }
    }

    /// Sets the current view of the cluster.
    pub fn cluster(&self, reading: ClusterReading) {
        *lock(&self.cluster) = reading;
    }

    /// Sets the last verification of the order.
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
