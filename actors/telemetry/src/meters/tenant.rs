//! The times of a tenant's requests.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bus_schemas::{GpuId, Tenant};
use opentelemetry::KeyValue;

use super::times::{Durations, Times};
use crate::histogram::Histogram;

/// The times of one tenant, nanoseconds.
#[derive(Debug)]
pub struct TenantMeters {
    tenant: KeyValue,
    request: Times,
    queue: Times,
    execute: Times,
    durations: Arc<OnceLock<Durations>>,
}

impl TenantMeters {
    pub(super) fn new(tenant: &Tenant, durations: Arc<OnceLock<Durations>>) -> Self {
        Self {
            tenant: tenant_attribute(tenant),
            request: Times::default(),
            queue: Times::default(),
            execute: Times::default(),
            durations,
        }
    }

    /// Notes an answered request.
    pub fn request(&self, time: Duration) {
        self.request.record(time);
        if let Some(durations) = self.durations.get() {
            durations
                .request
                .record(time.as_secs_f64(), std::slice::from_ref(&self.tenant));
        }
    }

    /// Notes the grant of an intent's last op, `time` after the intent came.
    pub fn queue(&self, time: Duration) {
        self.queue.record(time);
        if let Some(durations) = self.durations.get() {
            durations
                .queue
                .record(time.as_secs_f64(), std::slice::from_ref(&self.tenant));
        }
    }

    /// Notes a completed slice, `time` after its first op started.
    pub fn execute(&self, gpu: GpuId, time: Duration) {
        self.execute.record(time);
        if let Some(durations) = self.durations.get() {
            let attributes = [self.tenant.clone(), gpu_attribute(gpu)];
            durations.execute.record(time.as_secs_f64(), &attributes);
        }
    }

    /// Notes a move of a session's memory, out of the device or back.
    pub fn moved(&self, gpu: GpuId, out: bool, bytes: u64, time: Duration) {
        if let Some(durations) = self.durations.get() {
            let direction = KeyValue::new("warploom.direction", if out { "out" } else { "in" });
            let attributes = [self.tenant.clone(), gpu_attribute(gpu), direction];
            durations.swap.record(time.as_secs_f64(), &attributes);
            durations.swapped.add(bytes, &attributes);
        }
    }

    /// Returns the request times so far.
    #[must_use]
    pub fn requests(&self) -> Histogram {
        self.request.read()
    }

    /// Returns the queue times so far.
    #[must_use]
    pub fn queues(&self) -> Histogram {
        self.queue.read()
    }

    /// Returns the execution times so far.
    #[must_use]
    pub fn executions(&self) -> Histogram {
        self.execute.read()
    }
}

/// The attribute that names a tenant.
pub(crate) fn tenant_attribute(tenant: &Tenant) -> KeyValue {
    KeyValue::new("warploom.tenant", tenant.as_str().to_owned())
}

/// The attribute that names a GPU.
pub(crate) fn gpu_attribute(gpu: GpuId) -> KeyValue {
    KeyValue::new("warploom.gpu", i64::from(gpu))
}
