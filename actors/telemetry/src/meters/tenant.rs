//! The times of a tenant's requests.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use bus_schemas::{GpuId, Tenant};
use opentelemetry::KeyValue;

use super::times::{Durations, Times, lock};
use crate::histogram::Histogram;

/// The times of one tenant, nanoseconds.
#[derive(Debug)]
pub struct TenantMeters {
    tenant: KeyValue,
    request: Times,
    queue: Times,
    execute: Times,
    queues: Mutex<Vec<Weak<QueueAge>>>,
    durations: Arc<OnceLock<Durations>>,
}

impl TenantMeters {
    pub(super) fn new(tenant: &Tenant, durations: Arc<OnceLock<Durations>>) -> Self {
        Self {
            tenant: tenant_attribute(tenant),
            request: Times::default(),
            queue: Times::default(),
            execute: Times::default(),
            queues: Mutex::default(),
            durations,
        }
    }

    /// Notes an answered request.
    pub fn request(&self, time: Duration) {
        self.request.record(time);
    }

    /// Adds a queue of the tenant. It counts until the result is dropped.
    pub fn add_queue(&self) -> Arc<QueueAge> {
        let age = Arc::new(QueueAge::new());
        let mut queues = lock(&self.queues);
        queues.retain(|it| it.strong_count() > 0);
        queues.push(Arc::downgrade(&age));
        age
    }

    /// Returns the time for which its oldest op in a queue waits; `None` without queues.
    #[must_use]
    pub fn oldest(&self) -> Option<Duration> {
        let queues = lock(&self.queues);
        queues
            .iter()
            .filter_map(Weak::upgrade)
            .map(|it| it.read())
            .max()
    }

    /// Returns the attribute that names it.
    pub(crate) fn attribute(&self) -> &KeyValue {
        &self.tenant
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

/// The age of the oldest op in a queue.
#[derive(Debug)]
pub struct QueueAge {
    began: Instant,
    /// Time at which the op arrived, nanoseconds after `began`; 0 if the queue is empty.
    since: AtomicU64,
}

impl QueueAge {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            since: AtomicU64::new(0),
        }
    }

    /// Sets the time at which the oldest op arrived.
    pub fn set(&self, oldest: Option<Instant>) {
        let since = |at: Instant| {
            let nanos = at.saturating_duration_since(self.began).as_nanos();
            u64::try_from(nanos).unwrap_or(u64::MAX).max(1)
        };
        self.since.store(oldest.map_or(0, since), Relaxed);
    }

    fn read(&self) -> Duration {
        match self.since.load(Relaxed) {
            0 => Duration::ZERO,
            since => self
                .began
                .elapsed()
                .saturating_sub(Duration::from_nanos(since)),
        }
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
